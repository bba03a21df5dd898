"""Where the token is given; what takes it is ``POST /login``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner.service.pages.rendering import PageRoute
from tuner.service.pages.rendering import render

router = APIRouter(route_class=PageRoute)


@router.get("/login")
def login(request: Request, failed: bool = False) -> Response:
    """Ask for the token."""
    return render(request, "login.html", {"failed": failed})
