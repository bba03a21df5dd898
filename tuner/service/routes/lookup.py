"""Which config is best. The answer is that of ``tuner best --format json``, to the byte."""

from __future__ import annotations

import time
from typing import Annotated
from typing import Literal

from fastapi import APIRouter
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from tuner import api
from tuner.errors import UsageError
from tuner.service import schemas
from tuner.service.answers import JSON_TYPE
from tuner.service.dependencies import StateDep
from tuner.service.dependencies import Strict
from tuner.service.openapi import NOT_FOUND
from tuner.service.openapi import ok
from tuner.service.openapi import problem
from tuner.settings import Settings

router = APIRouter(prefix="/api/v1", tags=["lookup"])


class BestParameters(Strict):
    """What is asked; the names are those of the command."""

    operator: str = Field(max_length=100)
    shape: str = Field(max_length=200, description="Such as 1024x4096")
    dtype: str = Field(default="float32", max_length=40)
    scalar: list[Annotated[str, Field(max_length=100)]] = Field(
        default=[], max_length=20, description="NAME=NUMBER, such as epsilon=1e-6"
    )
    row_padding: int = Field(
        default=0, ge=0, lt=2**31, description="Elements between a row's end and the next row"
    )
    device: str | None = Field(default=None, max_length=20, description="auto, cpu, cuda:N, hip:N")
    arch: str | None = Field(
        default=None, max_length=40, description="Answer for it, without such a device"
    )
    implementation: str | None = Field(default=None, max_length=100)
    match: Literal["exact", "same-arch", "nearest-shape"] | None = None


@router.get(
    "/best",
    responses=ok(schemas.Best)
    | NOT_FOUND
    | problem(409, "The device can't be used, or is not the same on all hosts"),
)
def best(state: StateDep, parameters: Annotated[BestParameters, Query()]) -> Response:
    """Say which config is best for a shape on a device, and how sure that is."""
    begun_s = time.perf_counter()
    try:
        content = state.answers.best_json(asked_by(parameters, state.settings))
    finally:
        state.metrics.note_best_lookup(time.perf_counter() - begun_s)
    return Response(content, media_type=JSON_TYPE)


def asked_by(parameters: BestParameters, settings: Settings) -> api.Asked:
    """Return the question that parameters put.

    Raises:
        UsageError: They put none.
    """
    return api.asked(
        parameters.operator,
        parameters.shape,
        settings,
        dtype=parameters.dtype,
        scalars=_scalars(parameters.scalar),
        row_padding=parameters.row_padding,
        device=parameters.device,
        architecture=parameters.arch,
        implementation=parameters.implementation,
        match=parameters.match,
    )


def _scalars(pairs: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name in found:
            raise UsageError(f"scalar {name[:60]!r} is given more than once", hint="give it once")
        try:
            found[name] = float(number)
        except ValueError:
            raise UsageError(
                f"scalar {pair[:60]!r} is not NAME=NUMBER", hint="such as epsilon=1e-6"
            ) from None
    return found
