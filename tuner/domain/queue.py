"""Jobs: what is asked of a device through the queue, and how far it and its study got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tuner.domain.identity import Plain


class JobKind(StrEnum):
    """What a job does."""

    STUDY = "study"
    REPRODUCE = "reproduce"


class JobState(StrEnum):
    """How far a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StudyState(StrEnum):
    """How far a study is: one word, the same in every list, answer, report and page.

    ``STOPPED``: not finished, and nobody goes on with it. Its budget was spent, or the command or
    machine that ran it was ended.
    """

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"
    FINISHED = "finished"


class JobWish(StrEnum):
    """What the user wants of a job."""

    RUN = "run"
    PAUSE = "pause"
    CANCEL = "cancel"


ENDED = (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Job:
    """A row of the queue.

    Attributes:
        id: Row.
        kind: What it does.
        request: What was asked, as the service checked and completed it.
        device_id: ``cpu``, ``cuda:N`` or ``hip:N``.
        state: How far it is.
        wish: What the user wants of it.
        idempotency_key: Chosen by the client; a second request of equal key makes no second job.
        study_id: The study it opened, once it has.
        result: What a finished job gave.
        message: Why it failed, or where it stands.
        owner: The process that runs it; None unless it is running.
        seen_at: When that process was last heard of.
        created_at: When it was asked for.
        started_at: When it last began to run.
        finished_at: When it ended.
    """

    id: int
    kind: JobKind
    request: Mapping[str, Plain]
    device_id: str
    state: JobState
    wish: JobWish
    idempotency_key: str | None
    study_id: int | None
    result: Mapping[str, Plain] | None
    message: str
    owner: str | None
    seen_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def study_state(*, is_finished: bool, is_driven: bool, job: Job | None) -> StudyState:
    """Return how far a study is.

    Args:
        is_finished: All of its trials are done.
        is_driven: A living process drives it, for a job or for a command.
        job: The newest that is to run it, or ran it; None where there is none.
    """
    if is_finished:
        return StudyState.FINISHED
    if is_driven:
        return StudyState.RUNNING
    if job is None or job.state is JobState.FINISHED:  # it ends early where its budget is spent
        return StudyState.STOPPED
    return StudyState(job.state.value)
