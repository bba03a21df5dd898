"""For those who run the service: is it alive, can it work, what does it do."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.errors import TunerError
from tuner.service import schemas
from tuner.service.answers import json_answer
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import StateDep
from tuner.service.errors import error_answer
from tuner.service.errors import Problem
from tuner.service.errors import problem_of
from tuner.service.openapi import ok
from tuner.service.openapi import text

router = APIRouter(tags=["operation"])

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz", responses=ok(schemas.State, "The process answers"))
async def health(_none: NoQuery) -> Response:
    """Say that the process answers. The database is not looked at."""
    return json_answer({"schema": "tuner.state/1", "state": "ok"})


@router.get("/readyz", responses=ok(schemas.State, "The database can be used"))
def ready(state: StateDep, _none: NoQuery) -> Response:
    """Say whether requests can be answered; where they can't, answer 503 with the reason.

    For the first few seconds they are answered, but slowly: no time to send work here.
    """
    try:
        api.check_readable(state.settings)
    except TunerError as error:
        told = problem_of(error, state.teller)
        return error_answer(replace(told, status=503, error="not_ready"))
    if state.answers_ahead.is_beginning:
        hint = "ask again in a second; requests are answered meanwhile, but slower"
        return error_answer(Problem(503, "the first answers are being made", hint, "not_ready"))
    return json_answer({"schema": "tuner.state/1", "state": "ok"})


@router.get("/openapi.json", include_in_schema=False)
async def description(request: Request, _none: NoQuery) -> Response:
    """Describe the API."""
    described: FastAPI = request.app
    return json_answer(described.openapi())


@router.get("/metrics", responses=text("text/plain", "Prometheus' text format"))
def metrics(state: StateDep, _none: NoQuery) -> Response:
    """Show the service's metrics for Prometheus."""
    return Response(state.metrics.text(), media_type=METRICS_TYPE)
