"""The pages' session: the token is exchanged for a cookie that is not the token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from typing import TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from tuner.service.dependencies import StateDep
from tuner.service.errors import PageRoute
from tuner.service.login_place import LOGIN_PATH
from tuner.service.login_place import own_place
from tuner.service.pages.forms import FormFields
from tuner.service.pages.forms import NO_FIELDS
from tuner.service.pages.forms import see
from tuner.service.pages.rendering import render
from tuner.service.security import SESSION_COOKIE
from tuner.service.security import SESSION_S

router = APIRouter(route_class=PageRoute)

LoginFields: TypeAlias = Annotated[Mapping[str, str], Depends(FormFields("token", "to"))]


@router.get("/login")
def login(request: Request, state: StateDep, failed: bool = False, to: str = "") -> Response:
    """Ask for the token; ``to`` is where it leads then."""
    return render(request, "login.html", {"failed": failed, "to": own_place(to, state.routes)})


@router.post("/login")
def begin(request: Request, fields: LoginFields, state: StateDep) -> Response:
    """Start a session for who sends the token in the form field ``token``, and lead on."""
    place = own_place(fields.get("to", ""), state.routes)
    if not state.access.knows(fields.get("token", "")):
        again = {"failed": "1", **({"to": place} if place != "/" else {})}
        return see(f"{LOGIN_PATH}?{urlencode(again)}")
    answer = see(place)
    answer.set_cookie(
        SESSION_COOKIE,
        state.access.new_session(),
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        # Only the browser knows: we are called without TLS, by a proxy that ends it.
        secure=request.headers.get("origin", "").lower().startswith("https://"),
    )
    return answer


@router.post("/logout", dependencies=[NO_FIELDS])
def end() -> Response:
    """End the session in this browser."""
    answer = see("/login")
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    return answer
