"""The queue as the process sees it that runs its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from contextlib import suppress
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.common import open_worker
from tuner.domain.identity import Plain
from tuner.domain.queue import Job
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish
from tuner.errors import DeviceUnavailable
from tuner.errors import TunerError
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store import Store


class WorkQueue:
    """Takes jobs for devices of this host, in the name of this process.

    Nothing is kept in memory but which devices they are: what the process owns is what the
    database says.
    """

    def __init__(self, store: Store, device_ids: Sequence[str]) -> None:
        from tuner.store.owner import this_process

        self.device_ids = tuple(device_ids)
        self._store = store
        self._owner = this_process()

    def take_back(self) -> list[int]:
        """Put jobs back into the queue whose runner is gone, and return which."""
        from tuner.store import job_running

        with self._store.session() as session:
            if not job_running.has_orphans(session):
                return []
        with self._store.transaction() as connection:
            return job_running.take_back(connection)

    def claim(self, device_id: str) -> Job | None:
        """Return the next job for a device, now running; None where none waits."""
        from tuner.store import job_running

        with self._store.session() as session:
            if not job_running.has_queued(session, self._owner, device_id):
                return None
        with self._store.transaction() as connection:
            return job_running.claim_next(connection, self._owner, device_id)

    def wishes(self) -> dict[int, JobWish]:
        """Return what is wished of each job that this process owns."""
        from tuner.store import job_running

        with self._store.session() as session:
            return job_running.wishes(session, self._owner)

    def beat(self) -> None:
        """Tell the others that this process lives."""
        from tuner.store import job_devices
        from tuner.store import job_running

        with self._store.transaction() as connection:
            job_devices.beat_devices(connection, self._owner)
            job_running.beat(connection, self._owner)

    def set_study(self, job_id: int, study_id: int) -> None:
        """Note which study a job opened."""
        from tuner.store import job_running

        with self._store.transaction() as connection:
            job_running.set_study(connection, job_id, self._owner, study_id)

    def finish(self, job_id: int, result: Mapping[str, Plain]) -> None:
        """End a job with what it gave."""
        from tuner.store import job_running

        with self._store.transaction() as connection:
            job_running.end_job(connection, job_id, self._owner, JobState.FINISHED, result=result)

    def fail(self, job_id: int, reason: str) -> None:
        """End a job with the reason why it failed, one line."""
        from tuner.store import job_running

        with self._store.transaction() as connection:
            job_running.end_job(connection, job_id, self._owner, JobState.FAILED, message=reason)

    def stop(self, job_id: int) -> None:
        """Let go of a job that was stopped: paused, cancelled or queued again, as wished."""
        from tuner.store import job_running

        with self._store.transaction() as connection:
            job_running.stop_job(connection, job_id, self._owner)

    def register(self, settings: Settings) -> None:
        """Open each device once, and take its jobs from now on.

        Raises:
            DeviceUnavailable: A device can't be used.
            EnvironmentProblem: Another process of this host takes a device's jobs.
        """
        from tuner.store import job_devices

        for device_id in self.device_ids:
            with open_worker(device_id, settings) as worker:
                facts, environment = worker.facts, worker.environment
            with self._store.transaction() as connection:
                job_devices.register_device(
                    connection, self._owner, device_id, facts.name, environment
                )

    def release(self) -> None:
        """Take no more jobs, and let go of what this process owns."""
        from tuner.store import job_devices
        from tuner.store import job_running

        with self._store.transaction() as connection:
            job_running.stop_all(connection, self._owner)
            job_devices.release_devices(connection, self._owner)


@contextmanager
def open_work_queue(settings: Settings, device_ids: Sequence[str] = ()) -> Iterator[WorkQueue]:
    """Take jobs for devices of this host while the context lasts.

    Args:
        settings: Say which database, which is made where there is none.
        device_ids: ``cpu``, ``cuda:N``, ``hip:N``; none, or ``auto``: all usable GPUs, or the
            CPU where there is none.

    Raises:
        DeviceUnavailable: A device can't be used, or there is none.
        EnvironmentProblem: Another process of this host takes a device's jobs.
        DatabaseProblem: The database can't be used.
    """
    chosen = _devices(device_ids, settings)
    with open_database(settings, create=True, writable=True) as store:
        queue = WorkQueue(store, chosen)
        try:
            queue.register(settings)
            yield queue
        finally:
            # Where the database is gone, the others find out by themselves that we are.
            with suppress(TunerError):
                queue.release()


def _devices(asked: Sequence[str], settings: Settings) -> list[str]:
    from tuner.worker.pool import list_devices

    named = [each for each in asked if each != "auto"]
    if len(named) == len(asked) and named:
        return list(dict.fromkeys(named))
    usable = [each.device_id for each in list_devices(settings) if each.usable]
    gpus = [each for each in usable if each != "cpu"]
    found = list(dict.fromkeys([*named, *(gpus or usable)]))
    if not found:
        raise DeviceUnavailable("no device is usable here", hint="`tuner doctor` says why")
    return found
