"""Config × shape: how many times as long as the best of the shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from tuner.domain.identity import Config
from tuner.domain.identity import config_text
from tuner.domain.outcome import Outcome
from tuner.report.chart_style import Figure
from tuner.report.chart_style import label
from tuner.report.chart_style import title
from tuner.report.shown import number
from tuner.report.study_report import WorkloadReport

# The colour ends here: whatever takes longer is out of the question alike.
MAX_COLORED_SLOWDOWN = 4.0
COLOR_TICKS = (1.0, 1.25, 1.5, 2.0, 3.0)
COLOR_BAR_PX = 200
# Light is fast. Lightness alone carries it, so that any eye and a grey print can read it.
COLOR_SCALE = "Cividis"
MAX_CONFIGS = 60
MAX_SHAPES = 40
MAX_ROW_LABEL_LENGTH = 44
QUICK_MARK = "~"
SKIPPED_MARK = "·"
FAILED_MARK = "✕"
_NOT_TRIED = (None, Outcome.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class SlowdownCell:
    """One config at one shape.

    Attributes:
        shape: Label of the workload.
        config: The config.
        time_us: Confirmed median, else the quick stage's; None where it was not measured.
        slowdown: Time over that of the shape's best; None likewise.
        confirmed: By the full protocol.
        outcome: How the trial ended.
        message: Why it was not measured, or "".
    """

    shape: str
    config: Config
    time_us: float | None
    slowdown: float | None
    confirmed: bool
    outcome: str
    message: str


def slowdown_cells(workloads: Sequence[WorkloadReport], implementation: str) -> list[SlowdownCell]:
    """Return a cell for every ended trial of an implementation; the last attempt counts.

    A shape's best is its answer; where nothing was confirmed, its fastest quick median.
    """
    cells: dict[tuple[str, str], SlowdownCell] = {}
    for workload in workloads:
        confirmed = {each.trial_id: each.median_us for each in workload.confirmed}
        quick = [each.quick_median_us for each in workload.trials if each.quick_median_us]
        best_us = workload.answer.best.median_us if workload.answer else min(quick, default=None)
        for trial in workload.trials:
            if trial.implementation != implementation or trial.outcome in _NOT_TRIED:
                continue
            median_us = confirmed.get(trial.id) or confirmed.get(trial.reused_from_id or 0)
            time_us = None
            if trial.outcome is Outcome.OK:
                time_us = median_us or trial.quick_median_us
            cells[workload.label, config_text(trial.config)] = SlowdownCell(
                shape=workload.label,
                config=trial.config,
                time_us=time_us,
                slowdown=time_us / best_us if time_us and best_us else None,
                confirmed=median_us is not None,
                outcome=str(trial.outcome),
                message=trial.message,
            )
    return list(cells.values())


def fixed_parameters(cells: Sequence[SlowdownCell]) -> tuple[str, ...]:
    """Return the parameters of which each shape has one value only, but not all the same.

    They follow from the shape (a block as wide as the row), and would give each shape rows of
    its own in the chart.
    """
    values: dict[str, dict[str, set[object]]] = {}
    for cell in cells:
        for name, value in cell.config.items():
            values.setdefault(name, {}).setdefault(cell.shape, set()).add(value)
    return tuple(
        name
        for name, by_shape in sorted(values.items())
        if all(len(found) == 1 for found in by_shape.values())
        and len(set().union(*by_shape.values())) > 1
    )


def without_fixed(cells: Sequence[SlowdownCell]) -> list[SlowdownCell]:
    """Return the cells with configs that leave out what follows from the shape."""
    fixed = set(fixed_parameters(cells))
    return [
        replace(
            cell,
            config={name: value for name, value in cell.config.items() if name not in fixed},
        )
        for cell in cells
    ]


def heatmap_configs(cells: Sequence[SlowdownCell]) -> list[str]:
    """Return the configs to draw, in the order of their parameters' values.

    Configs that ran nowhere are left out, and of too many those that are slow everywhere.
    """
    best: dict[str, float] = {}
    configs: dict[str, Config] = {}
    for cell in cells:
        if cell.slowdown is not None:
            name = config_text(cell.config)
            configs[name] = cell.config
            best[name] = min(cell.slowdown, best.get(name, math.inf))
    kept = sorted(configs, key=lambda name: (best[name], name))[:MAX_CONFIGS]
    return sorted(kept, key=lambda name: _values(configs[name]))


def config_label(config: str) -> str:
    """Return a config's text as its row is labelled."""
    return label(config, MAX_ROW_LABEL_LENGTH)


def heatmap_figure(
    implementation: str, cells: Sequence[SlowdownCell], shapes: Sequence[str]
) -> Figure:
    """Draw the slow-down of each config at each shape.

    Args:
        implementation: Whose configs they are.
        cells: From ``slowdown_cells``.
        shapes: Labels of the shapes, in order.
    """
    configs = heatmap_configs(cells)
    found = {(cell.shape, config_text(cell.config)): cell for cell in cells}
    grid = [[found.get((shape, config)) for shape in shapes] for config in configs]
    columns, rows = [label(each) for each in shapes], [config_label(each) for each in configs]
    heat = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": [[_color(cell) for cell in row] for row in grid],
        "text": [[_text(cell) for cell in row] for row in grid],
        "texttemplate": "%{text}",
        "textfont": {"size": 11},
        "customdata": [[_hover(cell) for cell in row] for row in grid],
        "hovertemplate": "%{y}<br>%{x}<br>%{customdata}<extra></extra>",
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "zmin": 0.0,
        "zmax": math.log(MAX_COLORED_SLOWDOWN),
        "colorscale": COLOR_SCALE,
        "reversescale": True,
        "colorbar": {
            "title": {"text": "times<br>as long", "side": "top"},
            "tickvals": [math.log(tick) for tick in (*COLOR_TICKS, MAX_COLORED_SLOWDOWN)],
            "ticktext": [f"{tick:g}" for tick in COLOR_TICKS] + ["4 +"],
            "lenmode": "pixels",
            "len": COLOR_BAR_PX,
            "y": 1,
            "yanchor": "top",
        },
    }
    layout = {
        "title": title(f"{label(implementation, 60)}: time against the best of each shape"),
        "xaxis": {"side": "bottom", "title": {"text": "shape"}, "showgrid": False,
                  "type": "category", "range": [-0.5, len(columns) - 0.5]},
        "yaxis": {"title": {"text": "config"}, "showgrid": False,
                  "type": "category", "range": [len(rows) - 0.5, -0.5]},
        "margin": {"l": 90, "r": 20, "t": 60, "b": 70},
    }  # fmt: skip
    return {"data": [heat, _gaps(grid, columns, rows)], "layout": layout}


def _gaps(
    grid: Sequence[Sequence[SlowdownCell | None]], columns: Sequence[str], rows: Sequence[str]
) -> dict[str, Any]:
    """Mark what was not measured, with the reason under the pointer."""
    missing = [
        (columns[x], rows[y], cell)
        for y, row in enumerate(grid)
        for x, cell in enumerate(row)
        if cell is not None and cell.slowdown is None
    ]
    return {
        "type": "scatter",
        "mode": "text",
        "x": [x for x, _, _ in missing],
        "y": [y for _, y, _ in missing],
        "text": [
            SKIPPED_MARK if cell.outcome == Outcome.SKIPPED else FAILED_MARK
            for _, _, cell in missing
        ],
        "customdata": [label(f"{cell.outcome}: {cell.message}", 100) for _, _, cell in missing],
        "hovertemplate": "%{y}<br>%{x}<br>%{customdata}<extra></extra>",
        "showlegend": False,
    }


def _color(cell: SlowdownCell | None) -> float | None:
    # On a log scale, where 1.1 and 1.25 are told apart and 100 does not drown them.
    return None if cell is None or cell.slowdown is None else math.log(cell.slowdown)


def _text(cell: SlowdownCell | None) -> str:
    if cell is None or cell.slowdown is None:
        return ""
    figure = f"{cell.slowdown:.2f}" if cell.slowdown < 10 else f"{cell.slowdown:.0f}"
    return figure if cell.confirmed else QUICK_MARK + figure


def _hover(cell: SlowdownCell | None) -> str:
    if cell is None or cell.time_us is None or cell.slowdown is None:
        return ""
    stage = "confirmed" if cell.confirmed else "quick stage only"
    return f"{number(cell.time_us)} µs, {cell.slowdown:.3f} times as long ({stage})"


def _values(config: Mapping[str, object]) -> list[tuple[str, float, str]]:
    return [
        (name, float(value) if isinstance(value, int | float) else 0.0, str(value))
        for name, value in sorted(config.items())
    ]
