"""The outermost layer: refuses what must not reach a handler, adds headers, counts, and logs.

Plain ASGI: a layer built on Starlette's ``BaseHTTPMiddleware`` would start a task and two
memory streams for every request.
"""

from __future__ import annotations

import logging
import math
import time

from starlette.datastructures import Headers
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner.service.errors import error_answer
from tuner.service.errors import PageMaker
from tuner.service.errors import Problem
from tuner.service.events import EVENTS_TYPE
from tuner.service.headers import add_headers
from tuner.service.headers import wants_page
from tuner.service.limits import body_refusal
from tuner.service.limits import BodyRefused
from tuner.service.limits import BUSY
from tuner.service.limits import content_refusal
from tuner.service.limits import header_refusal
from tuner.service.limits import is_too_busy
from tuner.service.limits import RateLimit
from tuner.service.limits import replayed
from tuner.service.limits import whole_body
from tuner.service.login_place import login_address
from tuner.service.metrics import Metrics
from tuner.service.security import Access
from tuner.service.security import READ_METHODS
from tuner.service.security import Refusal
from tuner.service.traffic import Traffic

_log = logging.getLogger("tuner.service.access")


class Gate:
    """ASGI layer around the whole service.

    Args:
        app: What it is around.
        access: Who may do what.
        writes: How often one client may write.
        metrics: Count requests.
        traffic: Is told of requests.
        page: Makes the page of a refusal.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        writes: RateLimit,
        metrics: Metrics,
        traffic: Traffic,
        page: PageMaker,
    ) -> None:
        self._app = app
        self._access = access
        self._writes = writes
        self._metrics = metrics
        self._traffic = traffic
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_s = time.perf_counter()
        asked = Headers(scope=scope)
        status = 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                add_headers(headers, scope["path"], asked)
                if headers.get("content-type", "").startswith(EVENTS_TYPE):
                    has_begun_to_wait()
            await send(message)

        try:
            with self._traffic.request(scope["path"]) as has_begun_to_wait:
                await self._answer(scope, asked, receive, sent)
        finally:
            self._note(scope, status, time.perf_counter() - begun_s)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, send)
            return
        if scope["method"] not in READ_METHODS:
            try:
                body = await whole_body(receive)
            except BodyRefused as error:
                await self._refuse(error.refusal, scope, receive, send)
                return
            refusal = body_refusal(scope["path"], body)
            if refusal is not None:
                await self._refuse(refusal, scope, receive, send)
                return
            receive = replayed(body, receive)
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        method, path = scope["method"], scope["path"]
        if is_too_busy(scope):
            return BUSY
        refusal = header_refusal(scope)
        if refusal is not None:
            return refusal
        if method not in READ_METHODS:
            # Before the token is looked at: guesses are limited too.
            wait_s = self._writes.wait_s(_client(scope))
            if wait_s > 0:
                return Refusal(
                    429,
                    "too_many_requests",
                    "too many writes from this address",
                    retry_after_s=math.ceil(wait_s),
                )
        return self._access.refusal(method, path, headers) or content_refusal(method, path, headers)

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        is_for_a_person = wants_page(scope["path"], Headers(scope=scope))
        # A form of a page whose session has ended too.
        if refusal.status == 401 and is_for_a_person:
            await RedirectResponse(login_address(scope), 303)(scope, receive, send)
            return
        headers = {}
        if refusal.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if refusal.retry_after_s:
            headers["Retry-After"] = str(refusal.retry_after_s)
        if refusal.status in (408, 413) or refusal is BUSY:
            # The rest of the body is not read; or there are too many.
            headers["Connection"] = "close"
        problem = Problem(refusal.status, refusal.message, refusal.hint, refusal.error, headers)
        answer = self._page(Request(scope), problem) if is_for_a_person else error_answer(problem)
        await answer(scope, receive, send)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        template = getattr(scope.get("route"), "path", None) or "(none)"
        self._metrics.count_request(scope["method"], template, status)
        # The path as it was sent, so that no line feed in it makes a line of its own; without the
        # query, where somebody may have put a token.
        path = scope.get("raw_path", b"").decode("latin-1")
        _log.info("%s %s %d %.1f ms", scope["method"], path, status, seconds * 1e3)


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
