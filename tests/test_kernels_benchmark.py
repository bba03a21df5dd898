"""What the benchmark of the kernels does without a GPU."""

from __future__ import annotations

import csv
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FACTS = {"command": "python benchmarks/kernels.py", "device": "made up"}

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


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes the tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("kernels_page")


def test_copy_speed_is_that_of_the_faster_copy_and_both_are_columns(
    page: ModuleType, tmp_path: Path
) -> None:
    times_us = {"copy": 150.0, "copy-triton": 96.0, "torch": 120.0, "hip-vector": 100.0}
    row = page.Row(1024, 131072, "float32", "cold", times_us, {"hip-vector": "BLOCK=256"}, 0.1)
    assert row.of_copy == pytest.approx(0.96)
    page.write(tmp_path / "table", [row], FACTS)
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        [written] = csv.DictReader(file)
    assert (written["copy_us"], written["copy-triton_us"]) == ("150.000", "96.000")
    assert "| 0.960 |" in (tmp_path / "table.md").read_text("utf-8")
