"""One trial, down to its raw samples."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tuner import api
from tuner.service import schemas
from tuner.service.answers import json_answer
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import RowId
from tuner.service.dependencies import SettingsDep
from tuner.service.openapi import NOT_FOUND
from tuner.service.openapi import ok

router = APIRouter(prefix="/api/v1/trials", tags=["studies"])


@router.get("/{trial_id}", responses=ok(schemas.Trial) | NOT_FOUND)
def show_trial(trial_id: RowId, settings: SettingsDep, _none: NoQuery) -> Response:
    """Show everything stored of a trial: claim, processes, samples, checks, source, log."""
    return json_answer(api.show_trial(trial_id, settings))
