"""The processes of one run on one device, started before there is work for them.

Importing and opening take longer than most of what a process is then asked. All of them do so side
by side, while the run is planned and its database is opened.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Self

from tuner.environ import worker_environment
from tuner.settings import Settings
from tuner.worker import messages
from tuner.worker.builder_processes import BuilderProcesses
from tuner.worker.builders import Builders
from tuner.worker.builders import NoBuilders
from tuner.worker.cores import own_cores
from tuner.worker.cores import own_quota
from tuner.worker.cores import share_cores
from tuner.worker.pool import begin_opening
from tuner.worker.pool import DeviceWorker
from tuner.worker.process import WorkerDied
from tuner.worker.process import WorkerProcess


class Crew:
    """The measuring worker, the builders and the confirming workers of a run.

    Args:
        device_id: Which device.
        languages: Those of the kernels.
        settings: Name the cache.
        said: What the device said of itself before. It is then opened when something is measured,
            not before.
    """

    def __init__(
        self,
        device_id: str,
        languages: Sequence[str],
        settings: Settings,
        said: messages.Ready | None = None,
    ) -> None:
        self._device_id = device_id
        self._languages = tuple(languages)
        self._settings = settings
        self._said = said
        self._builds = 0
        self._opening: WorkerProcess | None = None
        self._builders: BuilderProcesses | None = None
        self._spares: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(force=kind is not None)

    def start(self, builds: int) -> None:
        """Have the device opened and builders started; returns at once.

        Args:
            builds: The most kernels that will be built at a time.
        """
        self._builds = builds
        self._opening = begin_opening(self._device_id, self._settings, self._languages)
        if self._device_id != "auto":  # which device that is, its worker will say
            self._builders_for(self._device_id)

    @cached_property
    def worker(self) -> DeviceWorker:
        """The measuring worker. Waits for the device.

        Raises:
            DeviceUnavailable: The device can't be used, with the reason.
        """
        opening, self._opening = self._opening, None
        return DeviceWorker(self._device_id, self._settings, opening, self._said, self._languages)

    def builders(self, build_timeout_s: float) -> Builders | NoBuilders:
        """Return what builds kernels for the device ahead of their trials."""
        facts = self.worker.facts
        if not facts.target:
            return NoBuilders()
        return Builders(facts, self._builders_for(facts.device_id), build_timeout_s)

    def keep_ready(self, count: int) -> None:
        """Have so many processes that will be confirming workers loaded, no device opened.

        Not where that would disturb what is measured meanwhile.
        """
        if self._builders is None or not self._builders.share.overlaps:
            return
        device_id, settings = self.worker.facts.device_id, self._settings
        while len(self._spares) < count:
            process = WorkerProcess(worker_environment(device_id, settings.cache_dir))
            self._spares.append(process)
            _keep_to(process, self._builders.share.cores)
            with contextlib.suppress(WorkerDied):  # told when it is to open the device
                process.send(messages.LoadLanguages(self._languages))

    def open_workers(self, count: int) -> list[DeviceWorker]:
        """Open the device in several processes at once; the caller closes them.

        Most of an opening is waiting for the driver.

        Raises:
            DeviceUnavailable: The device can't be used, with the reason.
        """
        device_id, settings = self.worker.facts.device_id, self._settings
        processes: list[WorkerProcess] = []
        try:
            for _ in range(count):
                if self._spares:
                    processes.append(self._spares.pop())
                    _keep_to(processes[-1], own_cores())
                    begin_opening(device_id, settings, process=processes[-1])
                else:
                    processes.append(begin_opening(device_id, settings, self._languages))
            return [DeviceWorker(device_id, settings, process) for process in processes]
        except BaseException:
            for process in processes:
                process.kill()
                process.close()
            raise

    def begin_close(self) -> None:
        """Let all processes end, without waiting for it: nothing more will be asked of them."""
        self.worker.begin_close()
        for process in self._spares:
            process.begin_kill()
        if self._builders is not None:
            self._builders.begin_close()

    def close(self, *, force: bool = False) -> None:
        """End all processes."""
        processes = [*self._spares, *([self._opening] if self._opening else [])]
        for process in processes:
            process.begin_kill()
        for process in processes:
            process.close()
        self._spares.clear()
        self._opening = None
        if "worker" in vars(self):
            self.worker.close(force=force)
        if self._builders is not None:
            self._builders.close()

    def _builders_for(self, device_id: str) -> BuilderProcesses:
        if self._builders is None:
            share = share_cores(device_id.partition(":")[0], own_cores(), own_quota())
            self._builders = BuilderProcesses(device_id, self._settings, share)
            self._builders.start(self._builds, self._languages)
        return self._builders


def _keep_to(process: WorkerProcess, cores: Sequence[int]) -> None:
    """Have a process run on these cores only."""
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(process.pid, cores)
