"""The processes that build, started ahead of what they will build or when it is there."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tuner.environ import worker_environment
from tuner.errors import EnvironmentProblem
from tuner.settings import Settings
from tuner.worker import messages
from tuner.worker.cores import CoreShare
from tuner.worker.pool import worker_options
from tuner.worker.process import WorkerDied
from tuner.worker.process import WorkerProcess

NICENESS = 10  # builders yield to whatever else wants a core


class BuilderProcesses:
    """As many builder processes as are needed at a time, and never more than the share says.

    Attributes:
        share: Which cores build.
        options: What builders are told of the settings.
        threads: One for each process, to wait for it.

    Args:
        device_id: The device that is built for; builders do not open it.
        settings: Name the cache.
        share: Which cores build.
    """

    def __init__(self, device_id: str, settings: Settings, share: CoreShare) -> None:
        self.share = share
        self.options = worker_options(settings)
        self.threads = ThreadPoolExecutor(share.builders, thread_name_prefix="builder")
        # A builder is killed where it stands: what its compiler leaves goes with this folder.
        self._scratch = tempfile.TemporaryDirectory(prefix="tuner-builders-")
        self._environment = worker_environment(device_id, settings.cache_dir)
        self._environment["TMPDIR"] = self._scratch.name
        self._idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        self._all: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._closing = False

    @property
    def scratch(self) -> str:
        """Where compilers put their temporary files."""
        return self._scratch.name

    def start(self, count: int, languages: Sequence[str]) -> None:
        """Start processes that load what builds these languages; returns at once."""
        for _ in range(min(count, self.share.builders)):
            self.threads.submit(self._start_one, tuple(languages))

    def take(self) -> WorkerProcess:
        """Return an idle builder, or a new one: there are never more than threads.

        Raises:
            EnvironmentProblem: None can be started.
        """
        with contextlib.suppress(queue.Empty):
            while not (process := self._idle.get_nowait()).is_running:
                self.discard(process)  # it ended over what it loaded: no kernel's fault
            return process
        return self._new()

    def give_back(self, process: WorkerProcess) -> None:
        """Let the next kernel have a builder that is done with its own."""
        self._idle.put(process)

    def discard(self, process: WorkerProcess) -> None:
        """End a builder that is of no more use."""
        with self._lock:
            self._all.discard(process)
        process.close()

    def begin_close(self) -> None:
        """Kill all builders, without waiting for their end."""
        with self._lock:
            self._closing = True
            for process in self._all:
                process.begin_kill()

    def close(self) -> None:
        """End all builders, at once."""
        self.begin_close()
        self.threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.close()
        self._all.clear()
        self._scratch.cleanup()

    def _start_one(self, languages: tuple[str, ...]) -> None:
        with contextlib.suppress(WorkerDied, EnvironmentProblem):  # told when one is to build
            process = self._new()
            process.send(messages.LoadLanguages(languages))
            self._idle.put(process)

    def _new(self) -> WorkerProcess:
        with self._lock:
            try:
                process = WorkerProcess(self._environment)
            except OSError as error:
                raise EnvironmentProblem(
                    f"no process can be started that builds kernels: {error.strerror}",
                    hint="see to memory, and to the limits of processes and open files",
                ) from error
            self._all.add(process)
            if self._closing:
                process.kill()
        # At once, before it starts threads of its own: they inherit both.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(process.pid, self.share.cores)
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        return process
