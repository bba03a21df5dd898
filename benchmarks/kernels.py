"""RMSNorm on one NVIDIA GPU: our kernels against PyTorch, torch.compile, Liger and a copy.

For each shape and dtype our implementations are searched first (see kernels_search.py). Then all
contenders are timed in one process on the same tensors: each as one CUDA graph of several launches,
one replay a round, in an order that rotates and turns round, between two events. "Cold" rotates
tensors of three times the last-level cache in all; "hot" has one set. Before that, the whole output
of each of ours for the first set is compared with a float64 reference on the device, by the
operator's tolerance. Figures are medians over the rounds, in microseconds a launch.

    python benchmarks/kernels.py --cells large --dtype float32 --output docs/results/h200-kernels

writes a CSV (a row a cell, a column a contender) and a Markdown page beside it. Needs PyTorch;
Liger is left out where it is not installed. QuACK is not among the peers: with what it needs it is
larger (92 MB) than what can be brought to the machine these were run on. Nothing here is a
dependency of ``tuner``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import shlex
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernels_page as page
import torch
from kernels_search import builders
from kernels_search import Search

from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.languages.base import Executable
from tuner.bench.measure import interleaved_order
from tuner.domain.identity import config_text
from tuner.domain.job import ArraySpec
from tuner.domain.job import Problem
from tuner.domain.workload import Workload
from tuner.operator import load_operator

COLUMNS = (
    *(64, 128, 256, 512, 1023, 1024, 2047, 4096, 5120, 8192, 16384),
    *(32768, 65536, 131072, 262144),
)
LARGE_ELEMENTS = 64 * 2**20
FEW_ROWS = 1024
EPSILON = 1e-5
OURS = (
    *("hip-vector", "hip-split", "triton-row", "triton-rows", "triton-turns", "triton-loop"),
    *("triton-split", "triton-unfused"),
)
DTYPES = ("float32", "bfloat16", "float16")
COMPILED = {"torch.compile": None, "torch.compile-max": "max-autotune-no-cudagraphs"}
ROUNDS = 15
GRAPH_US = 1000.0  # device time of one replay: long against the event's resolution
AHEAD = 3  # cells whose first configs are compiled before their turn
# torch hands a copy to the driver's memcpy, which is slower for sizes that are no multiple of this
# many elements; leaving out the rest costs less than 0.1 % of any cell.
COPY_ELEMENTS = 1024


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """A torch tensor as a buffer of ours."""

    tensor: torch.Tensor

    @property
    def size_bytes(self) -> int:
        """Size of the tensor."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def address(self) -> int:
        """Address of its first element."""
        return int(self.tensor.data_ptr())


class Cell:
    """A workload with its tensors: one set where the cache is hot, several where it is cold."""

    def __init__(self, workload: Workload, problem: Problem, cache: str, cache_bytes: int) -> None:
        self.workload, self.problem, self.cache = workload, problem, cache
        self.rows, self.cols = workload.shape
        generator = torch.Generator("cuda").manual_seed(self.cols)
        dtype = getattr(torch, workload.dtype)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device="cuda", generator=generator).to(dtype)

        set_bytes = 2 * self.rows * self.cols * dtype.itemsize
        count = 1 if cache == "hot" else -(-3 * cache_bytes // set_bytes) + 1
        self.weight = normal(self.cols)
        self.inputs = [normal(self.rows, self.cols) for _ in range(count)]
        self.outputs = [torch.empty_like(each) for each in self.inputs]
        # Scratch is zero between launches; what steps pass on is of no interest after them.
        self.extra: dict[str, torch.Tensor] = {}

    def launches(self, executable: Executable, count: int) -> list[Any]:
        """Return ``count`` runs of an executable, all its steps, going round the sets."""
        for spec in self.problem.arrays:
            is_extra = spec.role in ("scratch", "intermediate")
            if is_extra and spec.name in executable.array_names and spec.name not in self.extra:
                self.extra[spec.name] = _tensor(spec)
        bound = []
        for x, y in zip(self.inputs, self.outputs, strict=True):
            tensors = {"x": x, "w": self.weight, "y": y, **self.extra}
            buffers = {name: TensorBuffer(tensor) for name, tensor in tensors.items()}
            bound.append(executable.bind(buffers))
        return [step for index in range(count) for step in bound[index % len(bound)]]

    def worst_error(self) -> float:
        """Return how far the first output is from the reference, in tolerances."""
        tolerance = self.problem.tolerance
        wide = self.inputs[0].double()
        scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON)
        expected = wide.mul_(scale).mul_(self.weight.double())
        error = (self.outputs[0].double() - expected).abs_()
        allowed = expected.abs_().mul_(tolerance.relative).add_(tolerance.absolute)
        return float(error.div_(allowed).max())


def _tensor(spec: ArraySpec) -> torch.Tensor:
    words = {"uint64": torch.int64}  # as many bytes: torch fills few unsigned types
    dtype = words.get(spec.dtype) or getattr(torch, spec.dtype)
    return torch.zeros(*spec.shape, dtype=dtype, device="cuda")


@dataclass(slots=True)
class Contender:
    """Something that normalises rows (or copies), ready to be timed.

    Attributes:
        name: Column of the table.
        replay: Runs all its launches once and returns their device time in microseconds.
        launches: How many there are.
        note: Its config, or "".
    """

    name: str
    replay: Callable[[], float]
    launches: int
    note: str = ""


class Ours:
    """Searches and prepares this project's implementations."""

    def __init__(self, operator_folder: Path, cache_dir: Path, pool: ProcessPoolExecutor) -> None:
        self.operator = load_operator(operator_folder.resolve())
        self.device = NvidiaDevice(0, cache_dir=cache_dir)
        self.faults: list[str] = []  # what was measured and then found wrong: left out, exit code 1
        self.search = Search(self.operator, OURS, self.device, cache_dir, pool)

    def try_all(self, cell: Cell) -> None:
        """Time every config that waits for it."""
        launches = max(4, len(cell.inputs))

        def time_us(executable: Executable) -> float:
            prepared = self.device.prepare(cell.launches(executable, launches), "graph")
            try:
                prepared.elapsed_us()
                return statistics.median(prepared.elapsed_us() for _ in range(3))
            finally:
                prepared.close()

        self.search.time(cell.workload, time_us)

    def contenders(self, cell: Cell, launches: int) -> Iterator[Contender]:
        """Yield each implementation that can run, with the best config found."""
        for name, config, executable in self.search.best(cell.workload):
            prepared = self.device.prepare(cell.launches(executable, launches), "graph")
            yield Contender(name, prepared.elapsed_us, launches, config_text(config))


def torch_contender(
    name: str, cell: Cell, launches: int, call: Callable[[torch.Tensor, torch.Tensor], Any]
) -> Contender:
    """Capture ``launches`` calls of a torch function in a CUDA graph."""
    for _ in range(3):
        call(cell.inputs[0], cell.outputs[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    sets = len(cell.inputs)
    # Results are kept for a whole turn, or each would be written to where the last one lay, still
    # in the cache.
    results: deque[Any] = deque(maxlen=sets)
    with torch.cuda.graph(graph):
        for index in range(launches):
            results.append(call(cell.inputs[index % sets], cell.outputs[index % sets]))
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay() -> float:
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1000.0

    return Contender(name, replay, launches)


def peers(cell: Cell, launches: int) -> Iterator[Contender]:
    """Yield the copy and the other libraries; one that fails is left out and said."""
    weight, shape = cell.weight, (cell.cols,)

    def eager(x: torch.Tensor, _y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, shape, weight, EPSILON)

    count = cell.rows * cell.cols // COPY_ELEMENTS * COPY_ELEMENTS

    def copy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y.view(-1)[:count].copy_(x.view(-1)[:count])

    yield torch_contender("copy", cell, launches, copy)
    yield from unless_it_fails(
        cell, "torch", lambda: torch_contender("torch", cell, launches, eager)
    )
    for name, mode in COMPILED.items():
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False, mode=mode)
        prepare = functools.partial(torch_contender, name, cell, launches, compiled)
        yield from unless_it_fails(cell, name, prepare)
    try:
        from liger_kernel.ops.rms_norm import rms_norm_forward
    except ImportError:
        return

    def liger(x: torch.Tensor, _y: torch.Tensor) -> Any:
        return rms_norm_forward(x, weight, EPSILON, 0.0, "llama", None)

    prepare = functools.partial(torch_contender, "liger", cell, launches, liger)
    yield from unless_it_fails(cell, "liger", prepare)


def unless_it_fails(cell: Cell, name: str, prepare: Callable[[], Contender]) -> Iterator[Contender]:
    """Yield a peer; say why where it can't run this cell."""
    try:
        contender = prepare()
    except RuntimeError as error:  # also what torch.compile raises
        print(f"{name}: {cell.rows}x{cell.cols}: {error}".splitlines()[0], file=sys.stderr)
    else:
        yield contender


def fault(cell: Cell, contender: Contender) -> tuple[float, str]:
    """Run a contender of ours on NaN-filled outputs.

    Returns:
        Its error in tolerances, and what is wrong with it or "".
    """
    cell.outputs[0].fill_(float("nan"))
    torch.cuda.synchronize()
    contender.replay()
    error = cell.worst_error()
    if not error <= 1.0:
        return error, f"wrong, {error} tolerances off"
    for spec in cell.problem.arrays:
        words = cell.extra.get(spec.name)
        if spec.role == "scratch" and words is not None and int(words.count_nonzero()):
            return error, f"leaves {spec.name} not zero"
    return error, ""


def measure(contenders: list[Contender]) -> dict[str, float]:
    """Return the median of each contender's microseconds a launch, taken in turns."""
    samples: dict[str, list[float]] = {each.name: [] for each in contenders}
    for each in contenders:
        each.replay()
    for position in interleaved_order(len(contenders), ROUNDS, 0):
        each = contenders[position]
        samples[each.name].append(each.replay() / each.launches)
    return {name: statistics.median(values) for name, values in samples.items()}


def run_cell(ours: Ours, cell: Cell) -> page.Row | None:
    """Search, check and time one cell; None where none of ours is right, or no peer runs."""
    item_bytes = cell.weight.element_size()
    estimate_us = 2 * cell.rows * cell.cols * item_bytes / 4.0e6 + 1.0
    sets = len(cell.inputs)
    launches = max(sets, min(512, round(GRAPH_US / estimate_us) // sets * sets))
    begun = [time.perf_counter()]
    ours.try_all(cell)
    ours.search.climb(cell.workload)
    begun.append(time.perf_counter())
    others = list(peers(cell, launches))  # while what climb() asked for is compiled
    begun.append(time.perf_counter())
    ours.try_all(cell)
    begun.append(time.perf_counter())
    contenders, worst = list(others), 0.0
    for each in ours.contenders(cell, launches):
        error, problem = fault(cell, each)
        if problem:
            where = f"{cell.workload.shape_text} {cell.workload.dtype} {each.name} {each.note}"
            ours.faults.append(f"{where}: {problem}")
            print(ours.faults[-1], file=sys.stderr, flush=True)
            continue
        worst = max(worst, error)
        contenders.append(each)
    fused = [each for each in contenders if each.note and each.name != page.UNFUSED]
    if not fused or len(others) < 2:
        print(f"left out: {cell.workload.shape_text} {cell.workload.dtype}", file=sys.stderr)
        return None
    times_us = measure(contenders)
    notes = {each.name: each.note for each in contenders if each.note}
    workload = cell.workload
    row = page.Row(cell.rows, cell.cols, workload.dtype, cell.cache, times_us, notes, worst)
    begun.append(time.perf_counter())
    took = " ".join(f"{after - before:.1f}" for before, after in itertools.pairwise(begun))
    print(f"{page.progress_line(row)}; {took} s", flush=True)
    return row


def main() -> None:
    """Measure the cells asked for and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", choices=("large", "hot", "cold"), action="append", required=True)
    parser.add_argument("--columns", type=int, action="append", help="default: all 15")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="default: all three")
    parser.add_argument("--until-s", type=float, default=1e9, help="begin no cell after so long")
    parser.add_argument("--operator", type=Path, default=Path("kernels/rmsnorm"))
    parser.add_argument("--cache-dir", type=Path, default=Path("/tmp/kernels-benchmark"))
    parser.add_argument("--output", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    begun = time.perf_counter()
    pool = builders(options.cache_dir)
    ours = Ours(options.operator, options.cache_dir, pool)
    cells = [
        (
            ours.operator.workload((_rows(kind, cols), cols), dtype),
            "hot" if kind == "hot" else "cold",
        )
        for kind in options.cells
        for dtype in options.dtype or DTYPES
        for cols in options.columns or COLUMNS
    ]
    for workload, _ in cells[:AHEAD]:
        ours.search.begin(workload)
    rows: list[page.Row] = []
    for (workload, cache), later in itertools.zip_longest(cells, cells[AHEAD:]):
        if time.perf_counter() - begun > options.until_s:
            print(f"stopped before {workload.shape_text} {workload.dtype}", file=sys.stderr)
            break
        if later is not None:
            ours.search.begin(later[0])
        problem = ours.operator.problem(workload)
        row = run_cell(ours, Cell(workload, problem, cache, ours.device.facts.cache_bytes))
        torch.cuda.empty_cache()
        if row is not None:
            rows.append(row)
            page.write(options.output, rows, _facts(ours))
    pool.shutdown(wait=False, cancel_futures=True)
    print(f"configs left out: {dict(ours.search.left_out)}; built anew: {ours.search.built_anew}")
    print(f"wrote {options.output}.csv and .md in {time.perf_counter() - begun:.0f} s")
    sys.exit(1 if ours.faults else 0)


def _rows(kind: str, cols: int) -> int:
    return LARGE_ELEMENTS // cols if kind == "large" else FEW_ROWS


def _facts(ours: Ours) -> dict[str, str]:
    versions = {}
    for name in ("torch", "triton", "liger-kernel"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "command": shlex.join(["python", *sys.argv]),
        "device": f"{ours.device.facts.name}, {ours.device.facts.architecture}",
        **ours.device.identity(),
        **versions,
    }


if __name__ == "__main__":
    main()
