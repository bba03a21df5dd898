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
import importlib.metadata
import itertools
import shlex
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import kernels_page as page
import torch
from kernels_builders import builders
from kernels_cell import Cell
from kernels_cell import fault
from kernels_contender import Contender
from kernels_contender import measure
from kernels_copy import copies
from kernels_peers import peers
from kernels_search import Search

from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.languages.base import Executable
from tuner.domain.identity import config_text
from tuner.operator import load_operator

COLUMNS = (
    *(64, 128, 256, 512, 1023, 1024, 2047, 4096, 5120, 8192, 16384),
    *(32768, 65536, 131072, 262144),
)
LARGE_ELEMENTS = 64 * 2**20
FEW_ROWS = 1024
OURS = (
    *("hip-vector", "hip-split", "triton-row", "triton-rows", "triton-turns", "triton-loop"),
    *("triton-split", "triton-unfused"),
)
DTYPES = ("float32", "bfloat16", "float16")
GRAPH_US = 1000.0  # device time of one replay: long against the event's resolution
AHEAD = 3  # cells whose first configs are compiled before their turn


class Ours:
    """Searches and prepares this project's implementations."""

    def __init__(self, operator_folder: Path, cache_dir: Path, pool: ProcessPoolExecutor) -> None:
        self.operator = load_operator(operator_folder.resolve())
        self.device = NvidiaDevice(0, cache_dir=cache_dir)
        self.faults: list[str] = []  # what was measured and then found wrong: left out, exit code 1
        self.search = Search(self.operator, OURS, self.device, cache_dir, pool)

    def try_all(self, cell: Cell) -> None:
        """Time every config that waits for it."""
        launches = max(4, len(cell.sets))

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


def run_cell(ours: Ours, cell: Cell) -> page.Row | None:
    """Search, check and time one cell; None where none of ours is right, or no peer runs."""
    item_bytes = cell.weight.element_size()
    estimate_us = 2 * cell.rows * cell.cols * item_bytes / 4.0e6 + 1.0
    sets = len(cell.sets)
    launches = max(sets, min(512, round(GRAPH_US / estimate_us) // sets * sets))
    begun = [time.perf_counter()]
    ours.try_all(cell)
    begun.append(time.perf_counter())
    others: list[Contender] = []
    for prepare in (copies, peers):
        ours.search.climb(cell.workload)
        others += prepare(cell, launches)  # while what climb() asked for is compiled
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
    if not fused or len(others) < 3:
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
