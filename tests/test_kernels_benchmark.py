"""What the benchmark of the kernels does without a GPU."""

from __future__ import annotations

import csv
import importlib
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import config_text
from tuner.domain.job import Kernel
from tuner.operator import load_operator

ROOT = Path(__file__).resolve().parent.parent
FACTS = {"command": "python benchmarks/kernels.py", "device": "made up"}
H200 = DeviceFacts(
    "cuda:0", "cuda", "sm_90", "made up", 132, 32, 1024, (2**31 - 1, 65535, 65535), 2**63 - 1,
    232_448, 255, 2**37, 60 * 2**20, "device-event",
)  # fmt: skip

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


class DonePool:
    """Builders that have built everything at once."""

    def __init__(self) -> None:
        self.submitted: list[str] = []

    def submit(self, _compile: Any, kernel: Kernel, *_where: Any) -> Future[None]:
        self.submitted.append(config_text({**kernel.constants, **kernel.options}))
        done: Future[None] = Future()
        done.set_result(None)
        return done


class NoLanguage:
    """Builds nothing; what comes out only knows its kernel."""

    def build(self, kernel: Kernel, _device: Any) -> SimpleNamespace:
        return SimpleNamespace(kernel=kernel, report=SimpleNamespace(cached=True))


def test_each_climb_tries_what_is_untried_near_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = importlib.import_module("kernels_search")
    monkeypatch.setitem(module.EFFORT, "hip", module.Effort(0, 0, 40))
    operator, pool = load_operator(ROOT / "kernels" / "rmsnorm"), DonePool()
    device = SimpleNamespace(facts=H200)
    search = module.Search(operator, ["hip-vector"], device, Path(), pool)
    search._languages = {"hip": NoLanguage()}
    workload = operator.workload((65536, 1024))

    def time_us(executable: SimpleNamespace) -> float:
        """Least where a row has few threads, and more is read early."""
        constants = executable.kernel.constants
        return 1.0 + constants["LANES"] / 1024 + constants["VECTOR"] - constants["EARLY"] / 2

    search.begin(workload)
    times_us = []
    for _ in range(3):
        search.time(workload, time_us)
        times_us.append(search._found[workload.key]["hip-vector"].best[0])
        search.climb(workload)
    search.time(workload, time_us)
    assert len(pool.submitted) == 1 + 3 * 40
    assert times_us[0] > times_us[1] > times_us[2]
    [(name, config, _)] = search.best(workload)
    assert (name, config["VECTOR"]) == ("hip-vector", 1)
