"""Time and achieved bandwidth over the size of the last dimension, at equal element count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tuner.domain.controls import RunControls
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.report.chart_style import Figure
from tuner.report.chart_style import label
from tuner.report.chart_style import Style
from tuner.report.chart_style import title

MIN_SWEEP_SHAPES = 2
# Lower panel, upper panel: the legend stands above both.
TIME_DOMAIN = (0.56, 1.0)
BANDWIDTH_DOMAIN = (0.0, 0.46)
COPY_COLOR = "#888888"  # seen on a dark and on a light page


def sweep_shapes(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the shapes of the largest group of equal rank and element count, by last dimension.

    In such a group the work is the same and only its layout differs. Of two shapes with the same
    last dimension the first counts. Fewer than two are no sweep: the answer is then empty.
    """
    groups: dict[tuple[int, int], dict[int, tuple[int, ...]]] = {}
    for shape in shapes:
        group = groups.setdefault((len(shape), math.prod(shape)), {})
        group.setdefault(shape[-1] if shape else 0, shape)
    largest = max(groups.values(), key=len, default={})
    if len(largest) < MIN_SWEEP_SHAPES:
        return []
    return [shape for _, shape in sorted(largest.items())]


def sweep_figure(
    results: Mapping[str, Sequence[BestCandidate]],
    style_of: Mapping[str, Style],
    copies: Sequence[RunControls] = (),
) -> Figure:
    """Draw each implementation's time and bandwidth over the size of the last dimension.

    Args:
        results: Confirmed results by implementation; those of one have different last dimensions.
        style_of: Style of each implementation.
        copies: Copies of as many bytes, which have a time; drawn as a line beside them.
    """
    sizes = sorted({each.workload.shape[-1] for group in results.values() for each in group})
    data = [
        trace
        for name, group in results.items()
        for trace in _traces(
            name, sorted(group, key=lambda each: each.workload.shape[-1]), style_of[name]
        )
    ]
    data += _copy_traces(sorted(copies, key=lambda each: each.workload.shape[-1]))
    top_gb_s = max(
        *(each.bandwidth_gb_s for group in results.values() for each in group),
        *(each.copy_gb_s or 0.0 for each in copies),
        0.0,
    )
    x_axis = {
        "type": "log",
        "tickvals": sizes,
        "ticktext": [str(size) for size in sizes],
        "domain": [0.0, 1.0],
    }
    layout: dict[str, Any] = {
        "title": title("Time and achieved bandwidth over the last dimension"),
        "xaxis": {**x_axis, "anchor": "y", "showticklabels": False},
        "xaxis2": {
            **x_axis, "anchor": "y2", "matches": "x",
            "title": {"text": "columns: size of the last dimension (log scale)"},
        },
        "yaxis": {
            "type": "log", "dtick": 1, "domain": list(TIME_DOMAIN), "anchor": "x",
            "minor": {"showgrid": True, "gridwidth": 0.4},
            "title": {"text": "time, µs a launch (log scale)"},
        },
        "yaxis2": {
            "range": [-0.03 * top_gb_s, 1.1 * top_gb_s], "anchor": "x2",
            "domain": list(BANDWIDTH_DOMAIN), "title": {"text": "bandwidth, GB/s"},
        },
        "margin": {"l": 80, "r": 30, "t": 90, "b": 60},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _traces(name: str, group: Sequence[BestCandidate], style: Style) -> list[dict[str, Any]]:
    medians_us = [each.median_us for each in group]
    shared = {
        "mode": "lines+markers",
        "name": label(name),
        "legendgroup": label(name),
        "line": {"color": style.color, "dash": style.dash},
        "marker": {"color": style.color, "symbol": style.symbol, "size": 8},
    }
    time, bandwidth = _in_both_panels(
        [each.workload for each in group],
        medians_us,
        [each.bandwidth_gb_s or None for each in group],
        shared,
    )
    time["error_y"] = {
        "type": "data",
        "symmetric": False,
        "array": [max(each.process_medians_us) - each.median_us for each in group],
        "arrayminus": [each.median_us - min(each.process_medians_us) for each in group],
    }
    return [time, bandwidth]


def _copy_traces(copies: Sequence[RunControls]) -> list[dict[str, Any]]:
    if not copies:
        return []
    return _in_both_panels(
        [each.workload for each in copies],
        [each.copy_us for each in copies],
        [each.copy_gb_s for each in copies],
        {
            "mode": "lines",
            "name": "copy of as many bytes",
            "legendgroup": "copy of as many bytes",
            "line": {"color": COPY_COLOR, "dash": "dash", "width": 1.5},
        },
    )


def _in_both_panels(
    workloads: Sequence[Workload],
    times_us: Sequence[float | None],
    bandwidths_gb_s: Sequence[float | None],
    look: Mapping[str, Any],
) -> list[dict[str, Any]]:
    shared = {
        "type": "scatter",
        **look,
        "x": [each.shape[-1] for each in workloads],
        "customdata": [label(each.shape_text, 60) for each in workloads],
    }
    time = {
        **shared,
        "y": times_us,
        "hovertemplate": "%{customdata}: %{y:.4g} µs",
        "xaxis": "x",
        "yaxis": "y",
    }
    bandwidth = {
        **shared,
        "y": bandwidths_gb_s,
        "showlegend": False,
        "hovertemplate": "%{customdata}: %{y:.4g} GB/s",
        "xaxis": "x2",
        "yaxis": "y2",
    }
    return [time, bandwidth]
