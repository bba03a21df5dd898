"""RMSNorm on one NVIDIA GPU: our kernels against PyTorch, torch.compile, Liger and a copy.

For each shape our implementations are searched first (their default, random configs, then
neighbours of the best one). Then all contenders are timed in one process on the same tensors:
each as one CUDA graph of several launches, one replay a round, in an order that rotates and turns
round, between two events. "Cold" rotates tensors of three times the last-level cache in all;
"hot" has one set. Before that, the whole output of each of ours for the first set is compared with
a float64 reference on the device. Figures are medians over the rounds, in microseconds a launch.

    python benchmarks/kernels.py --cells large --output docs/results/h200-kernels-large

writes a CSV (a row a cell, a column a contender) and a Markdown page beside it. Needs PyTorch;
Liger is left out where it is not installed. Nothing here is a dependency of ``tuner``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import random
import shlex
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernels_page as page
import torch

from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.languages.base import Executable
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.triton import TritonLanguage
from tuner.bench.measure import interleaved_order
from tuner.domain.identity import Config
from tuner.domain.identity import config_text
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.domain.workload import Workload
from tuner.errors import TrialError
from tuner.operator import Implementation
from tuner.operator import load_operator

COLUMNS = (
    *(64, 128, 256, 512, 1023, 1024, 2047, 4096, 5120, 8192, 16384),
    *(32768, 65536, 131072, 262144),
)
LARGE_ELEMENTS = 64 * 2**20
FEW_ROWS = 1024
EPSILON = 1e-5
OURS = ("hip-vector", "hip-split", "triton-row", "triton-rows", "triton-loop")
ROUNDS = 25
GRAPH_US = 2000.0  # device time of one replay: long against the event's resolution
TOLERANCE = 2e-5  # absolute and relative, as the operator's for float32


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
    """A shape with its tensors: one set where the cache is hot, several where it is cold."""

    def __init__(self, rows: int, cols: int, cache: str, cache_bytes: int) -> None:
        self.rows, self.cols, self.cache = rows, cols, cache
        generator = torch.Generator("cuda").manual_seed(cols)
        set_bytes = 2 * rows * cols * 4
        count = 1 if cache == "hot" else -(-3 * cache_bytes // set_bytes) + 1
        self.weight = torch.randn(cols, device="cuda", generator=generator)
        self.inputs = [
            torch.randn(rows, cols, device="cuda", generator=generator) for _ in range(count)
        ]
        self.outputs = [torch.empty_like(each) for each in self.inputs]
        # Words of the kernels in which several blocks share a row; zero between launches.
        self.exchange = torch.zeros(rows * 64, dtype=torch.int64, device="cuda")

    def buffers(self, index: int) -> dict[str, TensorBuffer]:
        """Return set ``index`` as our kernels' arguments."""
        tensors = (self.inputs[index], self.weight, self.outputs[index], self.exchange)
        return {
            name: TensorBuffer(tensor)
            for name, tensor in zip(("x", "w", "y", "exchange"), tensors, strict=True)
        }

    def expected(self) -> torch.Tensor:
        """Return the reference's output for the first set, computed in float64."""
        wide = self.inputs[0].double()
        scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON)
        return wide.mul_(scale).mul_(self.weight.double())


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
    """Builds, searches and prepares this project's implementations."""

    def __init__(self, operator_folder: Path, search_s: float) -> None:
        self.operator = load_operator(operator_folder.resolve())
        self.device = NvidiaDevice(0)
        self._languages = {"hip": HipLanguage(), "triton": TritonLanguage()}
        self._search_s = search_s

    def contenders(self, cell: Cell, launches: int) -> Iterator[Contender]:
        """Yield each implementation that can run, with the best config found."""
        workload = self.operator.workload((cell.rows, cell.cols))
        for name in OURS:
            implementation = self.operator.implementation(name)
            found = self._search(implementation, workload, cell)
            if found is None:
                continue
            config, executable = found
            launch = [
                executable.bind(cell.buffers(index % len(cell.inputs))) for index in range(launches)
            ]
            prepared = self.device.prepare(launch, "graph")
            yield Contender(name, prepared.elapsed_us, launches, config_text(config))

    def _search(
        self, implementation: Implementation, workload: Workload, cell: Cell
    ) -> tuple[Config, Executable] | None:
        dims = self.operator.dimensions(workload)
        facts = self.device.facts
        grid = implementation.parameters(dims)

        def is_legal(config: Config) -> bool:
            return first_violation(config, dims, facts, implementation.constraints) is None

        legal = [config for config in grid_configs(grid) if is_legal(config)]
        if not legal:
            return None
        random.Random(workload.shape_text).shuffle(legal)
        default = dict(implementation.default(dims, facts))
        queue = [default, *legal] if is_legal(default) else legal
        tried: dict[str, tuple[float, Config, Executable]] = {}
        begun = time.perf_counter()
        while time.perf_counter() - begun < self._search_s and len(tried) < len(legal):
            elapsed_s = time.perf_counter() - begun
            config = None
            if tried and elapsed_s > self._search_s / 2:
                best = min(tried.values(), key=lambda each: each[0])[1]
                near = [each for each in legal if _distance(each, best) == 1]
                config = next((each for each in near if config_text(each) not in tried), None)
            if config is None:
                config = next(each for each in queue if config_text(each) not in tried)
            executable, time_us = self._try(implementation, workload, config, cell)
            tried[config_text(config)] = (time_us, config, executable)
        time_us, config, executable = min(tried.values(), key=lambda each: each[0])
        return (config, executable) if time_us < float("inf") else None

    def _try(
        self, implementation: Implementation, workload: Workload, config: Config, cell: Cell
    ) -> tuple[Any, float]:
        source = self.operator.source(implementation)
        kernel = self.operator.kernel(implementation, source, config, workload)
        try:
            executable = self._languages[implementation.language].build(kernel, self.device)
            launches = max(4, len(cell.inputs))
            bound = [
                executable.bind(cell.buffers(index % len(cell.inputs))) for index in range(launches)
            ]
            prepared = self.device.prepare(bound, "graph")
            try:
                prepared.elapsed_us()
                return executable, statistics.median(prepared.elapsed_us() for _ in range(3))
            finally:
                prepared.close()
        except TrialError:
            return None, float("inf")


def _distance(one: Config, other: Config) -> int:
    return sum(one[name] != other[name] for name in one)


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

    yield torch_contender("copy", cell, launches, lambda x, y: y.copy_(x))
    yield torch_contender("torch", cell, launches, eager)
    modes = {"torch.compile": None, "torch.compile-max": "max-autotune-no-cudagraphs"}
    for name, mode in modes.items():
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False, mode=mode)
        yield torch_contender(name, cell, launches, compiled)
    try:
        from liger_kernel.ops.rms_norm import rms_norm_forward
    except ImportError:
        return
    try:
        yield torch_contender(
            "liger", cell, launches,
            lambda x, _y: rms_norm_forward(x, weight, EPSILON, 0.0, "llama", None),
        )  # fmt: skip
    except RuntimeError as error:
        print(f"liger: {cell.rows}x{cell.cols}: {error}".splitlines()[0], file=sys.stderr)


def worst_error(cell: Cell, contender: Contender) -> float:
    """Run a contender of ours on NaN-filled outputs; return how far it is from the reference.

    Returns:
        ``max |out - ref| / (1 + |ref|)`` over the whole output.
    """
    cell.outputs[0].fill_(float("nan"))
    torch.cuda.synchronize()
    contender.replay()
    expected = cell.expected()
    error = ((cell.outputs[0].double() - expected).abs_() / expected.abs_().add_(1.0)).max()
    if int(cell.exchange.count_nonzero()):
        raise SystemExit(f"{contender.name} left its exchange words dirty")
    return float(error)


def measure(contenders: list[Contender]) -> dict[str, float]:
    """Return the median of each contender's microseconds a launch, taken in turns."""
    samples: dict[str, list[float]] = {each.name: [] for each in contenders}
    for each in contenders:
        each.replay()
    for position in interleaved_order(len(contenders), ROUNDS, 0):
        each = contenders[position]
        samples[each.name].append(each.replay() / each.launches)
    return {name: statistics.median(values) for name, values in samples.items()}


def run_cell(ours: Ours, cell: Cell) -> page.Row:
    """Search, check and time one cell."""
    estimate_us = 2 * cell.rows * cell.cols * 4 / 4.0e6 + 1.0
    sets = len(cell.inputs)
    launches = max(sets, min(512, round(GRAPH_US / estimate_us) // sets * sets))
    mine = list(ours.contenders(cell, launches))
    errors = {each.name: worst_error(cell, each) for each in mine}
    wrong = {name: error for name, error in errors.items() if not error <= TOLERANCE}
    if wrong:
        raise SystemExit(f"{cell.rows}x{cell.cols}: wrong results: {wrong}")
    contenders = [*peers(cell, launches), *mine]
    times_us = measure(contenders)
    notes = {each.name: each.note for each in contenders if each.note}
    row = page.Row(cell.rows, cell.cols, cell.cache, times_us, notes, max(errors.values()))
    print(page.progress_line(row), flush=True)
    return row


def main() -> None:
    """Measure the cells asked for and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", choices=("large", "hot", "cold"), action="append", required=True)
    parser.add_argument("--columns", type=int, action="append")
    parser.add_argument("--search-s", type=float, default=4.0, help="seconds an implementation")
    parser.add_argument("--operator", type=Path, default=Path("kernels/rmsnorm"))
    parser.add_argument("--output", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    ours = Ours(options.operator, options.search_s)
    rows = []
    for kind in options.cells:
        for cols in options.columns or COLUMNS:
            count = LARGE_ELEMENTS // cols if kind == "large" else FEW_ROWS
            cache = "hot" if kind == "hot" else "cold"
            rows.append(run_cell(ours, Cell(count, cols, cache, ours.device.facts.cache_bytes)))
            torch.cuda.empty_cache()
            page.write(options.output, rows, _facts(ours))
    print(f"wrote {options.output}.csv and .md")


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
