"""Where a browser is led after it has logged in: to where it was, and never to another site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote
from urllib.parse import unquote
from urllib.parse import urlencode
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.datastructures import QueryParams
from starlette.routing import Route
from starlette.types import Scope

from tuner.service.errors import methods_of
from tuner.service.security import READ_METHODS

LOGIN_PATH = "/login"
_MAX_CHARACTERS = 1000
# A path with its query, of visible ASCII. Browsers read `//x`, `/\x` and `/`, a tab, `/x` as the
# address of another host.
_PLACE = re.compile(r"/(?!/)[!-\[\]-~]*")


def own_place(text: str, routes: Iterable[Route]) -> str:
    """Return a place of this service as it was asked for, or the first page where it is none.

    Args:
        text: The place: a path, with a query or without.
        routes: Of the service. What can't be looked at is no place to be led to, such as a form's.
    """
    if len(text) > _MAX_CHARACTERS or not _PLACE.fullmatch(text) or text.startswith(LOGIN_PATH):
        return "/"
    return text if "GET" in methods_of(routes, unquote(urlsplit(text).path)) else "/"


def login_address(scope: Scope) -> str:
    """Return the address of the login page that leads back to where a request comes from."""
    place = own_place(_place(scope), scope["app"].state.service.routes)
    return LOGIN_PATH if place == "/" else f"{LOGIN_PATH}?{urlencode({'to': place})}"


def _place(scope: Scope) -> str:
    """Return the page that is asked for, or that a form or a part of a page is sent from."""
    headers = Headers(scope=scope)
    query = scope["query_string"].decode("latin-1")
    if scope["path"] == LOGIN_PATH:
        return QueryParams(query).get("to", "/")
    if "hx-current-url" in headers:
        return _path_of(headers["hx-current-url"])
    if scope["method"] not in READ_METHODS:
        return _path_of(headers.get("referer", ""))
    return quote(scope["path"]) + (f"?{query}" if query else "")


def _path_of(address: str) -> str:
    try:
        found = urlsplit(address)
    except ValueError:
        return "/"
    return found.path + (f"?{found.query}" if found.query else "")
