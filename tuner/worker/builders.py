"""Builds kernels ahead of their measurement, in processes beside the measuring worker.

A builder has no device. What it builds goes into the cache of compiled kernels, where the
measuring worker finds it by content.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future

from tuner.domain.device import DeviceFacts
from tuner.domain.job import BuildJob
from tuner.domain.job import Kernel
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import BuiltAhead
from tuner.domain.records import Failure
from tuner.worker import messages
from tuner.worker.builder_processes import BuilderProcesses
from tuner.worker.pool import unexpected_reply
from tuner.worker.process import WorkerDied
from tuner.worker.process import WorkerTimeout

_LOG = logging.getLogger("tuner.worker")


class Builders:
    """Builds kernels for one device.

    Args:
        facts: Of the device to build for.
        processes: What builds; the caller closes them.
        build_timeout_s: How long a kernel may take.
    """

    def __init__(
        self, facts: DeviceFacts, processes: BuilderProcesses, build_timeout_s: float
    ) -> None:
        self._facts = facts
        self._processes = processes
        self._timeout_s = build_timeout_s

    @property
    def overlaps(self) -> bool:
        """Whether kernels may be built while others are measured."""
        return self._processes.share.overlaps

    @property
    def count(self) -> int:
        """How many kernels are built at a time."""
        return self._processes.share.builders

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        """Have a kernel built. A compiler that crashes or hangs is that kernel's answer."""
        return self._processes.threads.submit(self._build, kernel)

    def _build(self, kernel: Kernel) -> BuiltAhead:
        facts = self._facts
        job = BuildJob(kernel, facts.kind, facts.target, facts.wave_size)
        process = self._processes.take()
        try:
            process.send(messages.RunBuild(job, self._processes.options))
            reply = process.receive(self._timeout_s)
        except WorkerDied as error:
            failure = Failure(Outcome.CRASH, Stage.BUILD, error.description, error.log)
        except WorkerTimeout as error:
            message = f"no end within {error.timeout_s:g} s"
            failure = Failure(Outcome.COMPILE_TIMEOUT, Stage.BUILD, message, error.log)
        else:
            self._processes.give_back(process)
            if isinstance(reply, messages.Built):
                seconds = reply.report.build_s or 0.0
                _LOG.debug("process %d built %s in %.3f s", process.pid, kernel.entry, seconds)
                return reply.report
            raise unexpected_reply(reply)
        self._processes.discard(process)
        return BuiltAhead(failure)


class NoBuilders:
    """Builds nothing: the measuring worker does, where a device's facts name no target."""

    overlaps = False
    count = 1

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        """Answer at once that nothing was built."""
        del kernel
        answered: Future[BuiltAhead] = Future()
        answered.set_result(BuiltAhead())
        return answered
