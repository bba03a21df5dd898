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
from tuner.service.dependencies import REPEATABLE
from tuner.service.dependencies import repeated
from tuner.service.errors import error_answer
from tuner.service.errors import problem_of
from tuner.service.metrics import Metrics
from tuner.service.routes.lookup import asked_by
from tuner.service.routes.lookup import BestParameters
from tuner.service.shared_look import SharedLook
from tuner.service.telling import Teller
from tuner.settings import Settings

BEST_PATH = "/api/v1/best"
MAX_READ = 16384  # query strings whose meaning is remembered, of at most some hundred bytes each
MAX_QUERY_BYTES = 500  # longer ones are read each time


class Shortcut:
    """ASGI layer inside the gate, around the routes.

    Args:
        app: Whatever has no answer here goes on to it.
        route: Whose place this takes.
        settings: Name the device that is meant where none is named.
        answers: Finds and keeps answers.
        metrics: Times them as the route does.
        teller: Says what went wrong.
    """

    def __init__(
        self,
        app: ASGIApp,
        route: Route,
        settings: Settings,
        answers: api.BestAnswers,
        metrics: Metrics,
        teller: Teller,
    ) -> None:
        self._app = app
        self._route = route
        self._settings = settings
        self._read: dict[bytes, api.Asked] = {}
        self._answers = answers
        self._metrics = metrics
        self._teller = teller
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
            answer = error_answer(problem_of(error, self._teller))
        else:
            if content is None:
                return None
            answer = Response(content, media_type=JSON_TYPE)
        self._metrics.note_best_lookup(time.perf_counter() - begun_s)
        return answer

    async def _content(self, query: bytes) -> bytes | None:
        asked = self._asked(query)
        if asked is None:
            return None
        # To ask a thread takes longer than to look whether a kept answer is right, and to ask a
        # server longer still: that is done for all who wait for it.
        content = self._answers.kept_json_at_once(asked)
        if content is None and self._answers.may_be_kept(asked):
            content = self._answers.kept_json_at_once(asked, await self._look())
        return content or await run_in_threadpool(self._found, asked)

    def _asked(self, query: bytes) -> api.Asked | None:
        """Return what a query string asks; None where the route has to say what is wrong.

        Raises:
            UsageError: It asks nothing that there can be.
        """
        known = self._read.get(query)
        if known is not None:
            return known
        given = QueryParams(query)
        if repeated(given) is not None:
            return None
        fields = {
            name: given.getlist(name) if name in REPEATABLE else given[name] for name in given
        }
        try:
            parameters = BestParameters.model_validate(fields)
        except ValidationError:
            return None
        asked = asked_by(parameters, self._settings)
        if len(query) <= MAX_QUERY_BYTES:
            if len(self._read) >= MAX_READ:
                self._read.clear()
            self._read[query] = asked
        return asked

    def _found(self, asked: api.Asked) -> bytes:
        return self._answers.kept_json(asked) or self._answers.best_json(asked)
