"""Running jobs: taking one, telling that one lives, ending it, taking it back from the dead.

Only the process that owns a running job ends it, and only as long as it does: what a process
stores of a job that was taken from it meanwhile is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy import Connection
from sqlalchemy import exists
from sqlalchemy import or_
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.identity import canonical_json
from tuner.domain.identity import Plain
from tuner.domain.queue import Job
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish
from tuner.store import rows
from tuner.store.job_models import DeviceRow
from tuner.store.jobs import change_job
from tuner.store.jobs import JOB
from tuner.store.jobs import let_go_columns
from tuner.store.jobs import locked_job
from tuner.store.leases import database_time
from tuner.store.models import EnvironmentRow
from tuner.store.models import StudyRow
from tuner.store.owner import is_alive
from tuner.store.owner import Owner
from tuner.store.owner import parse_owner
from tuner.store.table import table_of

# Whoever runs a job says so every few seconds. Another machine's runner counts as gone after
# this: longer than the silence after which its study may be taken over (60 s), for a job that
# is taken back must find its study free.
RUNNER_SILENCE = timedelta(seconds=90)
# What a job becomes when its process was told to stop and did.
_STOPPED = {
    JobWish.RUN: JobState.QUEUED,
    JobWish.PAUSE: JobState.PAUSED,
    JobWish.CANCEL: JobState.CANCELLED,
}
_DEVICE = table_of(DeviceRow)


def has_queued(session: Session, owner: Owner, device_id: str) -> bool:
    """Tell whether a job waits that ``claim_next`` would give an idle device: asked often, and
    without a lock.
    """
    connection = session.connection()
    environment_id = connection.scalar(_environment_of(owner, device_id))
    if environment_id is None:
        return False
    waiting = _waiting(device_id, environment_id, database_time(connection))
    return connection.execute(waiting).first() is not None


def claim_next(connection: Connection, owner: Owner, device_id: str) -> Job | None:
    """Make a process the owner of the job that waited longest for a device of its host.

    A device runs one job at a time, whoever asks. A job that has opened a study waits for a
    device of that study's environment for as long as a process takes such a device's jobs:
    elsewhere it would begin again, as another study.

    Returns:
        The job, running; None where none waits, or the device is busy or not the owner's.
    """
    # All who claim for this device wait here for each other.
    environment_id = connection.scalar(_environment_of(owner, device_id).with_for_update())
    if environment_id is None or connection.execute(_running_on(owner.host, device_id)).first():
        return None
    now = database_time(connection)
    waiting = _waiting(device_id, environment_id, now).with_for_update(skip_locked=True)
    row = connection.execute(waiting).mappings().first()
    if row is None:
        return None
    changes = {
        "state": JobState.RUNNING.value,
        "message": "",
        "owner": str(owner),
        "seen_at": now,
        "started_at": now,
    }
    return change_job(connection, row, changes)


def set_study(connection: Connection, job_id: int, owner: Owner, study_id: int) -> None:
    """Note which study a running job opened, unless the job was taken away from its owner."""
    row = locked_job(connection, job_id)
    if row["owner"] == str(owner):
        change_job(connection, row, {"study_id": study_id})


def beat(connection: Connection, owner: Owner) -> None:
    """Tell that the process that runs these jobs lives."""
    now = database_time(connection)
    for row in _owned(connection, owner):
        change_job(connection, row, {"seen_at": now})


def wishes(session: Session, owner: Owner) -> dict[int, JobWish]:
    """Return what is wished of each of the jobs that a process owns."""
    query = select(JOB.c.id, JOB.c.wish).where(JOB.c.owner == str(owner))
    return {job_id: JobWish(wish) for job_id, wish in session.execute(query)}


def end_job(
    connection: Connection,
    job_id: int,
    owner: Owner,
    state: JobState,
    *,
    message: str = "",
    result: Mapping[str, Plain] | None = None,
) -> None:
    """End a running job as finished or failed, unless it was taken away from its owner.

    Raises:
        ValueError: ``result`` holds what JSON can't.
    """
    row = locked_job(connection, job_id)
    if row["owner"] != str(owner):
        return
    changes = let_go_columns(state)
    changes["result"] = None if result is None else canonical_json(dict(result))
    if message or state is JobState.FAILED:
        changes["message"] = rows.message_text(message, state.value)
    change_job(connection, row, changes)


def stop_job(connection: Connection, job_id: int, owner: Owner) -> None:
    """Let go of a running job whose process was stopped: what comes of it is as wished."""
    row = locked_job(connection, job_id)
    if row["owner"] == str(owner):
        _let_go(connection, row, "")


def stop_all(connection: Connection, owner: Owner) -> None:
    """Let go of all jobs that a process runs, as ``stop_job`` does of one."""
    for row in _owned(connection, owner):
        _let_go(connection, row, "")


def take_back(connection: Connection) -> list[int]:
    """Let go of running jobs whose owner is gone, and return which."""
    now = database_time(connection)
    running = select(JOB).where(JOB.c.state == JobState.RUNNING.value).order_by(JOB.c.id)
    taken = []
    for row in connection.execute(running.with_for_update(skip_locked=True)).mappings().all():
        holder = parse_owner(row["owner"])
        if not is_gone(holder, row["seen_at"], now):
            continue
        _let_go(connection, row, f"its runner, process {holder.pid}, ended while it ran")
        taken.append(row["id"])
    return taken


def has_orphans(session: Session) -> bool:
    """Tell whether ``take_back`` has something to do: asked often, and without a lock."""
    now = database_time(session.connection())
    query = select(JOB.c.owner, JOB.c.seen_at).where(JOB.c.state == JobState.RUNNING.value)
    return any(is_gone(parse_owner(text), seen, now) for text, seen in session.execute(query))


def running_by_device(session: Session) -> dict[tuple[str, str], int]:
    """Return the job that runs on each busy device, by host and device id."""
    query = select(JOB.c.id, JOB.c.owner, JOB.c.device_id).where(
        JOB.c.state == JobState.RUNNING.value
    )
    return {
        (parse_owner(owner).host, device_id): job_id
        for job_id, owner, device_id in session.execute(query)
    }


def _running_on(host: str, device_id: str) -> Select[int]:
    return select(JOB.c.id).where(
        JOB.c.state == JobState.RUNNING.value,
        JOB.c.device_id == device_id,
        JOB.c.owner.startswith(f"{host}:", autoescape=True),
    )


def _owned(connection: Connection, owner: Owner) -> Sequence[RowMapping]:
    """Return the rows of the jobs that a process runs, locked."""
    query = select(JOB).where(JOB.c.owner == str(owner)).order_by(JOB.c.id)
    return connection.execute(query.with_for_update()).mappings().all()


def _environment_of(owner: Owner, device_id: str) -> Select[int]:
    """Return the environment of a device of a host, if the process takes its jobs."""
    return select(_DEVICE.c.environment_id).where(
        _DEVICE.c.host == owner.host,
        _DEVICE.c.device_id == device_id,
        _DEVICE.c.owner == str(owner),
    )


def _waiting(device_id: str, environment_id: int, now: datetime) -> Select[Any]:
    """Return the job that waited longest of those that a device of this environment may run."""
    return (
        select(JOB)
        .where(
            JOB.c.state == JobState.QUEUED.value,
            JOB.c.device_id == device_id,
            _may_run_in(environment_id, now),
        )
        .order_by(JOB.c.id)
        .limit(1)
    )


def _may_run_in(environment_id: int, now: datetime) -> ColumnElement[bool]:
    """Return the condition that a job's study, if it has one, goes on in an environment.

    It does where it began in an equal one, and where no living process takes the jobs of a
    device that has such a one: rows of devices are kept, and an upgrade changes environments.
    """
    study, environment = table_of(StudyRow), table_of(EnvironmentRow)
    here = select(environment.c.key).where(environment.c.id == environment_id).scalar_subquery()
    own = environment.alias()
    study_key = (
        select(own.c.key)
        .join(study, study.c.environment_id == own.c.id)
        .where(study.c.id == JOB.c.study_id)
        .correlate(JOB)
        .scalar_subquery()
    )
    of_device = environment.alias()
    elsewhere = (
        exists()
        .where(
            of_device.c.id == _DEVICE.c.environment_id,
            _DEVICE.c.device_id == JOB.c.device_id,
            _DEVICE.c.owner.is_not(None),
            _DEVICE.c.seen_at > now - RUNNER_SILENCE,
            of_device.c.key == study_key,
        )
        .correlate(JOB)
    )
    return or_(JOB.c.study_id.is_(None), study_key == here, ~elsewhere)


def is_gone(holder: Owner, seen_at: datetime, now: datetime) -> bool:
    """Tell whether the process that runs a job, or takes a device's jobs, has ended."""
    return not is_alive(holder, seen_at, now, RUNNER_SILENCE)


def _let_go(connection: Connection, row: RowMapping, message: str) -> None:
    state = _STOPPED[JobWish(row["wish"])]
    change_job(connection, row, {**let_go_columns(state), "message": message})
