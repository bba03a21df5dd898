"""The CSV and the Markdown page of ``search.py``."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

HEAD = """\
# Search: how soon the best config is found

Every legal config of one kernel (`hip-vector`, FP32, cold) was measured on an NVIDIA H200 for 12
shapes (2026-12-02, driver 580.159.04, about 1,000 to 2,100 configs each, TURNS = 1), and for one
shape with all values of TURNS (5,696 configs). Samplers are replayed on these times.

- *guided* begins with the kernel's default config and cost model, as `tuner run` does. *Warm
  start*: it is told the results of the other shapes too. *From nothing*: neither default nor cost
  model; the fair comparison with Kernel Tuner's strategies, which begin anywhere.
- The sampler's settings, and the weights of cost model and warm start, were chosen on the 12
  shapes, so the figures flatter it. Not used for that: the space with all values of TURNS.
- The data: `python benchmarks/exhaustive_space.py --shapes 1024x1024 16384x1024 1024x4096
  16384x4096 1024x2048 16384x2048 1024x5120 8192x5120 1024x512 16384x512 1024x16384
  4096x16384 --set TURNS=1 --output benchmarks/data`, and without `--set` for 1024x1024.
- Left out: `diff_evo` (76 ms an evaluation) and `pyatf_strategies` (Kernel Tuner 1.5.0 fails on the
  restrictions that its `tune_cache` infers).
- Evaluations: median over {repeats} repeats; then over the 12 shapes of about 1,600 configs the
  median, and the worst shape in brackets. "-" is more than 60 (or than the space's budget).
- Score: doi 10.1016/j.future.2024.05.021 over evaluations, mean over these shapes, with the 95 %
  interval of the repeats. 1 has the best at once, 0 is random search, calculated.
- ms: milliseconds of the sampler for each evaluation, at about 60 evaluations, on a busy 2-core
  machine; Kernel Tuner's include its reading of the cache file.
"""


def write_page(
    target: Path, rows: Sequence[Mapping[str, Any]], repeats: int, facts: Mapping[str, str]
) -> None:
    """Write both files."""
    with target.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow([_cell(value) for value in row.values()])
    lines = [HEAD.format(repeats=repeats), *_table(rows), ""]
    lines += ["## Each space: evaluations to 5 % / 3 % / 1 %", "", *_by_space(rows), ""]
    lines += ["## Run", ""]
    lines += [f"- {name}: `{text}`" for name, text in facts.items()]
    lines += [f"- date: {date.today().isoformat()}", ""]  # noqa: DTZ011 - the day here
    target.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| contender | to 5 % | to 3 % | to 1 % | score | 95 % | ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for contender in dict.fromkeys(row["contender"] for row in rows):
        own = [r for r in rows if r["contender"] == contender and "TURNS" not in r["space"]]
        if not own:
            continue
        counts = []
        for percent in (5, 3, 1):
            medians = [row[f"within_{percent}_percent_median"] for row in own]
            counts.append(f"{_count(statistics.median(medians))} ({_count(max(medians))})")
        score = statistics.fmean(row["score"] for row in own)
        # The spaces' means are independent of each other: their variances add.
        half = math.sqrt(sum(((r["score_high"] - r["score_low"]) / 2) ** 2 for r in own)) / len(own)
        propose_ms = statistics.fmean(row["propose_ms"] for row in own)
        lines.append(
            f"| {contender} | {' | '.join(counts)} | {score:.3f} | "
            f"{score - half:.3f}–{score + half:.3f} | {propose_ms:.2f} |"
        )
    return lines


def _by_space(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    contenders = list(dict.fromkeys(row["contender"] for row in rows))
    lines = [f"| space | configs | {' | '.join(contenders)} |"]
    lines.append("|---" * (len(contenders) + 2) + "|")
    for space in dict.fromkeys(row["space"] for row in rows):
        own = {row["contender"]: row for row in rows if row["space"] == space}
        cells = [_counts(own[each]) if each in own else "" for each in contenders]
        configs = next(iter(own.values()))["configs"]
        lines.append(f"| {space} | {configs} | {' | '.join(cells)} |")
    return lines


def _counts(row: Mapping[str, Any]) -> str:
    return " / ".join(_count(row[f"within_{percent}_percent_median"]) for percent in (5, 3, 1))


def _count(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else "-"


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else ""
    return value
