"""Plotly's script, as the Python package of Plotly carries it, and the icon browsers ask for."""

from __future__ import annotations

from importlib.resources import as_file
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import FileResponse
from starlette.responses import RedirectResponse
from starlette.responses import Response

router = APIRouter()
_LONG_CACHING = "public, max-age=31536000, immutable"


@router.get("/static/plotly.min.js")
def plotly() -> Response:
    """Send the script. Its address has the version in it, so that it can be kept for a year."""
    with as_file(files("plotly").joinpath("package_data/plotly.min.js")) as path:
        return FileResponse(
            path, media_type="text/javascript", headers={"Cache-Control": _LONG_CACHING}
        )


@router.get("/favicon.ico")
def icon() -> Response:
    """Lead to the icon: browsers ask for it here beside what is no page of ours, such as JSON."""
    return RedirectResponse("/static/icon.svg", 308)
