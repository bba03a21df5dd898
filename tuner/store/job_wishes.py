"""What users wish of jobs. Whoever runs a job looks at its wish; nobody else ends it."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy import RowMapping
from sqlalchemy import select

from tuner.domain.queue import Job
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish
from tuner.domain.queue import StudyState
from tuner.errors import Conflict
from tuner.store.jobs import change_job
from tuner.store.jobs import job_of
from tuner.store.jobs import let_go_columns
from tuner.store.jobs import locked_job
from tuner.store.models import StudyRow
from tuner.store.table import table_of

_STUDY = table_of(StudyRow)
_GO_ON = "launch it again: a study goes on where it stopped"


def pause_job(connection: Connection, job_id: int) -> Job:
    """Pause a queued job, or have its owner pause a running one.

    Raises:
        NotFound: There is no such job.
        Conflict: It has ended.
    """
    row = locked_job(connection, job_id)
    match JobState(row["state"]):
        case JobState.QUEUED:
            return change_job(connection, row, {"state": "paused", "wish": "pause"})
        case JobState.RUNNING if row["wish"] != JobWish.CANCEL.value:
            return change_job(connection, row, {"wish": "pause"})
        case JobState.PAUSED:
            return job_of(row)
        case state:
            raise _refused(connection, row, state, "pause")


def resume_job(connection: Connection, job_id: int) -> Job:
    """Put a paused job back into the queue, or take back the wish to pause a running one.

    Raises:
        NotFound: There is no such job.
        Conflict: It has ended.
    """
    row = locked_job(connection, job_id)
    match JobState(row["state"]):
        case JobState.PAUSED:
            return change_job(connection, row, {"state": "queued", "wish": "run", "message": ""})
        case JobState.RUNNING if row["wish"] != JobWish.CANCEL.value:
            return change_job(connection, row, {"wish": "run"})
        case JobState.QUEUED:
            return job_of(row)
        case state:
            raise _refused(connection, row, state, "resume")


def cancel_job(connection: Connection, job_id: int) -> Job:
    """End a queued or paused job, or have its owner end a running one. Its trials are kept.

    Raises:
        NotFound: There is no such job.
        Conflict: It has finished or failed.
    """
    row = locked_job(connection, job_id)
    match JobState(row["state"]):
        case JobState.QUEUED | JobState.PAUSED:
            return change_job(
                connection, row, {**let_go_columns(JobState.CANCELLED), "wish": "cancel"}
            )
        case JobState.RUNNING:
            return change_job(connection, row, {"wish": "cancel"})
        case JobState.CANCELLED:
            return job_of(row)
        case state:
            raise _refused(connection, row, state, "cancel")


def _refused(connection: Connection, row: RowMapping, state: JobState, verb: str) -> Conflict:
    job_id = row["id"]
    if state is JobState.RUNNING:
        return Conflict(f"job {job_id} is being cancelled: it can't {verb}", hint=_GO_ON)
    if verb != "resume":
        hint = f"nothing of it runs or waits any more, so there is nothing to {verb}"
    elif _is_finished(connection, row["study_id"]):
        hint = "its study is finished too, so there is nothing to go on with"
    else:
        hint = _GO_ON
    return Conflict(f"job {job_id} is {state.value}: it can't {verb}", hint=hint)


def _is_finished(connection: Connection, study_id: int | None) -> bool:
    query = select(_STUDY.c.state).where(_STUDY.c.id == study_id)
    return connection.scalar(query) == StudyState.FINISHED.value
