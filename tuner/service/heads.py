"""Lets routes know of GET alone: HEAD is answered as GET would be, without a body (RFC 9110)."""

from __future__ import annotations

from starlette.types import ASGIApp
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send


class Heads:
    """ASGI layer inside the gate.

    Parts of a file (``Range``) are not served: the whole is sent, as it may be, and the framework's
    own answers to a wrong range, which have not the shape of our errors, are not come to.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if not is_head and not _has_range(scope):
            await self._app(scope, receive, send)
            return
        inner = {**scope, "headers": [each for each in scope["headers"] if each[0] != b"range"]}
        if is_head:
            inner["method"], send = "GET", _without_body(send)
        try:
            await self._app(inner, receive, send)
        except _HeadSent:
            pass
        finally:
            if "route" in inner:
                scope["route"] = inner["route"]  # for who counts requests


def _has_range(scope: Scope) -> bool:
    return any(name == b"range" for name, _ in scope.get("headers", ()))


class _HeadSent(Exception):
    """All that is asked for is sent. What would make the body is left, as by a lost client."""


def _without_body(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            raise _HeadSent

    return sent
