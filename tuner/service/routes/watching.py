"""Watching jobs live."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi import Header
from starlette.responses import Response

from tuner import api
from tuner.domain.identity import Plain
from tuner.domain.queue import ENDED
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import RowId
from tuner.service.dependencies import StateDep
from tuner.service.events import Snapshot
from tuner.service.openapi import event_stream
from tuner.service.openapi import NOT_FOUND
from tuner.settings import Settings

router = APIRouter(prefix="/api/v1", tags=["jobs"])

SHOWN_JOBS = 50

LastEventId = Annotated[
    str | None, Header(max_length=100, description="Id of the event that was seen last")
]
STREAM = event_stream("An event for each change, with the whole state and an id to go on from")


@router.get(
    "/jobs/{job_id}/events",
    responses=STREAM | NOT_FOUND | {204: {"description": "It has ended, and that was seen"}},
)
async def watch_job(
    job_id: RowId, state: StateDep, _none: NoQuery, last_event_id: LastEventId = None
) -> Response:
    """Watch a job: an event whenever its progress changes, until it has ended."""

    def read() -> Snapshot:
        job = api.show_job(job_id, state.settings)
        progress = api.job_progress(job_id, state.settings)
        fields = {"schema": "tuner.job.event/1", "job": job, "progress": progress}
        return Snapshot(fields, is_last=job["state"] in ENDED)

    return await state.streams.answer("job", read, last_event_id)


@router.get("/events", responses=STREAM)
async def watch_all(state: StateDep, _none: NoQuery, last_event_id: LastEventId = None) -> Response:
    """Watch all devices and the newest jobs: an event whenever something changes."""

    def read() -> Snapshot:
        return Snapshot(_everything(state.settings))

    return await state.streams.answer("state", read, last_event_id)


def _everything(settings: Settings) -> dict[str, Plain]:
    jobs = api.page_jobs(settings, limit=SHOWN_JOBS).items
    devices = api.list_job_devices(settings)
    return {
        "schema": "tuner.events/1",
        "jobs": list(jobs),
        "progress": {
            str(job["job_id"]): api.job_progress(job["job_id"], settings)
            for job in jobs
            if job["state"] == "running"
        },
        # When a device was last seen changes all the time and is no news.
        "devices": [{k: v for k, v in each.items() if k != "seen_at"} for each in devices],
    }
