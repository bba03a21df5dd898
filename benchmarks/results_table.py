"""Prints a study's confirmed times as a Markdown table: shapes down, implementations across.

Reads a results database through tuner's own export, so that a table in docs/results/ can be
made again from the database it came from.

    python benchmarks/results_table.py DATABASE STUDY
"""

from __future__ import annotations

import sys

import pandas as pd

import tuner
from tuner.settings import load_settings


def table(database: str, study: str) -> str:
    """Return the Markdown table of a study."""
    frame = tuner.history(study, settings=load_settings(db=database))
    confirmed = frame[frame["confirmed"] & (frame["outcome"] == "ok")]
    names = sorted(set(frame["implementation"]))
    lines = [
        "| shape | " + " | ".join(names) + " | best config | range µs | GB/s |",
        "|---|" + "---|" * (len(names) + 3),
    ]
    for shape in dict.fromkeys(frame["shape"]):
        rows = confirmed[confirmed["shape"] == shape].sort_values("median_us")
        if rows.empty:
            continue
        best = rows.iloc[0]
        cells = [_cell(rows, name, best) for name in names]
        lines.append(
            f"| {shape} | " + " | ".join(cells) + f" | {best['implementation']} {best['config']} | "
            f"{best['low_us']:.3f} – {best['high_us']:.3f} | {best['bandwidth_gb_s']:.0f} |"
        )
    return "\n".join(lines)


def _cell(rows: pd.DataFrame, name: str, best: pd.Series) -> str:
    own = rows[rows["implementation"] == name]
    if own.empty:
        return "–"
    text = f"{own.iloc[0]['median_us']:.4g}"
    return f"**{text}**" if own.iloc[0]["trial_id"] == best["trial_id"] else text


if __name__ == "__main__":
    print(table(sys.argv[1], sys.argv[2]))
