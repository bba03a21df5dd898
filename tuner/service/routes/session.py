"""The pages' session: the token is exchanged for a cookie that is not the token."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.responses import Response

from tuner.service.dependencies import StateDep
from tuner.service.security import SESSION_COOKIE
from tuner.service.security import SESSION_S

router = APIRouter(include_in_schema=False)


@router.post("/login")
async def login(request: Request, state: StateDep) -> Response:
    """Start a session for who sends the token in the form field ``token``."""
    try:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:  # more fields than that
        fields = {}
    if not state.access.knows(fields.get("token", [""])[0].strip()):
        return RedirectResponse("/login?failed=1", 303)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        SESSION_COOKIE,
        state.access.new_session(),
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout")
async def logout() -> Response:
    """End the session in this browser."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    return answer
