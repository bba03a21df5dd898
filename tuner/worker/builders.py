"""Builds kernels ahead of their measurement, in processes beside the measuring worker.

A builder has no device. What it builds goes into the cache of compiled kernels, where the
measuring worker finds it by content.
"""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from tuner.domain.device import DeviceFacts
from tuner.domain.job import BuildJob
from tuner.domain.job import Kernel
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import BuiltAhead
from tuner.domain.records import Failure
from tuner.settings import Settings
from tuner.settings import worker_environment
from tuner.worker import messages
from tuner.worker.cores import CoreShare
from tuner.worker.pool import unexpected_reply
from tuner.worker.pool import worker_options
from tuner.worker.process import WorkerDied
from tuner.worker.process import WorkerProcess
from tuner.worker.process import WorkerTimeout

NICENESS = 10  # builders yield to whatever else wants a core


class Builders:
    """As many builder processes as are needed at a time, started when they are.

    Args:
        facts: Of the device to build for.
        settings: Name the cache.
        share: Which cores build.
        build_timeout_s: How long a kernel may take.
    """

    def __init__(
        self, facts: DeviceFacts, settings: Settings, share: CoreShare, build_timeout_s: float
    ) -> None:
        self._facts = facts
        self._share = share
        self._timeout_s = build_timeout_s
        self._options = worker_options(settings)
        # A builder is killed where it stands: what its compiler leaves goes with this folder.
        self._scratch = tempfile.TemporaryDirectory(prefix="tuner-builders-")
        self._environment = worker_environment(facts.device_id, settings.cache_dir)
        self._environment["TMPDIR"] = self._scratch.name
        self._threads = ThreadPoolExecutor(share.builders, thread_name_prefix="builder")
        self._idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        self._all: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._closing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def overlaps(self) -> bool:
        """Whether kernels may be built while others are measured."""
        return self._share.overlaps

    @property
    def count(self) -> int:
        """How many kernels are built at a time."""
        return self._share.builders

    @property
    def scratch(self) -> str:
        """Where compilers put their temporary files."""
        return self._scratch.name

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        """Have a kernel built. A compiler that crashes or hangs is that kernel's answer."""
        return self._threads.submit(self._build, kernel)

    def close(self) -> None:
        """End all builders, at once."""
        with self._lock:
            self._closing = True
            for process in self._all:
                process.begin_kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.close()
        self._all.clear()
        self._scratch.cleanup()

    def _build(self, kernel: Kernel) -> BuiltAhead:
        facts = self._facts
        job = BuildJob(kernel, facts.kind, facts.target, facts.wave_size)
        process = self._take()
        try:
            process.send(messages.RunBuild(job, self._options))
            reply = process.receive(self._timeout_s)
        except WorkerDied as error:
            failure = Failure(Outcome.CRASH, Stage.BUILD, error.description, error.log)
        except WorkerTimeout as error:
            message = f"no end within {error.timeout_s:g} s"
            failure = Failure(Outcome.COMPILE_TIMEOUT, Stage.BUILD, message, error.log)
        else:
            self._idle.put(process)
            if isinstance(reply, messages.Built):
                return reply.report
            raise unexpected_reply(reply)
        with self._lock:
            self._all.discard(process)
        process.close()
        return BuiltAhead(failure)

    def _take(self) -> WorkerProcess:
        """Return an idle builder, or a new one: there are never more than threads."""
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        with self._lock:
            process = WorkerProcess(self._environment)
            self._all.add(process)
            if self._closing:
                process.kill()
        # At once, before it starts threads of its own: they inherit both.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(process.pid, self._share.cores)
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        return process


class NoBuilders:
    """Builds nothing: the measuring worker does, where a device's facts name no target."""

    overlaps = False
    count = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        """Answer at once that nothing was built."""
        del kernel
        answered: Future[BuiltAhead] = Future()
        answered.set_result(BuiltAhead())
        return answered
