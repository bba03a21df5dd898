"""The queue: asking for studies and reruns, looking at jobs, pausing and ending them.

No body holds a path, an address or code: a study is one of the registered names, a record is one
that is stored.
"""

from __future__ import annotations

from typing import Annotated
from typing import Literal

from fastapi import APIRouter
from fastapi import Header
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from tuner import api
from tuner.domain.identity import Plain
from tuner.domain.patterns import IDEMPOTENCY_KEY_PATTERN
from tuner.service import schemas
from tuner.service.answers import csv_answer
from tuner.service.answers import json_answer
from tuner.service.answers import page_answer
from tuner.service.dependencies import NoParameters
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import PageParameters
from tuner.service.dependencies import RowId
from tuner.service.dependencies import SettingsDep
from tuner.service.dependencies import Strict
from tuner.service.openapi import accepted
from tuner.service.openapi import csv_text
from tuner.service.openapi import NOT_FOUND
from tuner.service.openapi import ok
from tuner.service.openapi import problem
from tuner.service.routes.studies import StudyName

router = APIRouter(prefix="/api/v1", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=IDEMPOTENCY_KEY_PATTERN,
        description="A second request with an equal key makes no second job",
    ),
]
JobStateName = Literal["queued", "running", "paused", "finished", "failed", "cancelled"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
DeviceName = Annotated[str, Field(max_length=20, description="auto, cpu, cuda:N or hip:N")]
CONFLICT = problem(409, "It does not go with what is there already: another request had that key")
ACCEPTED = accepted(schemas.Job) | NOT_FOUND | CONFLICT


class StudyRequest(Strict):
    """Which study to run."""

    study: Name = Field(description="Name of a registered study, never a path")
    shapes: list[Annotated[str, Field(max_length=200)]] | None = Field(
        default=None, min_length=1, max_length=100, description="Instead of the study's own"
    )
    budget: str | None = Field(
        default=None, max_length=40, description="Trials or time: 200, 30m, 2h"
    )
    device: DeviceName | None = None
    fresh: bool = Field(default=False, description="Measure again what was measured before")


class ReproductionRequest(Strict):
    """Which record to measure again."""

    record: Name = Field(description="Id of a stored trial or record")
    device: DeviceName | None = None
    shape: str | None = Field(default=None, max_length=200, description="Instead of the record's")


class JobFilters(Strict):
    """Which jobs."""

    state: JobStateName | None = None


class JobParameters(JobFilters, PageParameters):
    """Which jobs, and which part of them."""


@router.post("/studies", status_code=202, responses=ACCEPTED)
def launch_study(
    body: StudyRequest,
    settings: SettingsDep,
    _none: NoQuery,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Ask for a study. It goes on where an earlier run of it stopped."""
    job, is_new = api.launch_study(
        body.study,
        shapes=body.shapes,
        budget=body.budget,
        device=body.device,
        fresh=body.fresh,
        idempotency_key=idempotency_key,
        settings=settings,
    )
    return _accepted(job, is_new=is_new)


@router.post("/reproductions", status_code=202, responses=ACCEPTED)
def launch_reproduction(
    body: ReproductionRequest,
    settings: SettingsDep,
    _none: NoQuery,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Ask for a rerun of a stored trial or an imported record."""
    job, is_new = api.launch_reproduce(
        body.record,
        device=body.device,
        shape=body.shape,
        idempotency_key=idempotency_key,
        settings=settings,
    )
    return _accepted(job, is_new=is_new)


@router.get("/jobs", responses=ok(schemas.JobList))
def list_jobs(settings: SettingsDep, parameters: Annotated[JobParameters, Query()]) -> Response:
    """List jobs, newest first."""
    page = api.page_jobs(
        settings, state=parameters.state, limit=parameters.limit, cursor=parameters.cursor
    )
    return page_answer("tuner.jobs/1", page)


@router.get("/jobs.csv", responses=csv_text())
def list_jobs_csv(settings: SettingsDep, filters: Annotated[JobFilters, Query()]) -> Response:
    """List jobs as CSV."""
    rows = api.page_jobs(settings, state=filters.state).items
    return csv_answer(rows, schemas.columns(schemas.JobItem), "jobs")


@router.get("/jobs/{job_id}", responses=ok(schemas.Job) | NOT_FOUND)
def show_job(job_id: RowId, settings: SettingsDep, _none: NoQuery) -> Response:
    """Show a job."""
    return _job(api.show_job(job_id, settings))


@router.post(
    "/jobs/{job_id}/{action}", responses=ok(schemas.Job, "As it is now") | NOT_FOUND | CONFLICT
)
def change_job(
    job_id: RowId,
    action: api.JobAction,
    settings: SettingsDep,
    _none: NoQuery,
    _body: NoParameters | None = None,
) -> Response:
    """Pause, resume or cancel a job. What was measured is kept."""
    return _job(api.change_job(job_id, action, settings))


@router.post("/studies/{study}/{action}", responses=ok(schemas.Job, "As it is now") | ACCEPTED)
def change_study(
    study: StudyName,
    action: api.JobAction,
    settings: SettingsDep,
    _none: NoQuery,
    _body: NoParameters | None = None,
) -> Response:
    """Pause, resume or cancel a study's newest job; resuming makes one where there is none."""
    job, is_new = api.change_study(study, action, settings)
    return _accepted(job, is_new=is_new) if is_new else _job(job)


def _accepted(job: dict[str, Plain], *, is_new: bool) -> Response:
    headers = {"Location": f"/api/v1/jobs/{job['job_id']}"}
    if not is_new:
        headers["Idempotent-Replayed"] = "true"
    return _job(job, 202, headers)


def _job(
    job: dict[str, Plain], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return json_answer({"schema": "tuner.job/1", **job}, status=status, headers=headers)
