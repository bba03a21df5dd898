"""The queue, and one job."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.service.dependencies import RowId
from tuner.service.dependencies import SettingsDep
from tuner.service.errors import PageRoute
from tuner.service.pages.forms import NO_FIELDS
from tuner.service.pages.forms import see
from tuner.service.pages.rendering import render
from tuner.service.pages.studies import is_live_job
from tuner.settings import Settings

router = APIRouter(prefix="/jobs", route_class=PageRoute)

JOBS_OF_A_PAGE = 100


@router.get("")
def list_jobs(request: Request, settings: SettingsDep, cursor: str | None = None) -> Response:
    """List jobs, newest first."""
    return render(request, "jobs.html", _jobs(settings, cursor))


@router.get("/rows")
def job_rows(request: Request, settings: SettingsDep, cursor: str | None = None) -> Response:
    """Show the list alone: the part of the page that changes."""
    return render(request, "parts/job_rows.html", _jobs(settings, cursor))


@router.get("/{job_id}")
def show_job(request: Request, job_id: RowId, settings: SettingsDep) -> Response:
    """Show a job and what it does."""
    return render(request, "job.html", _job(job_id, settings))


@router.get("/{job_id}/progress")
def job_progress(
    request: Request, job_id: RowId, settings: SettingsDep, seen: str = ""
) -> Response:
    """Show how far a job is; its buttons too where its state is not the one seen."""
    found = _job(job_id, settings)
    changed = seen != found["seen"]
    return render(request, "parts/job_update.html", {**found, "changed": changed})


@router.post("/{job_id}/{action}", dependencies=[NO_FIELDS])
def change(job_id: RowId, action: api.JobAction, settings: SettingsDep) -> Response:
    """Pause, resume or cancel a job."""
    api.change_job(job_id, action, settings)
    return see(f"/jobs/{job_id}")


def _jobs(settings: Settings, cursor: str | None) -> dict[str, Any]:
    page = api.page_jobs(settings, limit=JOBS_OF_A_PAGE, cursor=cursor)
    return {
        "jobs": page.items,
        "following": page.following,
        "cursor": cursor,
        "is_live": any(is_live_job(each) for each in page.items),
    }


def _job(job_id: int, settings: Settings) -> dict[str, Any]:
    view = api.job_view(job_id, settings)
    job = view.job
    return {
        "view": view,
        "job": job,
        "is_live": is_live_job(job),
        "seen": f"{job['state']}-{job['wish']}-{job['study_id'] or ''}",
    }
