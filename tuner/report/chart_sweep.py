"""Time and achieved bandwidth over the size of the last dimension, where only that varies in kind.

Shapes of equal element count are the same work laid out differently; with equal rows the work
grows with the columns. Of shapes that share neither, only the bandwidth compares.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import TypeAlias

from tuner.domain.controls import RunControls
from tuner.domain.study import BestCandidate
from tuner.domain.workload import shape_text
from tuner.domain.workload import Workload
from tuner.report.chart_style import Figure
from tuner.report.chart_style import label
from tuner.report.chart_style import Style
from tuner.report.chart_style import title

_Key: TypeAlias = tuple[str | int, ...]  # what a group's shapes share

MIN_SWEEP_SHAPES = 2
# Lower panel, upper panel: the legend stands above both.
TIME_DOMAIN = (0.56, 1.0)
BANDWIDTH_DOMAIN = (0.0, 0.46)
COLUMNS_TITLE = "columns: size of the last dimension (log scale)"
COPY_COLOR = "#888888"  # seen on a dark and on a light page


@dataclass(frozen=True, slots=True)
class Sweep:
    """Shapes that are drawn together.

    Attributes:
        title: What they share.
        shapes: By their last dimension.
        is_line: Their times compare, and points of one implementation are joined.
    """

    title: str
    shapes: tuple[tuple[int, ...], ...]
    is_line: bool = True


def sweeps(shapes: Sequence[tuple[int, ...]]) -> list[Sweep]:
    """Return the groups of shapes to draw: as few as hold all that can be drawn.

    A group has an equal element count or equal rows, and several last dimensions; of two shapes
    with the same last dimension the first counts. What is in no such group comes last, together.
    What is left over even then has no other shape to be drawn beside.
    """
    left = list(dict.fromkeys(shapes))
    groups = _groups(left)
    found = []
    while groups:
        key = max(groups, key=lambda each: _worth(each, groups[each], left))
        members = groups.pop(key).values()
        if not any(shape in left for shape in members):
            break
        found.append(Sweep(_title(key), _by_columns(members)))
        left = [shape for shape in left if shape not in members]
    if len({shape[-1] for shape in left if shape}) >= MIN_SWEEP_SHAPES:
        found.append(Sweep("Other shapes", _by_columns(left), is_line=False))
    return found


def _groups(shapes: Sequence[tuple[int, ...]]) -> dict[_Key, dict[int, tuple[int, ...]]]:
    found: dict[_Key, dict[int, tuple[int, ...]]] = {}
    for shape in shapes:
        work: _Key = ("elements", len(shape), math.prod(shape))
        rows: _Key = ("rows", *shape[:-1])
        for key in (work, rows) if shape else ():
            found.setdefault(key, {}).setdefault(shape[-1], shape)
    return {key: group for key, group in found.items() if len(group) >= MIN_SWEEP_SHAPES}


def _worth(
    key: _Key, group: Mapping[int, tuple[int, ...]], left: Sequence[tuple[int, ...]]
) -> tuple[int, bool, int]:
    """Order groups: first what shows most that is not drawn yet, then what is equal work."""
    is_equal_work = key[0] == "elements"
    size = math.prod(next(iter(group.values())))
    return sum(shape in left for shape in group.values()), is_equal_work, size


def _title(key: _Key) -> str:
    sizes = [int(each) for each in key[1:]]
    if key[0] == "elements":
        return f"{sizes[-1]} elements"
    if not sizes:
        return "One dimension"
    return "1 row" if sizes == [1] else f"{shape_text(sizes)} rows"


def _by_columns(shapes: Collection[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(shapes, key=lambda shape: (shape[-1:], shape)))


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
    data = _all_traces(results, style_of, copies)
    top_gb_s = max(
        *(each.bandwidth_gb_s for group in results.values() for each in group),
        *(each.copy_gb_s or 0.0 for each in copies),
        0.0,
    )
    x_axis = {**_columns_axis(results), "domain": [0.0, 1.0]}
    layout: dict[str, Any] = {
        "title": title("Time and achieved bandwidth over the last dimension"),
        "xaxis": {**x_axis, "anchor": "y", "showticklabels": False},
        "xaxis2": {
            **x_axis, "anchor": "y2", "matches": "x", "title": {"text": COLUMNS_TITLE},
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


def points_figure(
    results: Mapping[str, Sequence[BestCandidate]],
    style_of: Mapping[str, Style],
    copies: Sequence[RunControls] = (),
) -> Figure:
    """Draw bandwidths alone, as points: of shapes whose times say nothing beside each other.

    Args:
        results: Confirmed results by implementation.
        style_of: Style of each implementation.
        copies: Copies of as many bytes, which have a time.
    """
    data = [
        {**trace, "mode": "markers", "showlegend": True, "xaxis": "x", "yaxis": "y"}
        for trace in _all_traces(results, style_of, copies)[1::2]  # the lower panels
    ]
    layout: dict[str, Any] = {
        "title": title("Achieved bandwidth over the last dimension"),
        "xaxis": {**_columns_axis(results), "title": {"text": COLUMNS_TITLE}},
        "yaxis": {"type": "log", "dtick": 1, "minor": {"showgrid": True, "gridwidth": 0.4},
                  "title": {"text": "bandwidth, GB/s (log scale)"}},
        "margin": {"l": 80, "r": 30, "t": 90, "b": 60},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _columns_axis(results: Mapping[str, Sequence[BestCandidate]]) -> dict[str, Any]:
    sizes = sorted({each.workload.shape[-1] for group in results.values() for each in group})
    return {"type": "log", "tickvals": sizes, "ticktext": [str(size) for size in sizes]}


def _all_traces(
    results: Mapping[str, Sequence[BestCandidate]],
    style_of: Mapping[str, Style],
    copies: Sequence[RunControls],
) -> list[dict[str, Any]]:
    """Return two traces of each implementation and of the copies: of time, then of bandwidth."""
    traces = [
        trace
        for name, group in results.items()
        for trace in _traces(
            name, sorted(group, key=lambda each: each.workload.shape[-1]), style_of[name]
        )
    ]
    return traces + _copy_traces(sorted(copies, key=lambda each: each.workload.shape[-1]))


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
            "marker": {"color": COPY_COLOR, "symbol": "line-ew-open", "size": 16},
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
