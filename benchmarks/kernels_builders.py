"""Processes that compile for benchmarks/kernels.py ahead of the GPU."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

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


class Builders(NamedTuple):
    """Processes that compile.

    Attributes:
        urgent: What is waited for.
        ahead: What cells to come need; they give way to all others.
    """

    urgent: ProcessPoolExecutor
    ahead: ProcessPoolExecutor

    def shut_down(self) -> None:
        """End them without what waits."""
        for pool in self:
            pool.shutdown(wait=False, cancel_futures=True)


def builders(cache_dir: Path) -> Builders:
    """Return processes that compile, one a core but two of either kind.

    They are forks of this one, which have PyTorch imported already: call it before CUDA is used.
    Where Triton keeps its builds is fixed here, in both: left alone, torch.compile sets it in this
    process at its first use (torch/_inductor/runtime, only where it is not set), to a place where
    the builders have put nothing.
    """
    os.environ["TRITON_CACHE_DIR"] = str(cache_dir / "triton")
    return Builders(_pool(niceness=5), _pool(niceness=15))


def _pool(niceness: int) -> ProcessPoolExecutor:
    count = max(1, (os.cpu_count() or 2) - 2)
    fork = get_context("fork")
    pool = ProcessPoolExecutor(count, fork, initializer=os.nice, initargs=(niceness,))
    pool.submit(str).result()  # starts them all
    return pool
