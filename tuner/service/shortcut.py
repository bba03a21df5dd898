"""Answers ``/api/v1/best`` on the way in, for programs that ask it all the time.

Routing, reading parameters and handing the request to a thread take a framework as long as finding
the answer. Here a well-formed question is answered with one thread at most, and a server is asked
once for all who wait; any other goes on to the route, which says what is wrong with it.
"""

from __future__ import annotations

import time

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner import api
from tuner.errors import TunerError
from tuner.service.answers import JSON_TYPE
from tuner.service.errors import error_answer
from tuner.service.errors import problem_of
from tuner.service.metrics import Metrics
from tuner.service.routes.lookup import best_answer
from tuner.service.routes.lookup import BestParameters
from tuner.service.shared_look import SharedLook

BEST_PATH = "/api/v1/best"


class Shortcut:
    """ASGI layer inside the gate, around the routes.

    Args:
        app: Whatever has no answer here goes on to it.
        route: Whose place this takes.
        answers: Finds and keeps answers, by query string.
        metrics: Times them as the route does.
    """

    def __init__(
        self, app: ASGIApp, route: Route, answers: api.BestAnswers, metrics: Metrics
    ) -> None:
        self._app = app
        self._route = route
        self._answers = answers
        self._metrics = metrics
        self._look = SharedLook(answers.look)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if (
            scope["type"] == "http"
            and scope["path"] == self._route.path
            and scope["method"] == "GET"
        ):
            answer = await self._answer(scope["query_string"])
            if answer is not None:
                scope["route"] = self._route
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, query: bytes) -> Response | None:
        begun_s = time.perf_counter()
        try:
            content = await self._content(query)
        except TunerError as error:
            answer = error_answer(problem_of(error))
        else:
            if content is None:
                return None
            answer = Response(content, media_type=JSON_TYPE)
        self._metrics.note_best_lookup(time.perf_counter() - begun_s)
        return answer

    async def _content(self, query: bytes) -> bytes | None:
        # To ask a thread takes longer than to look whether a kept answer is right, and to ask a
        # server longer still: that is done for all who wait for it.
        content = self._answers.kept_json_at_once(query)
        if content is None and self._answers.may_be_kept(query):
            content = self._answers.kept_json_at_once(query, await self._look())
        return content or await run_in_threadpool(self._found, query)

    def _found(self, query: bytes) -> bytes | None:
        kept = self._answers.kept_json(query)
        if kept is not None:
            return kept
        given = QueryParams(query)
        fields = {name: given.getlist(name) if name == "scalar" else given[name] for name in given}
        try:
            asked = BestParameters.model_validate(fields)
        except ValidationError:
            return None
        return best_answer(self._answers, asked, query)
