"""Charts as PNG or SVG files, drawn by Kaleido in a Chrome or Chromium that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal
from typing import TypeAlias

from tuner.report.chart_style import Chart
from tuner.report.chart_style import template
from tuner.report.shown import shortened

ImageFormat: TypeAlias = Literal["png", "svg"]
PIXELS_PER_PX = 2  # sharp on a high-density screen and in print
TIMEOUT_S = 120.0


def write_images(charts: Sequence[Chart], folder: Path, image_format: ImageFormat) -> str:
    """Write ``NAME.png`` or ``NAME.svg`` of each chart in the light theme.

    One browser draws them all; none of them asks the network for anything.

    Returns:
        "" when all are written, else the reason in one line. Some may be written then.
    """
    try:
        kaleido = import_module("kaleido")
    except ImportError:
        return "pictures need Kaleido, which is not installed (pip install 'tuner[images]')"
    jobs = [
        {
            "fig": {
                "data": chart.figure["data"],
                "layout": {**chart.figure["layout"], "template": template(dark=False)},
            },
            "path": folder / f"{chart.name}.{image_format}",
            "opts": {
                "format": image_format,
                "width": chart.width_px,
                "height": chart.height_px,
                "scale": PIXELS_PER_PX if image_format == "png" else 1,
            },
        }
        for chart in charts
    ]
    try:
        errors = kaleido.write_fig_from_object_sync(
            jobs, kopts={"mathjax": False, "timeout": TIMEOUT_S}
        )
    except (RuntimeError, OSError, TimeoutError, ValueError) as error:
        return _reason(error)
    return _reason(errors[0]) if errors else ""


def _reason(error: BaseException) -> str:
    if type(error).__name__ == "ChromeNotFoundError":
        return "pictures need Chrome or Chromium, and neither is installed"
    return f"pictures could not be drawn: {shortened(f'{type(error).__name__}: {error}', 200)}"
