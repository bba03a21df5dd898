"""What the benchmark of the kernels does without a GPU."""

from __future__ import annotations

import csv
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import config_text
from tuner.domain.job import Kernel
from tuner.domain.workload import Workload
from tuner.operator import load_operator
from tuner.operator import Operator

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
pool = builders(cache_dir).ahead
if "TRITON_CACHE_DIR" not in os.environ:
    os.environ["TRITON_CACHE_DIR"] = str(cache_dir / "inductor")
pool.submit(compile_ahead, kernel, "sm_90", cache_dir).result()
assert TritonLanguage().compile_for(kernel, "sm_90", 32).cached
"""


def test_builds_ahead_are_found_whatever_torch_sets_afterwards(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    left_out = ("TRITON_CACHE_DIR", "TRITON_INTERPRET")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    python_path = os.pathsep.join([str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", BUILD_AHEAD, str(ROOT / "kernels" / "rmsnorm"), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": python_path, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return what imports a file of the benchmark."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


@pytest.fixture
def page(module: Callable[[str], ModuleType]) -> ModuleType:
    """The file that writes the tables."""
    return module("kernels_page")


@pytest.fixture
def make_row(module: Callable[[str], ModuleType]) -> Callable[..., Any]:
    """Return a maker of what was measured of a cell; ours are known by the dash in their names."""

    def make(shape: tuple[int, int], cache: str = "cold", **options: Any) -> Any:
        times_us = options.pop("times_us")
        configs = {name: "A=1" for name in times_us if name.startswith(("hip-", "triton-"))}
        workload = Workload("rmsnorm", shape, **options)
        return module("kernels_row").Row(workload, cache, times_us, configs, 0.1)

    return make


def test_copy_speed_is_that_of_the_faster_copy_and_both_are_columns(
    page: ModuleType, make_row: Callable[..., Any], tmp_path: Path
) -> None:
    times_us = {"copy": 150.0, "copy-triton": 96.0, "torch": 120.0, "hip-vector": 100.0}
    row = make_row((1024, 131072), times_us=times_us)
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


def search_without_gpu(
    kernels_search: ModuleType, operator: Operator, pool: DonePool, known: Any = None
) -> Any:
    device = SimpleNamespace(facts=H200)
    builders = SimpleNamespace(urgent=pool, ahead=pool)
    known = known or kernels_search.Known(None)
    search = kernels_search.Search(operator, ["hip-vector"], device, Path(), builders, known)
    search._languages = {"hip": NoLanguage()}
    return search


def test_two_cells_of_one_workload_are_searched_one_after_the_other(
    module: Callable[[str], ModuleType],
) -> None:
    operator = load_operator(ROOT / "kernels" / "rmsnorm")
    search = search_without_gpu(module("kernels_search"), operator, DonePool())
    workload = operator.workload((65536, 1024))
    search.begin(workload)  # both ahead
    search.begin(workload)
    for _ in range(2):
        search.begin(workload)
        search.time(workload, lambda _executable: 1.0)
        assert len(list(search.best(workload, lambda _executable: 1.0))) == 1


def test_a_cell_begins_with_the_best_configs_of_earlier_runs(
    module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernels_search = module("kernels_search")
    monkeypatch.setitem(kernels_search.EFFORT, "hip", kernels_search.Effort(0, 0, 0))
    operator, file = load_operator(ROOT / "kernels" / "rmsnorm"), tmp_path / "known.csv"
    workload, other = (operator.workload((rows, 1024), "float16") for rows in (65536, 1024))
    implementation = operator.implementation("hip-vector")
    default = implementation.default(operator.dimensions(workload), H200)
    best, wide, near = ({**default, "BLOCK": threads} for threads in (512, 1024, 256))
    stale = {name: value for name, value in default.items() if name != "EARLY"}
    elsewhere, like = operator.workload((64, 2048), "float16"), ((65536, 1024), "bfloat16")
    first = module("kernels_known").Known(file)
    first.keep(operator.workload(*like), "cold", {"hip-vector": config_text(near)})
    first.keep(operator.workload((65536, 1024)), "cold", {"hip-vector": config_text(default)})
    first.keep(other, "hot", {"hip-vector": config_text(wide), "triton-row": "num_warps=4"})
    first.keep(workload, "cold", {"hip-vector": config_text(stale)})
    first.keep(workload, "cold", {"hip-vector": config_text(best)})
    first.keep(workload, "hot", {"hip-vector": config_text(stale)})
    first.keep(elsewhere, "cold", {"hip-vector": config_text(default)})
    known = module("kernels_known").Known(file)
    assert known.configs(workload, "hip-vector") == [best, stale, wide, near]
    search = search_without_gpu(kernels_search, operator, DonePool(), known)
    search.begin(workload)
    waiting = search._found[workload.key]["hip-vector"].waiting
    assert [config for config, _ in waiting] == [default, best, wide, near]


def test_what_is_known_of_the_h200_is_of_the_kernels_of_now(
    module: Callable[[str], ModuleType],
) -> None:
    operator = load_operator(ROOT / "kernels" / "rmsnorm")
    with (ROOT / "benchmarks" / "best-configs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known = module("kernels_known").Known(ROOT / "benchmarks" / "best-configs.csv")
    for row in rows:
        workload = operator.workload((int(row["rows"]), int(row["cols"])), row["dtype"])
        implementation = operator.implementation(row["implementation"])
        dims = operator.dimensions(workload)
        grid = implementation.parameters(dims)
        space = module("kernels_search").Space(implementation, dims, H200, grid)
        [config] = [
            each
            for each in known.configs(workload, implementation.name)
            if config_text(each) == row["config"]
        ][:1]
        assert space.is_legal(config), row


def test_each_climb_tries_what_is_untried_near_the_best(
    module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels_search = module("kernels_search")
    monkeypatch.setitem(kernels_search.EFFORT, "hip", kernels_search.Effort(0, 0, 40))
    operator, pool = load_operator(ROOT / "kernels" / "rmsnorm"), DonePool()
    search = search_without_gpu(kernels_search, operator, pool)
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
    timed = search._found[workload.key]["hip-vector"].timed
    assert len(pool.submitted) == 1 + 3 * 40
    assert times_us[0] > times_us[1] > times_us[2]
    # Timed once more, the sixth is the fastest.
    timed_again: list[float] = []
    again_us = iter((3.0, 2.0, 4.0, 5.0, 6.0, 1.0, 7.0, 8.0))

    def time_again_us(executable: SimpleNamespace) -> float:
        timed_again.append(time_us(executable))
        return next(again_us)

    [(name, _, best)] = search.best(workload, time_again_us)
    assert (name, time_us(best)) == ("hip-vector", timed_again[5])
    assert timed_again == sorted(each[0] for each in timed.values())[:8]


def test_cells_are_asked_for_by_kind_or_by_shape(module: Callable[[str], ModuleType]) -> None:
    options, operator = module("kernels_options"), load_operator(ROOT / "kernels" / "rmsnorm")

    def cells(*arguments: str) -> list[tuple[str, str, int, str]]:
        parsed = options.parse("", [*arguments, "--output", "table"])
        found = options.cells(parsed, operator)
        return [(each.shape_text, each.dtype, each.row_padding, cache) for each, cache in found]

    kinds = cells("--cells", "large", "--cells", "hot", "--dtype", "float16", "--columns", "1023")
    assert kinds == [("65600x1023", "float16", 0, "cold"), ("1024x1023", "float16", 0, "hot")]
    shape = ("--shape", "7x5000", "--shape", "3x64", "--cache", "hot", "--row-padding", "24")
    assert cells(*shape, "--dtype", "bfloat16") == [
        ("7x5000", "bfloat16", 24, "hot"),
        ("3x64", "bfloat16", 24, "hot"),
    ]
    assert len(cells("--cells", "large")) == 45


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "7x5000"], "--shape and --cache go together"),
        (["--cells", "large", "--cache", "hot"], "--shape and --cache go together"),
        (["--shape", "7x5000", "--cache", "hot", "--columns", "64"], "--columns belongs to"),
        (["--shape", "7 by 5", "--cache", "hot"], "shape '7 by 5' is not understood"),
        (["--shape", "7x5", "--cells", "hot"], "not allowed with argument"),
        ([], "one of the arguments --cells --shape is required"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    module: Callable[[str], ModuleType],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    with pytest.raises(SystemExit):
        module("kernels_options").parse("", [*arguments, "--output", "table"])
    assert message in capsys.readouterr().err


def test_without_peers_the_page_has_no_gain(
    page: ModuleType, make_row: Callable[..., Any], tmp_path: Path
) -> None:
    times_us = {"copy": 2.0, "hip-vector": 4.0}
    row = make_row((7, 5000), "hot", times_us=times_us, row_padding=24)
    page.write(tmp_path / "table", [row], FACTS)
    text = (tmp_path / "table.md").read_text("utf-8")
    assert "| 7x5000+24 | float32 | hot | 2.00 | **4.00** | 0.500 | – | – |" in text
    assert "Over the best peer" not in text
    assert page.progress_line(row).endswith("4.00 us = 0.500 of copy")


FAR = (70, 33)  # of a row and column that the last of several comparisons looks at


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda _y, _words: None, ""),
        (lambda y, _words: y[FAR].add_(1.0), "tolerances off"),
        (lambda y, _words: y[FAR].fill_(float("nan")), "wrong, nan tolerances off"),
        (lambda y, _words: y.as_strided((), (), 50).fill_(0.0), "writes between the rows"),
        (lambda _y, words: words.fill_(1), "leaves exchange not zero"),
    ],
)
def test_a_fault_is_found_wherever_it_is_and_is_no_fault_of_the_next(
    module: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Any, Any], None],
    problem: str,
) -> None:
    torch = pytest.importorskip("torch")
    kernels_cell = module("kernels_cell")
    monkeypatch.setattr(kernels_cell, "CHECKED_ELEMENTS", 10 * 48)
    operator = load_operator(ROOT / "kernels" / "rmsnorm")
    workload = operator.workload((71, 48), row_padding=3)
    cell = kernels_cell.Cell(workload, operator.problem(workload), "hot", 0, device="cpu")
    executable = SimpleNamespace(
        array_names={"x", "w", "y", "exchange"}, bind=lambda arrays: [arrays]
    )
    words = cell.launches(executable, 1)[0]["exchange"].tensor
    x, y = cell.sets[0]

    def right() -> float:
        assert not int(words.count_nonzero())
        y.copy_(torch.nn.functional.rms_norm(x, (48,), cell.weight, 1e-5))
        return 1.0

    def replay() -> float:
        right()
        write(y, words)
        return 1.0

    error, found = cell.fault(SimpleNamespace(replay=replay))
    assert problem in found
    assert bool(found) == bool(problem)
    error, found = cell.fault(SimpleNamespace(replay=right))
    assert (found, error < 1.0) == ("", True)


MET = {"copy": 100.0, "torch": 105.0, "hip-vector": 101.0, "triton-row": 99.0}


@pytest.mark.parametrize(
    ("cols", "dtype", "least"),
    [
        *((64, "float32", 0.93), (512, "float16", 0.9), (1023, "float32", 0.97)),
        *((2047, "bfloat16", 0.95), (4096, "float32", 0.97), (32768, "float16", 0.96)),
        *((65536, "bfloat16", 0.95), (131072, "float32", 0.92), (262144, "float16", 0.92)),
    ],
)
def test_each_large_cell_has_its_bar(
    module: Callable[[str], ModuleType],
    make_row: Callable[..., Any],
    cols: int,
    dtype: str,
    least: float,
) -> None:
    bars, shape = module("kernels_bars"), (2**26 // cols, cols)
    for reached, is_met in ((least + 1e-6, True), (least - 1e-6, False)):
        row = make_row(shape, dtype=dtype, times_us={"copy": 100 * reached, "hip-vector": 100.0})
        copy, peer, hip = bars.verdicts(row)
        assert (copy.bar, copy.is_met, peer.is_met, hip.is_met) == (least, is_met, None, None)
    for other in (
        make_row(shape, "hot", dtype=dtype, times_us=MET),
        make_row((1024, 64), dtype=dtype, times_us=MET),
        make_row(shape, dtype=dtype, times_us=MET, row_padding=1),
    ):
        assert bars.copy_bar(other) is None


def test_the_page_adds_up_what_was_reached(
    page: ModuleType, make_row: Callable[..., Any], tmp_path: Path
) -> None:
    slow = {"copy": 90.0, "torch": 98.0, "hip-vector": 104.0, "triton-row": 100.0}
    slow |= {"triton-unfused": 10.0}
    rows = [
        make_row((2**20, 64), times_us=MET),
        make_row((2**14, 4096), times_us=slow),
        make_row((2**10, 65536), times_us=MET),
    ]
    page.write(tmp_path / "table", rows, FACTS)
    text = (tmp_path / "table.md").read_text("utf-8")
    assert "of copy speed: met in 2 of 3 cells" in text
    assert "of the best peer's: met in 2 of 3 cells" in text
    assert "HIP of our best Triton's: met in 1 of 2 cells" in text
    assert "over the best peer, geometric mean: **1.0330 < 1.05 missed**" in text
    verdicts = text.partition("| of copy speed | of the best peer's |")[2].splitlines()[2:5]
    assert verdicts == [
        "| 1048576x64 | float32 | cold | 1.0101 ≥ 0.93 met | 1.0606 ≥ 0.9901 met "
        "| 0.9802 ≥ 0.9709 met |",
        "| 16384x4096 | float32 | cold | **0.9000 < 0.97 missed** | **0.9800 < 0.9901 missed** "
        "| **0.9615 < 0.9709 missed** |",
        "| 1024x65536 | float32 | cold | 1.0101 ≥ 0.95 met | 1.0606 ≥ 0.9901 met | – |",
    ]


class CountingDevice:
    """Prepares nothing, and counts the launches and how often the cache was flushed."""

    def __init__(self) -> None:
        self.launches: list[Any] = []
        self.flushes = 0

    def prepare(self, launches: list[Any], _submission: str) -> SimpleNamespace:
        self.launches = launches
        return SimpleNamespace(elapsed_us=lambda: 7.0, close=lambda: None)

    def flush_cache(self) -> None:
        self.flushes += 1


@pytest.mark.parametrize(
    ("cache", "launches", "flushes"), [("cold", 4, 4), ("cold", 20, 0), ("hot", 4, 0)]
)
def test_a_short_graph_of_a_cold_cell_finds_the_cache_flushed(
    module: Callable[[str], ModuleType], cache: str, launches: int, flushes: int
) -> None:
    pytest.importorskip("torch")
    operator, device = load_operator(ROOT / "kernels" / "rmsnorm"), CountingDevice()
    workload = operator.workload((4, 64))
    problem = operator.problem(workload)
    cell = module("kernels_cell").Cell(workload, problem, cache, 10_000, device="cpu")
    assert len(cell.sets) == (16 if cache == "cold" else 1)
    executable = SimpleNamespace(array_names=set(), bind=lambda buffers: [buffers["x"].address])
    assert module("kernels_ours").time_us(device, cell, launches, executable) == 7.0
    assert device.flushes == flushes
    assert len(device.launches) == launches
    assert len(set(device.launches)) == min(launches, len(cell.sets))
