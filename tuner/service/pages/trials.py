"""One trial, with the whole chain from the claim down to samples, environment and source."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.service.dependencies import RowId
from tuner.service.dependencies import SettingsDep
from tuner.service.errors import PageRoute
from tuner.service.pages.forms import new_key
from tuner.service.pages.rendering import render

router = APIRouter(prefix="/trials", route_class=PageRoute)


@router.get("/{trial_id}")
def show_trial(request: Request, trial_id: RowId, settings: SettingsDep) -> Response:
    """Show everything stored of a trial."""
    context = {"trial": api.show_trial(trial_id, settings), "key": new_key()}
    return render(request, "trial.html", context)
