"""Exports: the files of ``tuner export``, sent while they are read."""

from __future__ import annotations

from typing import Annotated
from typing import Literal

from fastapi import APIRouter
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from tuner import api
from tuner.service.answers import csv_stream
from tuner.service.dependencies import SettingsDep
from tuner.service.dependencies import Strict
from tuner.service.openapi import csv_text
from tuner.service.openapi import NOT_FOUND

router = APIRouter(prefix="/api/v1/exports", tags=["exports"])


class ExportParameters(Strict):
    """What of it."""

    study: str | None = Field(default=None, max_length=200, description="Only this; name or id")


@router.get("/{what}.csv", responses=csv_text() | NOT_FOUND)
def export(
    what: Literal["trials", "best", "samples"],
    settings: SettingsDep,
    parameters: Annotated[ExportParameters, Query()],
) -> Response:
    """Export trials, the best of each workload, or every raw sample."""
    source = api.export_source(what, parameters.study, settings)
    name = what if parameters.study is None else f"{what}-{parameters.study}"
    return csv_stream(source, name, is_flat=True)
