"""Gives kept answers to ``/api/v1/best`` on the way in, for programs that ask it all the time.

The route reads and checks parameters, which takes several times as long as looking whether a
kept answer is still right. The same query string was read and checked when it was asked first.
"""

from __future__ import annotations

import time

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner import api
from tuner.errors import TunerError
from tuner.service.answers import JSON_TYPE
from tuner.service.metrics import Metrics

BEST_PATH = "/api/v1/best"


class Shortcut:
    """ASGI layer inside the gate, around the routes.

    Args:
        app: Whatever has no kept answer goes on to it.
        route: Whose answers are kept.
        answers: Keeps them, by query string.
        metrics: Times them as the route does.
    """

    def __init__(
        self, app: ASGIApp, route: Route, answers: api.BestAnswers, metrics: Metrics
    ) -> None:
        self._app = app
        self._route = route
        self._answers = answers
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "http" and scope["path"] == self._route.path:
            content = None
            if scope["method"] == "GET":
                # In a thread: a look at the database can wait for a disk or a network.
                content = await run_in_threadpool(self._kept, scope["query_string"])
            if content is not None:
                scope["route"] = self._route
                await Response(content, media_type=JSON_TYPE)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _kept(self, query: bytes) -> bytes | None:
        begun_s = time.perf_counter()
        try:
            content = self._answers.kept_json(query)
        except TunerError:
            return None  # the route meets the same, and says it in the service's form
        if content is not None:
            self._metrics.note_best_lookup(time.perf_counter() - begun_s)
        return content
