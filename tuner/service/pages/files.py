"""Plotly's script, as the Python package of Plotly carries it, and the icon browsers ask for."""

from __future__ import annotations

from importlib.resources import as_file
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import FileResponse
from starlette.responses import RedirectResponse
from starlette.responses import Response

from tuner.service.pages.rendering import PLOTLY
from tuner.service.pages.rendering import plotly_version

router = APIRouter()
_LONG_CACHING = "public, max-age=31536000, immutable"


@router.get(f"/static/{PLOTLY}")
def plotly(v: str = "") -> Response:
    """Send the script, to be kept for a year by who asks for it by its version, as pages do."""
    headers = {"Cache-Control": _LONG_CACHING} if v == plotly_version() else {}
    with as_file(files("plotly").joinpath("package_data", PLOTLY)) as path:
        return FileResponse(path, media_type="text/javascript", headers=headers)


@router.get("/favicon.ico")
def icon() -> Response:
    """Lead to the icon: browsers ask for it here beside what is no page of ours, such as JSON."""
    return RedirectResponse("/static/icon.svg", 308)
