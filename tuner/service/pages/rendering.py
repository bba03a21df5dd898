"""Turns values into pages: templates with escaping, filters, and errors as pages too."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from collections.abc import Callable
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.responses import Response

from tuner import __version__
from tuner import api
from tuner.domain.identity import config_text
from tuner.domain.workload import shape_text
from tuner.errors import TunerError
from tuner.service.dependencies import service_state
from tuner.service.errors import status_of

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
STATIC = Path(__file__).resolve().parent.parent / "static"
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
            version=__version__,
            can_write=access.is_known(request.headers),
            has_token=access.has_token,
        )
    )
    return HTMLResponse(text, status)


class PageRoute(APIRoute):
    """A route whose errors are pages: a person reads them."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return the handler, which answers every error of ours with a page."""
        handler = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handler(request)
            except TunerError as error:
                return error_page(request, error)
            except RequestValidationError as error:
                first = error.errors()[0]
                name = ".".join(str(part) for part in first["loc"][1:])
                message = f"{name[:100]}: {first['msg']}"
                return _error_page(request, 400, message, "go back and correct it")

        return answered


def error_page(request: Request, error: TunerError) -> HTMLResponse:
    """Return an error as a page, with the status that the same error has in the API."""
    return _error_page(request, status_of(error), error.message, error.hint)


def _error_page(request: Request, status: int, message: str, hint: str) -> HTMLResponse:
    context = {"status": status, "message": message, "hint": hint}
    return render(request, "error.html", context, status=status)


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
        "config": lambda config: config_text(config) or "none",
        "shape": lambda sizes: sizes if isinstance(sizes, str) else shape_text(sizes),
        "moment": _moment,
        "words": lambda text: str(text).replace("_", " "),
        "brief": lambda text: text[:12],
    }
    environment.globals["asset"] = _asset
    return environment


def _figure(value: float | None) -> Markup | str:
    """Return a rounded figure; the exact one is in ``value`` and shows when pointed at."""
    if value is None:
        return api.figure_text(None)
    exact = repr(value)
    return Markup('<data value="{}" title="{}">{}</data>').format(
        exact, exact, api.figure_text(value)
    )


def _moment(text: str | None) -> Markup | str:
    """Return a stored time to the second, in UTC as it is stored."""
    if not text:
        return "—"
    shown = _FRACTION_OF_A_SECOND.sub("", text).replace("+00:00", "").replace("T", " ")
    return Markup('<time datetime="{}">{} UTC</time>').format(text, shown)


@cache
def _asset(name: str) -> str:
    """Return the address of a file of ours; it changes with the version, so it can be kept."""
    return f"/static/{name}?v={__version__}"
