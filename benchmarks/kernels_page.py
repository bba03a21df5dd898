"""The tables of benchmarks/kernels.py: CSV and Markdown."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from pathlib import Path

from tuner.domain.workload import Workload

UNFUSED = "triton-unfused"
COPIES = ("copy", "copy-triton")
PEERS = ("torch", "torch.compile", "torch.compile-max", "liger")
FACTS = ("device", "driver", "runtime", "compiler", "torch", "triton", "liger-kernel")


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the benchmark.

    Attributes:
        workload: What was computed.
        cache: ``hot`` or ``cold``.
        times_us: Median microseconds a launch by contender.
        configs: The config of each of ours.
        worst_error: Largest error of ours, as a multiple of the tolerance.
    """

    workload: Workload
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
    def best_peer(self) -> str | None:
        """The fastest peer, if there is one."""
        present = [name for name in PEERS if name in self.times_us]
        return min(present, key=self.times_us.__getitem__, default=None)

    @property
    def of_copy(self) -> float:
        """Our best as a fraction of the speed of the faster copy of the same size."""
        copy_us = min(self.times_us[name] for name in COPIES if name in self.times_us)
        return copy_us / self.times_us[self.best]

    @property
    def gain(self) -> float | None:
        """How many times as fast as the best peer ours is."""
        peer = self.best_peer
        return None if peer is None else self.times_us[peer] / self.times_us[self.best]

    @property
    def fusion_gain(self) -> float | None:
        """How many times as fast as our unfused kernels ours is."""
        unfused_us = self.times_us.get(UNFUSED)
        return unfused_us and unfused_us / self.times_us[self.best]


def progress_line(row: Row) -> str:
    """Return what is printed when a cell is done."""
    gain = "" if row.gain is None else f", {row.gain:.2f} times as fast as {row.best_peer}"
    return (
        f"{_shape(row)} {row.workload.dtype} {row.cache}: {row.best} "
        f"{row.times_us[row.best]:.2f} us = {row.of_copy:.3f} of copy{gain}"
    )


def write(target: Path, rows: Sequence[Row], facts: Mapping[str, str]) -> None:
    """Write the CSV and the page beside it."""
    names = list(dict.fromkeys(name for row in rows for name in row.times_us))
    with target.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = [f"{name}_us" for name in names]
        writer.writerow(["rows", "cols", "row_padding", "dtype", "cache", *columns])
        for row in rows:
            workload = row.workload
            cell = [*workload.shape, workload.row_padding, workload.dtype, row.cache]
            times = [f"{row.times_us[name]:.3f}" if name in row.times_us else "" for name in names]
            writer.writerow([*cell, *times])
    target.with_suffix(".md").write_text(_page(rows, names, facts), encoding="utf-8")


def _page(rows: Sequence[Row], names: Sequence[str], facts: Mapping[str, str]) -> str:
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
        "Triton kernel with accesses of 16 bytes, the best of eight configs (copy-triton). A shape",
        "RxC+N has N elements between the end of a row and the next one.",
        "",
        *_gains(rows),
        *_times(rows, names),
        "",
        "Of all of ours, the worst error is given as a multiple of the operator's tolerance.",
        "",
        *_configs(rows),
    ]
    return "\n".join(lines) + "\n"


def _gains(rows: Sequence[Row]) -> list[str]:
    gains = [row.gain for row in rows if row.gain is not None]
    if not gains:
        return []
    mean = math.exp(statistics.fmean(map(math.log, gains)))
    return [
        f"Over the best peer of each cell: {mean:.2f} times as fast (geometric mean); smallest "
        f"{min(gains):.2f}, largest {max(gains):.2f}.",
        "",
    ]


def _times(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    header = ["shape", "dtype", "cache", *names]
    header += ["of copy speed", "over the best peer", "over unfused"]
    table = [
        [
            *_cell(row),
            *(_time(row, name) for name in names),
            f"{row.of_copy:.3f}",
            "–" if row.gain is None else f"{row.gain:.2f} ({row.best_peer})",
            "–" if row.fusion_gain is None else f"{row.fusion_gain:.2f}",
        ]
        for row in rows
    ]
    return _table(header, table)


def _configs(rows: Sequence[Row]) -> list[str]:
    header = ["shape", "dtype", "cache", "fastest of ours", "config", "worst error"]
    table = [
        [*_cell(row), row.best, f"`{row.configs[row.best]}`", f"{row.worst_error:.2f}"]
        for row in rows
    ]
    return _table(header, table)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(header)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def _cell(row: Row) -> list[str]:
    return [_shape(row), row.workload.dtype, row.cache]


def _shape(row: Row) -> str:
    padding = row.workload.row_padding
    return row.workload.shape_text + (f"+{padding}" if padding else "")


def _time(row: Row, name: str) -> str:
    if name not in row.times_us:
        return "–"
    text = f"{row.times_us[name]:.2f}"
    return f"**{text}**" if name == row.best else text
