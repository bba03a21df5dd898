"""What the queue does at one moment, of all hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.api.common import open_database
from tuner.api.job_rows import job_row
from tuner.api.plain import plain
from tuner.api.progress import read_progress
from tuner.domain.identity import Plain
from tuner.domain.queue import JobState
from tuner.settings import Settings


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs.

    Attributes:
        job: Its row.
        progress: How far its study is; None before it has opened one.
    """

    job: Mapping[str, Plain]
    progress: Mapping[str, Plain] | None


@dataclass(frozen=True, slots=True)
class QueueNow:
    """The queue at one moment.

    Attributes:
        devices: That jobs can run on, with what each does.
        running: Jobs that run, newest first.
        waiting: The first of those that are queued, then of the paused ones, oldest first.
        counts: How many are queued and paused, by state.
    """

    devices: tuple[Mapping[str, Plain], ...]
    running: tuple[RunningJob, ...]
    waiting: tuple[Mapping[str, Plain], ...]
    counts: Mapping[str, int]


def queue_now(settings: Settings, limit: int) -> QueueNow:
    """Return what the queue does now.

    Args:
        settings: Say which database.
        limit: How many of the jobs that wait are wanted at most.

    Raises:
        NotFound: There is no database.
    """
    from tuner.store import job_devices
    from tuner.store import jobs

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        devices = plain(job_devices.list_devices(session))
        running = tuple(
            RunningJob(
                job_row(each),
                None if each.study_id is None else read_progress(session, each.study_id),
            )
            for each in jobs.list_jobs(session, state=JobState.RUNNING)
        )
        waiting, counts = jobs.waiting_jobs(session, limit)
    return QueueNow(tuple(devices), running, tuple(map(job_row, waiting)), counts)
