"""The queue of jobs: adding to it, reading it, and how its rows are changed.

A job's row is changed under its lock: the writers of an SQLite file take turns, a server locks
the row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from datetime import UTC
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import or_
from sqlalchemy import RowMapping
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tuner.domain.identity import canonical_json
from tuner.domain.identity import Plain
from tuner.domain.queue import ENDED
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish
from tuner.errors import Conflict
from tuner.errors import NotFound
from tuner.store.job_models import JobRow
from tuner.store.models import StudyRow
from tuner.store.problems import MAX_ID
from tuner.store.table import insert_row
from tuner.store.table import table_of
from tuner.store.table import update_row

JOB = table_of(JobRow)
_STUDY = table_of(StudyRow)


def add_job(
    connection: Connection,
    kind: JobKind,
    request: Mapping[str, Plain],
    device_id: str,
    key: str | None = None,
    *,
    study_id: int | None = None,
) -> tuple[Job, bool]:
    """Add a job to the queue, once for each key.

    Args:
        connection: Of the store.
        kind: What it does.
        request: What is asked.
        device_id: Where it is to run.
        key: Chosen by the client.
        study_id: A study to go on with; None where it opens its own.

    Returns:
        The job, and whether it is new.

    Raises:
        Conflict: The key stands for another request.
    """
    values: dict[str, Any] = {
        "kind": kind.value,
        "request": canonical_json(dict(request)),
        "device_id": device_id,
        "state": JobState.QUEUED.value,
        "wish": JobWish.RUN.value,
        "idempotency_key": key,
        "study_id": study_id,
        "message": "",
        "created_at": datetime.now(UTC),
    }
    found = None if key is None else find_by_key(connection, key, kind, request)
    if found is not None:
        return found, False
    try:
        with connection.begin_nested():
            return job_of(locked_job(connection, insert_row(connection, JobRow, values))), True
    except IntegrityError:
        # On a server, another process can add the same key between the two statements.
        found = None if key is None else find_by_key(connection, key, kind, request)
        if found is None:
            raise
        return found, False


def find_by_key(
    connection: Connection, key: str, kind: JobKind, request: Mapping[str, Plain]
) -> Job | None:
    """Return the job that was asked for with a key, or None.

    The stored request can say more than was asked: the service completes it.

    Raises:
        Conflict: The key stands for another request.
    """
    query = select(JOB).where(JOB.c.idempotency_key == key)
    row = connection.execute(query).mappings().first()
    if row is None:
        return None
    job = job_of(row)
    asked = {name: value for name, value in job.request.items() if name in request}
    if job.kind is not kind or canonical_json(asked) != canonical_json(dict(request)):
        raise Conflict(
            f"idempotency key {key!r} was used for another request (job {job.id})",
            hint="take a new key for a new request",
        )
    return job


def read_job(session: Session, job_id: int) -> Job:
    """Return a job.

    Raises:
        NotFound: There is none.
    """
    row = None
    if 0 < job_id <= MAX_ID:
        row = session.execute(select(JOB).where(JOB.c.id == job_id)).mappings().first()
    if row is None:
        raise _no_job(job_id)
    return job_of(row)


def list_jobs(
    session: Session,
    *,
    state: JobState | None = None,
    after: int | None = None,
    limit: int | None = None,
) -> list[Job]:
    """Return jobs, newest first.

    Args:
        session: Of the store.
        state: Only those in it.
        after: Last id of the page before this one.
        limit: At most so many; None for all.
    """
    query = select(JOB).order_by(JOB.c.id.desc()).limit(limit)
    if state is not None:
        query = query.where(JOB.c.state == state.value)
    if after is not None:
        query = query.where(JOB.c.id < after)
    return [job_of(row) for row in session.execute(query).mappings()]


def waiting_jobs(session: Session, limit: int) -> tuple[list[Job], dict[str, int]]:
    """Return the jobs that are next, then the paused ones, oldest first; and how many there are.

    Args:
        session: Of the store.
        limit: At most so many jobs.

    Returns:
        The jobs, and the number of all that are in each of the two states.
    """
    waits = JOB.c.state.in_((JobState.QUEUED.value, JobState.PAUSED.value))
    is_paused = JOB.c.state == JobState.PAUSED.value
    rows = session.execute(
        select(JOB).where(waits).order_by(is_paused, JOB.c.id).limit(limit)
    ).mappings()
    jobs = [job_of(row) for row in rows]
    counts = select(JOB.c.state, func.count().label("jobs")).where(waits).group_by(JOB.c.state)
    return jobs, {row.state: row.jobs for row in session.execute(counts)}


def newest_of_study(session: Session, name: str, study_id: int | None) -> Job | None:
    """Return the newest job that runs a study, or a rerun: of this name, or this one itself."""
    query = (
        select(JOB)
        .outerjoin(_STUDY, _STUDY.c.id == JOB.c.study_id)
        .where(
            or_(
                _STUDY.c.name == name,
                JOB.c.study_id == study_id,
                JOB.c.study_id.is_(None) & (JOB.c.kind == JobKind.STUDY.value),
            ),
        )
        .order_by(JOB.c.id.desc())
    )
    for row in session.execute(query).mappings():
        job = job_of(row)
        # What has not opened a study yet is known by the name that it will have.
        if job.study_id is not None or job.request.get("name", job.request["study"]) == name:
            return job
    return None


def locked_job(connection: Connection, job_id: int) -> RowMapping:
    """Return a job's row, which nobody else changes before the transaction ends.

    Raises:
        NotFound: There is none.
    """
    row = None
    if 0 < job_id <= MAX_ID:
        query = select(JOB).where(JOB.c.id == job_id).with_for_update()
        row = connection.execute(query).mappings().first()
    if row is None:
        raise _no_job(job_id)
    return row


def change_job(connection: Connection, row: RowMapping, changes: dict[str, Any]) -> Job:
    """Change a job whose row is locked, and return it."""
    update_row(connection, JobRow, row["id"], changes, dict(row))
    return job_of({**row, **changes})


def let_go_columns(state: JobState) -> dict[str, Any]:
    """Return the columns of a job that is in the hands of nobody."""
    ended = datetime.now(UTC) if state in ENDED else None
    return {"state": state.value, "owner": None, "seen_at": None, "finished_at": ended}


def job_of(row: RowMapping | dict[Any, Any]) -> Job:
    """Return a job from its row."""
    result = row["result"]
    return Job(
        id=row["id"],
        kind=JobKind(row["kind"]),
        request=json.loads(row["request"]),
        device_id=row["device_id"],
        state=JobState(row["state"]),
        wish=JobWish(row["wish"]),
        idempotency_key=row["idempotency_key"],
        study_id=row["study_id"],
        result=None if result is None else json.loads(result),
        message=row["message"],
        owner=row["owner"],
        seen_at=row["seen_at"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


def _no_job(job_id: int) -> NotFound:
    return NotFound(f"no job {job_id}", hint="the list of jobs has all there are")
