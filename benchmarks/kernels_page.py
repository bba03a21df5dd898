"""The tables of benchmarks/kernels.py: CSV and Markdown."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime
from datetime import UTC
from pathlib import Path

import kernels_bars
from kernels_row import Row

FACTS = (
    *("device", "driver", "runtime", "compiler", "torch", "triton", "liger-kernel"),
    "quack-kernels",
)


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
        "# RMSNorm: this project's kernels, PyTorch, Liger, QuACK and a copy",
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
        "## What was aimed for",
        "",
        *kernels_bars.summary(rows),
        "",
        "Speed as a fraction of that of the copy, of the best peer and, for HIP alone, of our best",
        "Triton kernel, each with the least that was aimed for; – where nothing was.",
        "",
        *_verdicts(rows),
        "",
        "## Configs",
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


def _verdicts(rows: Sequence[Row]) -> list[str]:
    header = ["shape", "dtype", "cache", *kernels_bars.NAMES]
    return _table(header, ([*_cell(row), *map(str, kernels_bars.verdicts(row))] for row in rows))


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
