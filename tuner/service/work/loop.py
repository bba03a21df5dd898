"""Takes jobs for this host's devices, one at a time on each, until told to stop.

What is to be done is read from the database again and again, and what was done is written there:
a process that is killed, and another that takes its place, need nothing else. While the database
can't be reached, running jobs go on, and what they gave is stored when it can be.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from collections.abc import Sequence

from tuner import api
from tuner.api.work_queue import WorkQueue
from tuner.domain.queue import JobWish
from tuner.errors import TunerError
from tuner.service.work.running import RunningJob
from tuner.service.work.running import STOP_TIMEOUT_S
from tuner.settings import Settings

TICK_S = 0.5
BEAT_S = 10.0  # the others wait for several of these before they take us for gone
TAKE_BACK_S = 5.0
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_SIGNALS = (*_STOPPING, signal.SIGCHLD)


def work(settings: Settings, device_ids: Sequence[str], say: Callable[[str], None]) -> None:
    """Take jobs until SIGTERM or SIGINT comes. To be called in the main thread.

    Jobs that run then go back to the queue, and their studies can go on.

    Args:
        settings: Say which database, and where studies and operators are.
        device_ids: ``cpu``, ``cuda:N``, ``hip:N``; none, or ``auto``: all usable GPUs, or the
            CPU where there is none.
        say: Is told what happens, in lines for people.

    Raises:
        DeviceUnavailable: A device can't be used, or there is none.
        EnvironmentProblem: Another process of this host takes a device's jobs.
        DatabaseProblem: The database can't be used.
    """
    with api.open_work_queue(settings, device_ids) as queue:
        say(f"taking jobs for {', '.join(queue.device_ids)}")
        # Signals wait for us, so that none comes in the middle of something.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        worker = _Worker(queue, settings, say)
        try:
            worker.run()
        finally:
            worker.kill_all()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """The loop: a round of short steps, each of which may fail where the database is away."""

    def __init__(self, queue: WorkQueue, settings: Settings, say: Callable[[str], None]) -> None:
        self._queue = queue
        self._settings = settings
        self._say = say
        self._running: dict[str, RunningJob] = {}
        self._stop_by: float | None = None
        self._due: dict[str, float] = {}
        self._last_problem = ""

    def run(self) -> None:
        """Work until told to stop and all jobs' processes have ended."""
        while self._stop_by is None or (self._running and time.monotonic() < self._stop_by):
            steps = [self._follow_wishes, self._store_studies, self._store_ends]
            if self._stop_by is None:
                steps += [self._take_back, self._claim]
            self._try(*steps, self._beat)
            for each in self._running.values():
                each.listen()
                if self._stop_by is not None:
                    each.tell_to_stop()
            self._wait()

    def kill_all(self) -> None:
        """End what is left: nothing, unless this process fails or is in a hurry."""
        for each in self._running.values():
            each.kill()

    def _try(self, *steps: Callable[[], None]) -> None:
        problem = ""
        for step in steps:
            try:
                step()
            except TunerError as error:
                problem = error.message
        if problem and problem != self._last_problem:
            self._say(f"warning: {problem}; trying again")
        self._last_problem = problem

    def _wait(self) -> None:
        """Wait for a moment, for a signal, or for the end of a job's process."""
        came = signal.sigtimedwait(_SIGNALS, TICK_S)
        if came is not None and came.si_signo in _STOPPING and self._stop_by is None:
            self._say("stopping")
            # A second for the kill of what did not stop, and for storing it.
            self._stop_by = time.monotonic() + STOP_TIMEOUT_S + 1.0

    def _follow_wishes(self) -> None:
        if not self._running:
            return
        wishes = self._queue.wishes()
        for each in self._running.values():
            # A job that is not ours any more was taken back: we were silent for too long.
            if wishes.get(each.job.id, JobWish.CANCEL) is not JobWish.RUN:
                each.tell_to_stop()

    def _store_studies(self) -> None:
        for each in self._running.values():
            self._store_study(each)

    def _store_study(self, running: RunningJob) -> None:
        if running.study_id is not None and running.study_id != running.job.study_id:
            self._queue.set_study(running.job.id, running.study_id)
            running.has_stored(running.study_id)

    def _store_ends(self) -> None:
        for device_id, each in list(self._running.items()):
            if each.has_ended():
                self._store_end(each)
                each.close()
                del self._running[device_id]

    def _store_end(self, ended: RunningJob) -> None:
        job_id = ended.job.id
        self._store_study(ended)  # what it said last was taken in only now
        if ended.result is not None:
            self._queue.finish(job_id, ended.result)
            self._say(f"job {job_id} finished")
        elif ended.was_stopped:
            self._queue.stop(job_id)
            self._say(f"job {job_id} stopped")
        else:
            self._queue.fail(job_id, ended.reason)
            self._say(f"job {job_id} failed: {ended.reason}")

    def _take_back(self) -> None:
        if not self._is_due("take back", TAKE_BACK_S):
            return
        for job_id in self._queue.take_back():
            self._say(f"job {job_id} taken back: its runner is gone")

    def _claim(self) -> None:
        for device_id in self._queue.device_ids:
            if device_id in self._running:
                continue
            job = self._queue.claim(device_id)
            if job is not None:
                self._running[device_id] = RunningJob(job, self._settings)
                self._say(f"job {job.id} runs on {device_id}")

    def _beat(self) -> None:
        if self._is_due("beat", BEAT_S):
            self._queue.beat()

    def _is_due(self, what: str, interval_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + interval_s
        return True
