"""Every legal config of a HIP implementation on one NVIDIA GPU, for research on search.

Kernels are compiled in parallel processes, those of the next column count while this one's are
measured; the measured time is device time within one graph, which the host's load does not reach.
A config is one CUDA graph of launches that go round sets of buffers of three times the last-level
cache ("cold"), replayed between two events. Its whole output is compared with a float64 reference
once for each column count. Everything within 10 % of a shape's best is measured again, in turns.

    python benchmarks/exhaustive_space.py --shapes 1024x4096 16384x4096 --output benchmarks/data

writes a CSV for each column count: the config, registers and local memory bytes of a thread, and a
column of median microseconds a launch for each shape, empty where the config failed. ``--set``
narrows a parameter: ``--set TURNS=1``. Needs PyTorch for inputs and the reference.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.nvidia import compile_hip_for
from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.languages.base import BuiltStep
from tuner.bench.languages.base import Executable
from tuner.bench.languages.hip import hip_source
from tuner.bench.measure import interleaved_order
from tuner.domain.identity import canonical_json
from tuner.domain.identity import Config
from tuner.domain.job import Kernel
from tuner.domain.records import BuildReport
from tuner.domain.space import first_violation
from tuner.domain.space import Grid
from tuner.domain.space import grid_configs
from tuner.domain.workload import parse_shape
from tuner.errors import TrialError
from tuner.operator import Implementation
from tuner.operator import load_operator

EPSILON = 1e-5
TOLERANCE = 2e-5
SAMPLES = 5
MORE_ROUNDS = 3
CLOSE = 1.10
GRAPH_US = 60.0  # at least so much device time a replay, at copy speed
COPY_BYTES_A_US = 4.0e6
CHUNK = 8  # kernels a task of the pool
DRAIN_S = 600.0


@dataclass(slots=True)
class Point:
    """One config of one column count: its kernel and what is known of it."""

    config: Config
    kernels: dict[int, Kernel]  # by row count: they differ in geometry only
    code: CodeObject | None = None
    loaded: dict[int, LoadedKernel] = field(default_factory=dict)
    times_us: dict[int, float] = field(default_factory=dict)
    error: str = ""


def compile_all(sources: Sequence[HipSource], architecture: str) -> list[CodeObject | str]:
    """Compile in a process of the pool: code, or the message of a failure."""
    results: list[CodeObject | str] = []
    for source in sources:
        try:
            results.append(compile_hip_for(source, architecture))
        except TrialError as error:
            results.append(error.message)
    return results


class Buffers:
    """Sets of tensors of one shape, seen as the operator's buffers."""

    def __init__(self, rows: int, cols: int, cache_bytes: int) -> None:
        import torch

        generator = torch.Generator("cuda").manual_seed(cols)
        self.count = -(-3 * cache_bytes // (2 * rows * cols * 4)) + 1
        self.weight = torch.randn(cols, device="cuda", generator=generator)
        self.inputs = [
            torch.randn(rows, cols, device="cuda", generator=generator) for _ in range(self.count)
        ]
        self.outputs = [torch.empty_like(each) for each in self.inputs]
        wide = self.inputs[0].double()
        scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON)
        self.expected = (wide * scale * self.weight.double()).float()
        torch.cuda.synchronize()

    def named(self, index: int) -> dict[str, Any]:
        """Return set ``index`` by argument name."""
        at = index % self.count
        tensors = {"x": self.inputs[at], "w": self.weight, "y": self.outputs[at]}
        return {name: TensorBuffer(tensor) for name, tensor in tensors.items()}

    def spoil(self) -> None:
        """Fill the first output with NaN, and wait: our launches are on another stream."""
        import torch

        self.outputs[0].fill_(float("nan"))
        torch.cuda.synchronize()

    def is_right(self) -> bool:
        """Tell whether the first output holds the reference's values."""
        error = (self.outputs[0] - self.expected).abs() / (1.0 + self.expected.abs())
        return bool(error.max() <= TOLERANCE)  # false for NaN


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """A torch tensor as a buffer of ours."""

    tensor: Any

    @property
    def size_bytes(self) -> int:
        """Size of the tensor."""
        return int(self.tensor.numel() * self.tensor.element_size())

    @property
    def address(self) -> int:
        """Address of its first element."""
        return int(self.tensor.data_ptr())


class Measurer:
    """Times the points of one shape."""

    def __init__(self, device: NvidiaDevice, rows: int, cols: int, *, check: bool) -> None:
        self.rows = rows
        self._device = device
        self._check = check
        self._buffers = Buffers(rows, cols, device.facts.cache_bytes)
        copy_us = 2 * rows * cols * 4 / COPY_BYTES_A_US
        turns = -(-GRAPH_US // (copy_us * self._buffers.count))
        self._launches = int(max(1, turns)) * self._buffers.count

    def samples_us(self, point: Point, count: int) -> list[float]:
        """Return microseconds a launch of ``count`` replays, after one that is not timed.

        Raises:
            TrialError: The device refused the kernel.
        """
        if point.code is None:
            return []
        kernel = point.kernels[self.rows]
        if self.rows not in point.loaded:
            shared_bytes = kernel.geometry.shared_bytes
            point.loaded[self.rows] = self._device.load(point.code, shared_bytes)
        report = BuildReport(0.0, None, "")
        step = BuiltStep(point.loaded[self.rows], kernel.geometry, kernel.arguments, report)
        executable = Executable((step,), kernel.array_names, report)
        turns = range(self._launches)
        launches = [each for turn in turns for each in executable.bind(self._buffers.named(turn))]
        if self._check:
            self._buffers.spoil()
        prepared = self._device.prepare(launches, "graph")
        try:
            prepared.elapsed_us()
            if self._check and not self._buffers.is_right():
                raise TrialError("wrong result")
            return [prepared.elapsed_us() / self._launches for _ in range(count)]
        finally:
            prepared.close()


def measure_shape(measurer: Measurer, points: Sequence[Point], deadline_s: float) -> bool:
    """Fill in the shape's times; return False where the deadline came first."""
    samples: dict[int, list[float]] = {}

    def sample(index: int) -> None:
        point = points[index]
        if point.error:
            return
        try:
            samples.setdefault(index, []).extend(measurer.samples_us(point, SAMPLES))
        except TrialError as error:
            point.error = error.message
            samples.pop(index, None)
            print(f"{dict(point.config)}: {error.message}", file=sys.stderr)

    for index in range(len(points)):
        if time.perf_counter() > deadline_s:
            return False
        sample(index)
    first = {index: statistics.median(each) for index, each in samples.items()}
    limit_us = CLOSE * min(first.values(), default=0.0)
    close = [index for index, value in first.items() if value <= limit_us]
    for position in interleaved_order(len(close), MORE_ROUNDS, 0):
        sample(close[position])
    for index, values in samples.items():
        points[index].times_us[measurer.rows] = statistics.median(values)
    return True


class Builder:
    """Compiles the points of column counts in the background, in the order given."""

    def __init__(self, pool: ProcessPoolExecutor, architecture: str) -> None:
        self._pool = pool
        self._architecture = architecture
        self._pending: dict[int, list[tuple[list[list[Point]], Future[Any]]]] = {}

    def start(self, cols: int, points: Iterable[Point]) -> None:
        """Queue the kernels of a column count; equal sources are compiled once."""
        by_source: dict[str, list[Point]] = {}
        for point in points:
            kernel = next(iter(point.kernels.values()))
            by_source.setdefault(canonical_json(kernel.constants), []).append(point)
        groups = list(by_source.values())
        self._pending[cols] = []
        for begin in range(0, len(groups), CHUNK):
            chunk = groups[begin : begin + CHUNK]
            kernels = [next(iter(group[0].kernels.values())) for group in chunk]
            sources = [hip_source(kernel) for kernel in kernels]
            task = self._pool.submit(compile_all, sources, self._architecture)
            self._pending[cols].append((chunk, task))

    def finish(self, cols: int) -> None:
        """Wait for a column count's kernels and hand them to its points."""
        for chunk, task in self._pending.pop(cols):
            for group, result in zip(chunk, task.result(DRAIN_S), strict=True):
                for point in group:
                    if isinstance(result, str):
                        point.error = result
                    else:
                        point.code = result


def points_of(
    operator: Any, implementation: Implementation, rows: Sequence[int], cols: int, device: Any,
    narrowed: Grid,
) -> list[Point]:  # fmt: skip
    """Return the legal configs of a column count; rows must not change which are legal."""
    source = operator.source(implementation)
    dims = {"rows": rows[0], "cols": cols}
    grid = {**implementation.parameters(dims), **narrowed}
    points = []
    for config in grid_configs(grid):
        if first_violation(config, dims, device.facts, implementation.constraints) is None:
            kernels = {
                each: operator.kernel(
                    implementation, source, config, operator.workload((each, cols))
                )
                for each in rows
            }
            points.append(Point(config, kernels))
    return points


def write(path: Path, points: Sequence[Point], rows: Sequence[int], cols: int) -> None:
    """Write a column count's CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = list(points[0].config)
        shapes = [f"{each}x{cols}" for each in rows]
        writer.writerow([*names, "registers", "local_bytes", *shapes])
        for point in points:
            loaded = next(iter(point.loaded.values()), None)
            facts = ["", ""] if loaded is None else [loaded.registers, loaded.spill_bytes]
            times = [point.times_us.get(each) for each in rows]
            shown = ["" if each is None else f"{each:.5g}" for each in times]
            writer.writerow([*(point.config[name] for name in names), *facts, *shown])


def main() -> None:
    """Measure the shapes asked for, those of one column count together."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", required=True)
    parser.add_argument("--implementation", default="hip-vector")
    parser.add_argument("--operator", type=Path, default=Path("kernels/rmsnorm"))
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE,VALUE")
    parser.add_argument("--processes", type=int, default=max(1, multiprocessing.cpu_count() - 1))
    parser.add_argument("--deadline-s", type=float, default=3600.0)
    parser.add_argument("--output", type=Path, required=True, help="folder")
    options = parser.parse_args()
    begun = time.perf_counter()
    device = NvidiaDevice(0)
    operator = load_operator(options.operator.resolve())
    implementation = operator.implementation(options.implementation)
    narrowed = {
        name: tuple(int(each) for each in values.split(","))
        for name, _, values in (text.partition("=") for text in options.set)
    }
    by_cols: dict[int, list[int]] = {}
    for text in options.shapes:
        rows, cols = parse_shape(text)
        by_cols.setdefault(cols, []).append(rows)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        builder = Builder(pool, device.facts.architecture)
        points = {
            cols: points_of(operator, implementation, of_cols, cols, device, narrowed)
            for cols, of_cols in by_cols.items()
        }
        for cols, each in points.items():
            builder.start(cols, each)
        for cols, of_cols in by_cols.items():
            builder.finish(cols)
            print(f"{time.perf_counter() - begun:.1f} s: {cols} built", flush=True)
            path = options.output / f"{implementation.name}-{cols}.csv"
            for position, each_rows in enumerate(of_cols):
                measurer = Measurer(device, each_rows, cols, check=position == 0)
                whole = measure_shape(measurer, points[cols], begun + options.deadline_s)
                times = [each.times_us.get(each_rows, 0.0) for each in points[cols]]
                good = [each for each in times if each]
                print(
                    f"{time.perf_counter() - begun:.1f} s: {each_rows}x{cols}: {len(good)} of "
                    f"{len(times)} ok, best {min(good, default=0.0):.4g} us",
                    flush=True,
                )
                if whole:
                    write(path, points[cols], of_cols, cols)
                else:
                    pool.shutdown(cancel_futures=True, wait=False)
                    return
            for point in points[cols]:
                point.code = None
                point.loaded.clear()


if __name__ == "__main__":
    main()
