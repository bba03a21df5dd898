"""Processes that compile for benchmarks/kernels.py ahead of the GPU."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tuner.bench.devices.nvidia import compile_hip_for
from tuner.bench.languages.hip import hip_source
from tuner.bench.languages.triton import TritonLanguage
from tuner.domain.job import Kernel
from tuner.errors import TrialError


def compile_ahead(kernel: Kernel, architecture: str, cache_dir: Path) -> None:
    """Compile into the caches that the measuring process reads; what fails will fail there too."""
    try:
        for step in kernel.launches:
            if step.language == "hip":
                compile_hip_for(hip_source(step), architecture, cache_dir=cache_dir)
            else:
                TritonLanguage().compile_for(step, architecture, 32)
    except TrialError:
        return


def builders(cache_dir: Path) -> ProcessPoolExecutor:
    """Return processes that compile ahead, one a core but two.

    They are forks of this one, which have PyTorch imported already: call it before CUDA is used.
    Where Triton keeps its builds is fixed here, in both: left alone, torch.compile sets it in this
    process at its first use (torch/_inductor/runtime, only where it is not set), to a place where
    the builders have put nothing.
    """
    os.environ["TRITON_CACHE_DIR"] = str(cache_dir / "triton")
    count = max(1, (os.cpu_count() or 2) - 2)
    pool = ProcessPoolExecutor(count, mp_context=get_context("fork"))
    pool.submit(str).result()  # starts them all
    return pool
