"""This project's implementations in benchmarks/kernels.py: searched, and made ready to be timed."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator
from pathlib import Path

from kernels_builders import Builders
from kernels_cell import Cell
from kernels_contender import Contender
from kernels_known import Known
from kernels_search import Search

from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.languages.base import Executable
from tuner.domain.identity import config_text
from tuner.operator import load_operator

OURS = (
    *("hip-vector", "hip-split", "triton-row", "triton-rows", "triton-turns", "triton-loop"),
    *("triton-split", "triton-unfused"),
)
# A config is ranked by so much device time, at most so many launches: to capture a launch takes the
# host longer than the GPU needs for a short one, and cold cells of 1024 short rows have some
# hundred sets.
RANKED_US = 250.0
RANKED_LAUNCHES = (4, 32)


class Ours:
    """Searches and prepares this project's implementations."""

    def __init__(
        self, operator_folder: Path, cache_dir: Path, builders: Builders, known: Known
    ) -> None:
        self.operator = load_operator(operator_folder.resolve())
        self.device = NvidiaDevice(0, cache_dir=cache_dir)
        self.faults: list[str] = []  # what was measured and then found wrong: left out, exit code 1
        self.search = Search(self.operator, OURS, self.device, cache_dir, builders, known)

    def try_all(self, cell: Cell) -> None:
        """Time every config that waits for it, briefly."""
        fewest, most = RANKED_LAUNCHES
        launches = max(fewest, min(most, round(RANKED_US / cell.estimate_us)))
        self.search.time(cell.workload, functools.partial(time_us, self.device, cell, launches))

    def contenders(self, cell: Cell, launches: int) -> Iterator[Contender]:
        """Yield each implementation that can run, with the best config found."""
        in_full = functools.partial(time_us, self.device, cell, launches)
        for name, config, executable in self.search.best(cell.workload, in_full):
            prepared = self.device.prepare(cell.launches(executable, launches), "graph")
            yield Contender(name, prepared.elapsed_us, launches, config_text(config))


def time_us(device: NvidiaDevice, cell: Cell, launches: int, executable: Executable) -> float:
    """Return the median of three replays of a graph of launches, in microseconds.

    Where a cold cell has more sets than there are launches, those of one replay would find what
    the one before has left in the cache: it is flushed before each.
    """
    would_be_warm = cell.cache == "cold" and launches < len(cell.sets)
    samples_us = []
    prepared = device.prepare(cell.launches(executable, launches), "graph")
    try:
        for _ in range(4):
            if would_be_warm:
                device.flush_cache()
            samples_us.append(prepared.elapsed_us())
    finally:
        prepared.close()
    return statistics.median(samples_us[1:])
