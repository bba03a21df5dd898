"""How far studies are, and the jobs that are to run them: the one place that decides it."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sqlalchemy import func
from sqlalchemy import RowMapping
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.queue import ENDED
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.queue import study_state
from tuner.domain.queue import StudyState
from tuner.store.jobs import JOB
from tuner.store.jobs import job_of
from tuner.store.leases import driven_studies
from tuner.store.models import StudyRow
from tuner.store.table import table_of

_STUDY = table_of(StudyRow)
_WAITING = (JobState.QUEUED.value, JobState.PAUSED.value)
_COLUMNS = ("id", "name", "device_id", "state", "owned_at")


def study_states(session: Session, study_ids: Sequence[int]) -> dict[int, StudyState]:
    """Return how far each of some studies is."""
    driven = driven_studies(session.connection(), study_ids)
    studies = _studies(session, study_ids)
    jobs = _newest_jobs(session, studies)
    return {
        study["id"]: study_state(
            is_finished=study["state"] == StudyState.FINISHED.value,
            is_driven=study["id"] in driven,
            job=_of_last_run(study, jobs.get(study["id"])),
        )
        for study in studies
    }


def newest_job(session: Session, study_id: int) -> Job | None:
    """Return the newest job that runs a study, ran it, or will go on with it; or None."""
    return _newest_jobs(session, _studies(session, [study_id])).get(study_id)


def _studies(session: Session, study_ids: Sequence[int]) -> Sequence[RowMapping]:
    query = select(*(_STUDY.c[name] for name in _COLUMNS)).where(_STUDY.c.id.in_(study_ids))
    return session.execute(query).mappings().all()


def _newest_jobs(session: Session, studies: Sequence[RowMapping]) -> dict[int, Job]:
    newest = (
        select(func.max(JOB.c.id))
        .where(JOB.c.study_id.in_([study["id"] for study in studies]))
        .group_by(JOB.c.study_id)
    )
    rows = session.execute(select(JOB).where(JOB.c.id.in_(newest))).mappings()
    opened = {row["study_id"]: job_of(row) for row in rows}
    return opened | _unopened_jobs(session, studies)


def _unopened_jobs(session: Session, studies: Iterable[RowMapping]) -> dict[int, Job]:
    """Return the newest job that waits to go on with each study, before it has opened it.

    Until then such a job is known by the name of its study, of which the newest is meant.
    """
    query = (
        select(JOB)
        .where(
            JOB.c.study_id.is_(None),
            JOB.c.kind == JobKind.STUDY.value,
            JOB.c.state.in_(_WAITING),
        )
        .order_by(JOB.c.id)
    )
    waiting = {
        (job.request["name"], job.device_id): job
        for job in map(job_of, session.execute(query).mappings())
        if "name" in job.request and not job.request.get("fresh")
    }
    if not waiting:
        return {}
    names = {name for name, _ in waiting}
    query = select(func.max(_STUDY.c.id)).where(_STUDY.c.name.in_(names)).group_by(_STUDY.c.name)
    newest = set(session.scalars(query))
    return {
        study["id"]: waiting[study["name"], study["device_id"]]
        for study in studies
        if study["id"] in newest and (study["name"], study["device_id"]) in waiting
    }


def _of_last_run(study: Mapping[Any, Any], job: Job | None) -> Job | None:
    """Return a job unless the study was gone on with since by a command."""
    if job is None or job.state not in ENDED or job.finished_at is None:
        return job
    return None if study["owned_at"] > job.finished_at else job
