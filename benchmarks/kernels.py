r"""RMSNorm on one NVIDIA GPU: our kernels against PyTorch, torch.compile, Liger, QuACK and a copy.

For each shape and dtype our implementations are searched first (see kernels_search.py). Then all
contenders are timed in one process on the same tensors: each as one CUDA graph of several launches,
one replay a round, in an order that rotates and turns round, between two events. "Cold" rotates
tensors of three times the last-level cache in all; "hot" has one set. Before that, the whole output
of each of ours for the first set is compared with a float64 reference on the device, by the
operator's tolerance; between padded rows nothing may be written. Figures are medians over the
rounds, in microseconds a launch.

    python benchmarks/kernels.py --cells large --dtype float32 --output docs/results/h200-kernels \
        --known benchmarks/best-configs.csv
    python benchmarks/kernels.py --shape 4096x5000 --cache cold --row-padding 24 --output padded

writes a CSV (a row a cell, a column a contender) and a Markdown page beside it. ``--known`` begins
with what was best in earlier runs (the file there: docs/results, benchmarks/data and trials of
2026-12-04 on an H200) and adds what is best in this one. Needs PyTorch;
Liger and QuACK are left out where they are not installed. Nothing here is a dependency of
``tuner``.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import shlex
import sys
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TypeAlias

import kernels_options
import kernels_page
import torch
from kernels_builders import builders
from kernels_cell import Cell
from kernels_contender import Contender
from kernels_contender import measure
from kernels_copy import copies
from kernels_known import Known
from kernels_ours import Ours
from kernels_peers import peers
from kernels_row import Row
from kernels_row import UNFUSED

GRAPH_US = 1000.0  # device time of one replay: long against the event's resolution
AHEAD = 3  # cells whose first configs are compiled before their turn

Rivals: TypeAlias = Callable[[Cell, int], Iterable[Contender]]


def right_ones(ours: Ours, cell: Cell, launches: int) -> tuple[list[Contender], float]:
    """Return the best of each implementation, but for wrong ones, and the worst error."""
    right, worst = [], 0.0
    for each in ours.contenders(cell, launches):
        error, problem = cell.fault(each)
        if problem:
            where = f"{cell.workload.shape_text} {cell.workload.dtype} {each.name} {each.note}"
            ours.faults.append(f"{where}: {problem}")
            print(ours.faults[-1], file=sys.stderr, flush=True)
            continue
        worst = max(worst, error)
        right.append(each)
    cell.clear()
    return right, worst


def run_cell(ours: Ours, cell: Cell, rivals: Sequence[Rivals]) -> Row | None:
    """Search, check and time one cell; None where none of ours is right."""
    workload, sets = cell.workload, len(cell.sets)
    launches = max(sets, min(512, round(GRAPH_US / cell.estimate_us) // sets * sets))
    begun = [time.perf_counter()]
    ours.try_all(cell)
    begun.append(time.perf_counter())
    contenders: list[Contender] = []
    for prepare in rivals:
        ours.search.climb(workload)
        contenders += prepare(cell, launches)  # while what climb() asked for is compiled
        begun.append(time.perf_counter())
        ours.try_all(cell)
        begun.append(time.perf_counter())
    right, worst = right_ones(ours, cell, launches)
    if all(each.name == UNFUSED for each in right):
        print(f"left out: {workload.shape_text} {workload.dtype}", file=sys.stderr)
        return None
    times_us = measure([*contenders, *right])
    configs = {each.name: each.note for each in right}
    row = Row(workload, cell.cache, times_us, configs, worst)
    begun.append(time.perf_counter())
    took = " ".join(f"{after - before:.1f}" for before, after in itertools.pairwise(begun))
    print(f"{kernels_page.progress_line(row)}; {took} s", flush=True)
    return row


def no_peers(_cell: Cell, _launches: int) -> Iterable[Contender]:
    """Yield none."""
    return ()


def main() -> None:
    """Measure the cells asked for and write the tables."""
    options = kernels_options.parse(__doc__)
    begun = time.perf_counter()
    processes = builders(options.cache_dir)
    known = Known(options.known)
    ours = Ours(options.operator, options.cache_dir, processes, known)
    cells = kernels_options.cells(options, ours.operator)
    rivals: list[Rivals] = [copies, peers if options.peers == "all" else no_peers]
    for workload, _ in cells[:AHEAD]:
        ours.search.begin(workload)
    rows: list[Row] = []
    for (workload, cache), later in itertools.zip_longest(cells, cells[AHEAD:]):
        if time.perf_counter() - begun > options.until_s:
            print(f"stopped before {workload.shape_text} {workload.dtype}", file=sys.stderr)
            break
        if later is not None:
            ours.search.begin(later[0])
        ours.search.begin(workload)  # anew, where a cell before had the same workload
        problem = ours.operator.problem(workload)
        cell = Cell(workload, problem, cache, ours.device.facts.cache_bytes)
        row = run_cell(ours, cell, rivals)
        del cell  # before the next one's tensors are made
        torch.cuda.empty_cache()
        if row is not None:
            rows.append(row)
            known.keep(workload, cache, row.configs)
            kernels_page.write(options.output, rows, _facts(ours))
    processes.shut_down()
    print(f"configs left out: {dict(ours.search.left_out)}; built anew: {ours.search.built_anew}")
    print(f"wrote {options.output}.csv and .md in {time.perf_counter() - begun:.0f} s")
    sys.exit(1 if ours.faults else 0)


def _facts(ours: Ours) -> dict[str, str]:
    versions = {}
    for name in ("torch", "triton", "liger-kernel", "quack-kernels"):
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
