"""What all charts share: colours, themes, labels and the value that holds one.

A figure is the plain JSON that Plotly draws. Building it needs no import of Plotly (0.3 s), and
nothing in it can be but what these modules put there.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import TypeAlias

from tuner.domain.identity import Config
from tuner.report.shown import shortened

Figure: TypeAlias = dict[str, Any]

# Okabe and Ito, "Color Universal Design" (2008), without black and yellow, which vanish on a
# dark and on a light page.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
DASHES = ("solid", "dash", "dot", "dashdot")
MAX_LABEL_LENGTH = 26


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its words.

    Attributes:
        name: Letters, digits and dashes; names its file and its place on the page.
        title: Plain text.
        caption: Plain text: what is drawn, and what is left out.
        figure: Data and layout for Plotly.
        width_px: Of its picture.
        height_px: Of its picture, and on a page.
    """

    name: str
    title: str
    caption: str
    figure: Figure
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class Style:
    """How an implementation is drawn in all charts: colour, and shapes for print in grey."""

    color: str
    symbol: str
    dash: str


def styles(implementations: Sequence[str]) -> dict[str, Style]:
    """Give each implementation a style of its own while there are enough colours."""
    return {
        name: Style(
            PALETTE[index % len(PALETTE)],
            SYMBOLS[index % len(SYMBOLS)],
            DASHES[index // len(PALETTE) % len(DASHES)],
        )
        for index, name in enumerate(implementations)
    }


def label(text: str, length: int = MAX_LABEL_LENGTH) -> str:
    """Return stored text as Plotly shows it letter by letter: Plotly reads tags and entities."""
    return html.escape(shortened(text, length), quote=False)


def config_lines(config: Config) -> str:
    """Return a config as lines of a label, one parameter each."""
    return "<br>".join(label(f"{name}={config[name]}") for name in sorted(config))


def template(*, dark: bool) -> dict[str, Any]:
    """Return Plotly's template of a theme: all colours that are not data."""
    ink, grid, faint = ("#e6e6e6", "#3d4248", "#22262b") if dark else ("#222", "#dcdfe3", "#f1f3f5")
    axis = {
        "gridcolor": grid,
        "linecolor": ink,
        "tickcolor": ink,
        "minor": {"gridcolor": faint},
        "zeroline": False,
        "automargin": True,
        "exponentformat": "none",
        "title": {"standoff": 10},
    }
    return {
        "layout": {
            "font": {"family": "system-ui, 'DejaVu Sans', sans-serif", "size": 13, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)" if dark else "#fff",
            "plot_bgcolor": "rgba(0,0,0,0)" if dark else "#fff",
            "title": {"x": 0.01, "xanchor": "left", "font": {"size": 16}},
            "xaxis": axis,
            "yaxis": axis,
            "separators": ".",
            "hoverlabel": {"bgcolor": faint, "bordercolor": ink, "font": {"color": ink}},
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"},
            "annotationdefaults": {"font": {"color": ink}, "showarrow": False},
            "shapedefaults": {"line": {"color": ink}},
        },
        "data": {
            "bar": [{"error_y": {"color": ink, "thickness": 1.5, "width": 5}}],
            "scatter": [{"error_y": {"thickness": 1.2, "width": 4}}],
            "heatmap": [{"colorbar": {"outlinewidth": 0, "tickcolor": ink}}],
        },
    }


def title(text: str) -> dict[str, Any]:
    """Return the title of a figure for where it stands alone, as a picture."""
    return {"text": text, "y": 0.98, "yanchor": "top"}


def slug(text: str, number: int) -> str:
    """Return a file name of letters, digits and dashes; the number keeps equal ones apart."""
    letters = "".join(each if each.isascii() and each.isalnum() else "-" for each in text)
    return f"{number:02d}-{letters.strip('-')[:60] or 'x'}"
