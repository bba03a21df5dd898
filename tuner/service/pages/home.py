"""The first page: devices, what runs now, and what came out last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.domain.identity import Plain
from tuner.service.dependencies import SettingsDep
from tuner.service.pages.choices import lookup_choices
from tuner.service.pages.rendering import PageRoute
from tuner.service.pages.rendering import render
from tuner.settings import Settings

router = APIRouter(route_class=PageRoute)

RECENT_STUDIES = 8
ACTIVE_JOBS = 20
MAX_TRIALS_SHOWN = 2000


@router.get("/")
def home(request: Request, settings: SettingsDep) -> Response:
    """Show what a kernel engineer wants to know first."""
    studies = api.page_studies(settings, RECENT_STUDIES).items
    context = {
        **_now(settings),
        "studies": studies,
        "driven": driven_studies(settings),
        "newest": _newest_results(studies, settings),
        "choices": lookup_choices(settings),
    }
    return render(request, "home.html", context)


@router.get("/now")
def now(request: Request, settings: SettingsDep) -> Response:
    """Show devices and what runs, the part of the first page that changes."""
    return render(request, "parts/now.html", _now(settings))


def _now(settings: Settings) -> dict[str, Any]:
    running: list[dict[str, Any]] = []
    waiting: list[Mapping[str, Plain]] = []
    for state in ("running", "queued", "paused"):
        for job in api.page_jobs(settings, state=state, limit=ACTIVE_JOBS).items:
            if state == "running":
                running.append({"job": job, "progress": job_study_progress(job, settings)})
            else:
                waiting.append(job)
    return {
        "devices": api.list_job_devices(settings),
        "running": running,
        "waiting": waiting,
        "poll_s": 2 if running or waiting else 10,
    }


def job_study_progress(job: Mapping[str, Plain], settings: Settings) -> dict[str, Plain] | None:
    """Return how far a job's study is; None before it has opened one."""
    if job["study_id"] is None:
        return None
    return api.study_progress(job["study_id"], settings)


def driven_studies(settings: Settings) -> set[int]:
    """Return the studies that a running job drives."""
    jobs = api.page_jobs(settings, state="running", limit=ACTIVE_JOBS).items
    return {job["study_id"] for job in jobs}


def _newest_results(
    studies: tuple[Mapping[str, Plain], ...], settings: Settings
) -> dict[str, Any] | None:
    """Return the newest study in which something is confirmed, with its results."""
    for study in studies:
        # A larger one would hold up the page; the list leads to it.
        if study["ok"] and study["trials"] <= MAX_TRIALS_SHOWN:
            view = api.study_view(study["study_id"], settings)
            if any(each.answer for each in view.workloads):
                return {"study": study, "view": view}
    return None
