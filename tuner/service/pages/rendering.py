"""Turns values and errors into pages: templates with escaping, and their filters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.responses import Response

from tuner import __version__
from tuner import api
from tuner.domain.identity import Plain
from tuner.domain.identity import scalar_text
from tuner.domain.queue import ENDED
from tuner.domain.workload import shape_text
from tuner.service.dependencies import service_state
from tuner.service.errors import Problem
from tuner.service.login_place import login_address

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
PLOTLY = "plotly.min.js"
_FRACTION_OF_A_SECOND = re.compile(r"\.\d+")


def render(
    request: Request, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HTMLResponse:
    """Return a page, or a part of one that htmx puts in place."""
    access = service_state(request).access
    text = (
        _environment()
        .get_template(template)
        .render(
            context,
            path=request.url.path,
            login=login_address(request.scope),
            version=__version__,
            can_write=access.is_known(request.headers),
            has_token=access.has_token,
        )
    )
    return HTMLResponse(text, status)


def error_page(request: Request, problem: Problem) -> Response:
    """Return an error as a page, with the status that the same error has in the API."""
    page = render(request, "error.html", {"problem": problem}, status=problem.status)
    page.headers.update(problem.headers)
    return page


@cache
def plotly_version() -> str:
    """Return the version of the package whose script draws the charts."""
    return version_of("plotly")


@cache
def _environment() -> Environment:
    from jinja2 import Environment
    from jinja2 import FileSystemLoader
    from jinja2 import StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": _figure,
        "decimals": _decimals,
        "shape": lambda sizes: sizes if isinstance(sizes, str) else shape_text(sizes),
        "moment": _moment,
        "scalar": scalar_text,
        "shown": _shown,
        "words": lambda text: str(text).replace("_", " "),
        "brief": lambda text: text[:12],
    }
    environment.tests["ended"] = ENDED.__contains__
    environment.globals["asset"] = _asset
    return environment


def _figure(value: float | None) -> Markup | str:
    """Return a rounded figure; the exact one is in ``value`` and shows when pointed at."""
    if value is None:
        return api.figure_text(None)
    return _rounded(value, api.figure_text(value))


def _decimals(value: float, digits: int) -> Markup:
    """Return a figure with so many digits after the point; the exact one is as in ``_figure``."""
    return _rounded(value, f"{value:.{digits}f}")


def _rounded(value: float, text: str) -> Markup:
    exact = repr(value)
    return Markup('<data value="{}" title="{}">{}</data>').format(exact, exact, text)


def _shown(value: Plain) -> str:
    """Return a value of JSON for people."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return str(value)


def _moment(text: str | None) -> Markup | str:
    """Return a stored time to the second, in UTC as it is stored."""
    if not text:
        return "—"
    shown = _FRACTION_OF_A_SECOND.sub("", text).replace("+00:00", "").replace("T", " ")
    return Markup('<time datetime="{}">{} UTC</time>').format(text, shown)


@cache
def _asset(name: str) -> str:
    """Return the address of a file that pages load; it changes with the version of its package."""
    version = plotly_version() if name == PLOTLY else __version__
    return f"/static/{name}?v={version}"
