"""What our kernels are to reach in benchmarks/kernels.py, and whether a measured cell does."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kernels_options import LARGE_ELEMENTS
from kernels_row import Row

NAMES = ("of copy speed", "of the best peer's", "HIP of our best Triton's")
OF_BEST_PEER = 1 / 1.01  # at most 1 % slower
HIP_OF_TRITON = 1 / 1.03  # at most 3 % slower
HIP_MOST_COLS = 32_768
MEAN_OVER_BEST_PEER = 1.05


class CopyBar(NamedTuple):
    """The least fraction of copy speed for a range of columns, at about 64 M elements, cold."""

    first_cols: int
    last_cols: int
    float32: float
    narrower: float


COPY_BARS = (
    CopyBar(64, 512, 0.93, 0.90),
    CopyBar(1023, 2047, 0.97, 0.95),
    CopyBar(4096, 32_768, 0.97, 0.96),
    CopyBar(65_536, 65_536, 0.95, 0.95),
    CopyBar(131_072, 262_144, 0.92, 0.92),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A fraction that was measured, if it was, and the least that it was to be, if anything."""

    reached: float | None
    bar: float | None

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        return None if self.reached is None or self.bar is None else self.reached >= self.bar

    def __str__(self) -> str:
        if self.reached is None or self.bar is None:
            return "–"
        if self.is_met:
            return f"{self.reached:.4f} ≥ {self.bar:.4g} met"
        return f"**{self.reached:.4f} < {self.bar:.4g} missed**"


def verdicts(row: Row) -> tuple[Verdict, Verdict, Verdict]:
    """Return what a cell has reached, in the order of NAMES."""
    has_hip_bar = row.workload.shape[1] <= HIP_MOST_COLS
    return (
        Verdict(row.of_copy, copy_bar(row)),
        Verdict(row.gain, OF_BEST_PEER),
        Verdict(row.hip_of_triton, HIP_OF_TRITON if has_hip_bar else None),
    )


def copy_bar(row: Row) -> float | None:
    """Return the least fraction of copy speed for a cell, or None where there is no bar."""
    rows, cols = row.workload.shape
    is_large = abs(rows * cols / LARGE_ELEMENTS - 1) < 0.01
    if row.cache != "cold" or row.workload.row_padding or not is_large:
        return None
    for bar in COPY_BARS:
        if bar.first_cols <= cols <= bar.last_cols:
            return bar.float32 if row.workload.dtype == "float32" else bar.narrower
    return None


def summary(rows: Sequence[Row]) -> list[str]:
    """Return a line for each bar: in how many cells it is met."""
    lines = []
    for name, column in zip(NAMES, zip(*map(verdicts, rows), strict=True), strict=True):
        judged = [each.is_met for each in column if each.is_met is not None]
        if judged:
            lines.append(f"- {name}: met in {sum(judged)} of {len(judged)} cells")
    gains = [row.gain for row in rows if row.gain is not None]
    if gains:
        verdict = Verdict(math.exp(statistics.fmean(map(math.log, gains))), MEAN_OVER_BEST_PEER)
        lines.append(f"- over the best peer, geometric mean: {verdict}")
    return lines
