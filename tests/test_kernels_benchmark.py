"""What the benchmark of the kernels does without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Torch is not there: what it does at the first torch.compile is done in its place.
BUILD_AHEAD = """
import os, sys
from pathlib import Path
from kernels_builders import builders
from kernels_builders import compile_ahead
from tuner.bench.languages.triton import TritonLanguage
from tuner.domain.device import DeviceFacts
from tuner.operator import load_operator

operator, cache_dir = load_operator(Path(sys.argv[1])), Path(sys.argv[2])
row, workload = operator.implementation("triton-row"), operator.workload((8, 1000))
config = {"BLOCK_SIZE": 1024, "num_warps": 4}
kernel = operator.kernel(row, operator.source(row), config, workload)
pool = builders(cache_dir)
if "TRITON_CACHE_DIR" not in os.environ:
    os.environ["TRITON_CACHE_DIR"] = str(cache_dir / "inductor")
pool.submit(compile_ahead, kernel, "sm_90", cache_dir).result()
assert TritonLanguage().compile_for(kernel, "sm_90", 32).cached
"""


def test_builds_ahead_are_found_whatever_torch_sets_afterwards(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    left_out = ("TRITON_CACHE_DIR", "TRITON_INTERPRET")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    done = subprocess.run(
        [sys.executable, "-c", BUILD_AHEAD, str(ROOT / "kernels" / "rmsnorm"), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT / "benchmarks"), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
