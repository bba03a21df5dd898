"""Implementations at one shape, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tuner.domain.study import BestCandidate
from tuner.report.chart_style import config_lines
from tuner.report.chart_style import Figure
from tuner.report.chart_style import label
from tuner.report.chart_style import Style
from tuner.report.chart_style import title
from tuner.report.shown import number

# On one linear axis from 0 a bar ten times shorter than another is no more than a line; and a
# jump splits where it is, rather than beside it.
PANEL_RATIO = 10.0
PANEL_JUMP = 4.0
PANEL_GAP = 0.09


def bar_panels(results: Sequence[BestCandidate]) -> list[list[BestCandidate]]:
    """Group results by order of magnitude, the fastest first."""
    panels: list[list[BestCandidate]] = []
    for each in sorted(results, key=lambda each: (each.median_us, each.implementation)):
        if not panels or each.median_us > min(
            PANEL_RATIO * panels[-1][0].median_us, PANEL_JUMP * panels[-1][-1].median_us
        ):
            panels.append([])
        panels[-1].append(each)
    return panels


def bar_figure(
    shape_label: str, results: Sequence[BestCandidate], style_of: Mapping[str, Style]
) -> Figure:
    """Draw one result an implementation, with the range of its process medians.

    Each panel has a linear time axis of its own that starts at 0.

    Args:
        shape_label: Names the workload.
        results: One confirmed result an implementation.
        style_of: Style of each implementation.
    """
    panels = bar_panels(results)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "title": title(f"Implementations at {label(shape_label, 60)}"),
        "showlegend": False,
        "bargap": 0.35,
        "margin": {"l": 70, "r": 20, "t": 50, "b": 90},
    }
    left = 0.0
    # Every bar is equally wide, whatever panel it is in.
    free = 1.0 - PANEL_GAP * (len(panels) - 1)
    for index, panel in enumerate(panels):
        axis = str(index + 1) if index else ""
        right = left + free * len(panel) / len(results)
        layout[f"xaxis{axis}"] = {
            "domain": [left, min(1.0, right)],
            "anchor": f"y{axis}",
            "tickangle": 0,
            "tickfont": {"size": 11},
        }
        top_us = max(max(each.process_medians_us) for each in panel)
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "range": [0.0, 1.15 * top_us],
            "title": {"text": "" if index else "time, µs a launch"},
        }
        data += _panel(panel, axis, style_of)
        left = right + PANEL_GAP
    return {"data": data, "layout": layout}


def _panel(
    panel: Sequence[BestCandidate], axis: str, style_of: Mapping[str, Style]
) -> list[dict[str, Any]]:
    names = [f"{label(each.implementation)}<br>{config_lines(each.config)}" for each in panel]
    medians = [each.median_us for each in panel]
    highs = [max(each.process_medians_us) for each in panel]
    axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    bars = {
        "type": "bar",
        "x": names,
        "y": medians,
        "marker": {"color": [style_of[each.implementation].color for each in panel]},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - mid for high, mid in zip(highs, medians, strict=True)],
            "arrayminus": [each.median_us - min(each.process_medians_us) for each in panel],
        },
        "customdata": [
            [number(min(each.process_medians_us)), number(max(each.process_medians_us))]
            for each in panel
        ],
        "hovertemplate": "%{x}<br>%{y:.4g} µs, process medians %{customdata[0]} to "
        "%{customdata[1]} µs<extra></extra>",
        **axes,
    }
    # Above the range, where it can't cross the whisker.
    figures = {
        "type": "scatter",
        "mode": "text",
        "x": names,
        "y": highs,
        "text": [number(each.median_us) for each in panel],
        "textposition": "top center",
        "hoverinfo": "skip",
        "cliponaxis": False,
        **axes,
    }
    return [bars, figures]
