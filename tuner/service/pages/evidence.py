"""Imported records beside what running them again gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from typing import TypeAlias

from fastapi import APIRouter
from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.service.dependencies import SettingsDep
from tuner.service.errors import PageRoute
from tuner.service.pages.choices import device_names
from tuner.service.pages.forms import FormFields
from tuner.service.pages.forms import new_key
from tuner.service.pages.forms import see
from tuner.service.pages.rendering import render

router = APIRouter(route_class=PageRoute)
RECENT_RERUNS = 50

RerunFields: TypeAlias = Annotated[
    Mapping[str, str], Depends(FormFields("record", "device", "shape", "key"))
]


@router.get("/evidence")
def list_evidence(request: Request, settings: SettingsDep) -> Response:
    """List the imported sets and the newest reruns."""
    context = {
        "sets": api.list_evidence(settings),
        "reruns": api.page_reproductions(settings, RECENT_RERUNS).items,
    }
    return render(request, "evidence.html", context)


@router.get("/evidence/{name}")
def show_evidence(request: Request, name: str, settings: SettingsDep) -> Response:
    """Show each record of a set with its reruns."""
    found = api.show_evidence(name, settings)
    context = {
        "set": found,
        "reruns": api.record_reruns((row["record_id"] for row in found["rows"]), settings),
        "devices": device_names(settings),
        "key": new_key(),
    }
    return render(request, "evidence_set.html", context)


@router.post("/reproductions")
def reproduce(fields: RerunFields, settings: SettingsDep) -> Response:
    """Ask for a rerun of a trial, a record or a study."""
    job, _ = api.launch_reproduce(
        fields.get("record", ""),
        device=fields.get("device"),
        shape=fields.get("shape"),
        idempotency_key=fields.get("key"),
        settings=settings,
    )
    return see(f"/jobs/{job['job_id']}")
