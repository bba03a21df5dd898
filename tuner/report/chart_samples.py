"""Samples of one trial in the order taken, process after process, to see drift."""

from __future__ import annotations

from typing import Any

from tuner.domain.identity import config_text
from tuner.domain.stats import median
from tuner.report.chart_style import Figure
from tuner.report.chart_style import label
from tuner.report.chart_style import Style
from tuner.report.chart_style import title
from tuner.report.shown import number
from tuner.report.study_report import SampledTrial

MAX_PROCESS_LABELS = 8


def samples_figure(trial: SampledTrial, shape_label: str, style: Style) -> Figure:
    """Draw every sample, each process beside the one before it, with its median as a line.

    The time axis does not start at 0: a drift of one percent must show.
    """
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    ticks: list[float] = []
    names: list[str] = []
    start = 0
    for process, samples in enumerate(trial.samples_us, start=1):
        middle = median(samples)
        end = start + len(samples)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": list(range(start, end)),
                "y": list(samples),
                "line": {"color": style.color, "width": 1},
                "marker": {"color": style.color, "size": 5},
                "customdata": list(range(1, len(samples) + 1)),
                "hovertemplate": f"process {process}, sample %{{customdata}}: "
                "%{y:.5g} µs<extra></extra>",
            }
        )
        shapes.append(
            {"type": "line", "x0": start - 0.5, "x1": end - 0.5, "y0": middle, "y1": middle,
             "line": {"dash": "dash", "width": 1.5}}
        )  # fmt: skip
        if start:
            shapes.append(
                {"type": "line", "x0": start - 0.5, "x1": start - 0.5, "y0": 0, "y1": 1,
                 "yref": "paper", "line": {"width": 1}}
            )  # fmt: skip
        ticks.append((start + end - 1) / 2)
        names.append(f"process {process}<br>median {number(middle)}")
        start = end
    few = len(names) <= MAX_PROCESS_LABELS
    layout = {
        "title": title(
            f"{label(shape_label, 40)}: {label(trial.implementation, 40)}, "
            f"{label(config_text(trial.config), 60)}"
        ),
        "showlegend": False,
        "xaxis": {
            "tickvals": ticks,
            "ticktext": names if few else [str(number) for number in range(1, len(names) + 1)],
            "title": {"text": "" if few else "process"},
            "showgrid": False,
            "range": [-1, start],
        },
        "yaxis": {"title": {"text": "time, µs a launch"}},
        "shapes": shapes,
        "margin": {"l": 80, "r": 20, "t": 50, "b": 60},
    }
    return {"data": data, "layout": layout}
