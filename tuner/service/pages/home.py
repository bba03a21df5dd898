"""The first page: devices, what runs now, and what came out last."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.service.dependencies import SettingsDep
from tuner.service.errors import PageRoute
from tuner.service.pages.choices import lookup_choices
from tuner.service.pages.rendering import render
from tuner.settings import Settings

router = APIRouter(route_class=PageRoute)

RECENT_STUDIES = 8
WAITING_JOBS = 20


@router.get("/")
def home(request: Request, settings: SettingsDep) -> Response:
    """Show what a kernel engineer wants to know first."""
    now = _now(settings)
    context = {
        **now,
        "newest": api.newest_winners(settings),
        "choices": lookup_choices(settings, now["queue"].devices),
    }
    return render(request, "home.html", context)


@router.get("/now")
def show_now(request: Request, settings: SettingsDep, seen: str = "") -> Response:
    """Show devices and what runs, the part of the first page that changes.

    ``seen`` is how far the newest studies were; where that is not so any more, the results are
    sent too.
    """
    found = _now(settings)
    changed = seen != found["seen"]
    newest = api.newest_winners(settings) if changed else None
    context = {**found, "changed": changed, "newest": newest}
    return render(request, "parts/now_update.html", context)


def _now(settings: Settings) -> dict[str, Any]:
    queue = api.queue_now(settings, WAITING_JOBS)
    studies = api.newest_studies(settings, RECENT_STUDIES)
    # What is paused changes by somebody's doing only.
    moves = bool(queue.running or queue.counts.get("queued"))
    return {
        "queue": queue,
        "studies": studies,
        "seen": "-".join(f"{each['study_id']}.{each['state']}" for each in studies) or "none",
        "poll_s": 2 if moves else 10,
    }
