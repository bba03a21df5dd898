"""The tables of benchmarks/kernels.py: CSV and Markdown."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from pathlib import Path

UNFUSED = "triton-unfused"
COPIES = ("copy", "copy-triton")
PEERS = ("torch", "torch.compile", "torch.compile-max", "liger")
FACTS = ("device", "driver", "runtime", "compiler", "torch", "triton", "liger-kernel")


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the benchmark.

    Attributes:
        rows: Of the problem.
        cols: Of the problem.
        dtype: Of the arrays.
        cache: ``hot`` or ``cold``.
        times_us: Median microseconds a launch by contender.
        configs: The config of each contender that has one.
        worst_error: Largest error of ours, as a multiple of the tolerance.
    """

    rows: int
    cols: int
    dtype: str
    cache: str
    times_us: Mapping[str, float]
    configs: Mapping[str, str]
    worst_error: float

    @property
    def best(self) -> str:
        """Our fastest implementation."""
        fused = [name for name in self.configs if name != UNFUSED]
        return min(fused, key=self.times_us.__getitem__)

    @property
    def best_peer(self) -> str:
        """The fastest peer."""
        return min((name for name in PEERS if name in self.times_us), key=self.times_us.__getitem__)

    @property
    def of_copy(self) -> float:
        """Our best as a fraction of the speed of the faster copy of the same size."""
        copy_us = min(self.times_us[name] for name in COPIES if name in self.times_us)
        return copy_us / self.times_us[self.best]

    @property
    def gain(self) -> float:
        """How many times as fast as the best peer ours is."""
        return self.times_us[self.best_peer] / self.times_us[self.best]

    @property
    def fusion_gain(self) -> float | None:
        """How many times as fast as our unfused kernels ours is."""
        unfused_us = self.times_us.get(UNFUSED)
        return unfused_us and unfused_us / self.times_us[self.best]


def progress_line(row: Row) -> str:
    """Return what is printed when a cell is done."""
    return (
        f"{row.rows}x{row.cols} {row.dtype} {row.cache}: {row.best} "
        f"{row.times_us[row.best]:.2f} us "
        f"= {row.of_copy:.3f} of copy, {row.gain:.2f} times as fast as {row.best_peer}"
    )


def write(target: Path, rows: Sequence[Row], facts: Mapping[str, str]) -> None:
    """Write the CSV and the page beside it."""
    names = list(dict.fromkeys(name for row in rows for name in row.times_us))
    with target.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["rows", "cols", "dtype", "cache", *(f"{name}_us" for name in names)])
        for row in rows:
            times = [f"{row.times_us[name]:.3f}" if name in row.times_us else "" for name in names]
            writer.writerow([row.rows, row.cols, row.dtype, row.cache, *times])
    target.with_suffix(".md").write_text(_page(rows, names, facts), encoding="utf-8")


def _page(rows: Sequence[Row], names: Sequence[str], facts: Mapping[str, str]) -> str:
    gain = math.exp(sum(math.log(row.gain) for row in rows) / len(rows))
    known = "; ".join(f"{name} {facts[name]}" for name in FACTS if name in facts)
    lines = [
        "# RMSNorm: this project's kernels, PyTorch, Liger and a copy",
        "",
        f"{datetime.now(UTC).date()}; {known}.",
        "",
        f"    {facts['command']}",
        "",
        "Microseconds a launch, medians over rounds in which the contenders take turns, each as",
        "one CUDA graph; how, is said at the head of benchmarks/kernels.py. Of each of ours",
        "the output for the first set was compared with a float64 reference, whole. Copy speed",
        "is that of the faster of two copies of as many bytes: the driver's (copy), and one by a",
        "Triton kernel with accesses of 16 bytes, the best of eight configs (copy-triton).",
        "",
        f"Over the best peer of each cell: {gain:.2f} times as fast (geometric mean); smallest "
        f"{min(row.gain for row in rows):.2f}, largest {max(row.gain for row in rows):.2f}.",
        "",
        "| shape | dtype | cache | "
        + " | ".join(names)
        + " | of copy speed | over the best peer | over unfused |",
        "|---|---|---|" + "---|" * (len(names) + 3),
    ]
    for row in rows:
        cells = [_time(row, name) for name in names]
        lines.append(
            f"| {row.rows}x{row.cols} | {row.dtype} | {row.cache} | {' | '.join(cells)} "
            f"| {row.of_copy:.3f} | {row.gain:.2f} ({row.best_peer}) "
            f"| {_gain(row.fusion_gain)} |"
        )
    lines += [
        "",
        "Of all of ours, the worst error is given as a multiple of the operator's tolerance.",
        "",
        "| shape | dtype | cache | fastest of ours | config | worst error |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.rows}x{row.cols} | {row.dtype} | {row.cache} | {row.best} "
        f"| `{row.configs[row.best]}` | {row.worst_error:.2f} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _gain(gain: float | None) -> str:
    return "–" if gain is None else f"{gain:.2f}"


def _time(row: Row, name: str) -> str:
    if name not in row.times_us:
        return "–"
    text = f"{row.times_us[name]:.2f}"
    return f"**{text}**" if name == row.best else text
