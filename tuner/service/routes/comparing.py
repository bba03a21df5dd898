"""What a new driver, compiler or kernel changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from tuner import api
from tuner.service import schemas
from tuner.service.answers import csv_answer
from tuner.service.answers import json_answer
from tuner.service.dependencies import SettingsDep
from tuner.service.dependencies import Strict
from tuner.service.openapi import csv_text
from tuner.service.openapi import NOT_FOUND
from tuner.service.openapi import ok

router = APIRouter(prefix="/api/v1", tags=["compare"])

_SIDE = "Study, env:KEYPREFIX or source:HASHPREFIX"


class Sides(Strict):
    """The two things to compare."""

    a: str = Field(max_length=200, description=_SIDE)
    b: str = Field(max_length=200, description=_SIDE)


@router.get("/compare", responses=ok(schemas.Comparison) | NOT_FOUND)
def compare(settings: SettingsDep, sides: Annotated[Sides, Query()]) -> Response:
    """Compare the winners of two studies, environments or sources, workload by workload."""
    return json_answer(api.compare(sides.a, sides.b, settings=settings).as_plain())


@router.get("/compare.csv", responses=csv_text() | NOT_FOUND)
def compare_csv(settings: SettingsDep, sides: Annotated[Sides, Query()]) -> Response:
    """Compare two sides as CSV."""
    rows = api.compare(sides.a, sides.b, settings=settings).rows()
    return csv_answer(rows, api.COMPARE_COLUMNS, "compare")
