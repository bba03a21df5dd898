"""Which machine and toolchain a device name stands for: asked of a worker, or remembered.

Asking starts a worker process, which takes about a second and with a cold GPU driver up to 20.
The service therefore remembers. What it remembers can only be wrong where the driver or the
toolchain of a device is exchanged under a running service: drivers need the processes that use
them to end, and what is remembered is asked for again after ``MAX_AGE_S``.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tuner.api.common import open_database
from tuner.api.common import open_worker
from tuner.domain.environment import Environment
from tuner.errors import Conflict
from tuner.errors import DeviceUnavailable
from tuner.errors import UsageError
from tuner.settings import Settings

DeviceFinder: TypeAlias = Callable[[str, Settings], Environment]

MAX_AGE_S = 600.0
MAX_AGE_OF_A_FAILURE_S = 30.0
_DEVICE = re.compile(r"auto|cpu|(cuda|hip):\d{1,4}")


@dataclass(frozen=True, slots=True)
class _Remembered:
    asked_at_s: float
    answer: Environment | DeviceUnavailable

    def is_fresh(self, now_s: float) -> bool:
        is_failure = isinstance(self.answer, DeviceUnavailable)
        return now_s - self.asked_at_s < (MAX_AGE_OF_A_FAILURE_S if is_failure else MAX_AGE_S)


def probe_device(device_id: str, settings: Settings) -> Environment:
    """Ask a worker process for the environment of a device of this machine.

    Raises:
        DeviceUnavailable: The device can't be used, with the reason.
    """
    with open_worker(device_id, settings) as worker:
        return worker.environment


class DeviceMemory:
    """Environments of devices, of this machine and of those that share the database.

    A device that ``tuner work`` takes jobs for here is as its process found it: what it measures
    is stored under that environment. Another one of this machine is asked. A device that only
    other machines have is as they registered it.

    Args:
        probe: Asks this machine.
        clock: Seconds, for the age of what is remembered.
    """

    def __init__(
        self, probe: DeviceFinder = probe_device, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._lock = threading.Lock()  # one worker process at a time
        self._remembered: dict[str, _Remembered] = {}

    def find(self, device_id: str, settings: Settings) -> Environment:
        """Return the environment of a device.

        Raises:
            UsageError: It is no device's name.
            DeviceUnavailable: No machine has it, or it can't be used.
            Conflict: Other machines have it, and they differ.
            DatabaseProblem: The database can't be used.
        """
        if not _DEVICE.fullmatch(device_id):
            raise UsageError(
                f"no device is named {device_id[:40]!r}", hint="auto, cpu, cuda:N or hip:N"
            )
        found = self._remembered.get(device_id)
        if found is None or not found.is_fresh(self._clock()):
            with self._lock:
                found = self._remembered.get(device_id)
                if found is None or not found.is_fresh(self._clock()):
                    found = _Remembered(self._clock(), self._ask(device_id, settings))
                    self._remembered[device_id] = found
        if isinstance(found.answer, DeviceUnavailable):
            raise found.answer
        return found.answer

    def _ask(self, device_id: str, settings: Settings) -> Environment | DeviceUnavailable:
        from tuner.store.known_devices import registered_environments

        with (
            open_database(settings, create=False, writable=False) as store,
            store.session() as session,
        ):
            here, elsewhere = registered_environments(session, device_id)
        if here is not None:
            return here
        try:
            return self._probe(device_id, settings)
        except DeviceUnavailable as error:
            found = {each.key: each for each in elsewhere}
            if len(found) > 1:
                raise Conflict(
                    f"{len(found)} machines have a device {device_id}, and they differ",
                    hint="ask for an architecture instead: arch=",
                ) from error
            return next(iter(found.values()), error)
