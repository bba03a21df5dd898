"""Which machine and toolchain a device name stands for: as registered, or asked of a worker.

A device that a process takes jobs for is as that process registered it, in the database. Any
other is asked: that starts a worker process, which takes about a second and with a cold GPU driver
up to 20, so the service remembers what came of it. It can only be wrong where the driver or the
toolchain of a device that nobody takes jobs for is exchanged under a running service: drivers need
the processes that use them to end, and what is remembered is asked for again after ``MAX_AGE_S``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from operator import attrgetter
from typing import TYPE_CHECKING
from typing import TypeAlias

from tuner.api.common import open_worker
from tuner.domain.device import check_device_name
from tuner.domain.device import first_device
from tuner.domain.environment import Environment
from tuner.errors import Conflict
from tuner.errors import DeviceUnavailable
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store.known_devices import RegisteredDevice

# Given the name of a device, the settings, and the devices that are registered in the database.
DeviceFinder: TypeAlias = Callable[[str, Settings, "Sequence[RegisteredDevice]"], Environment]
# Given the name and the registered devices, what a finder would return; None where it had to ask.
DeviceRecall: TypeAlias = Callable[[str, "Sequence[RegisteredDevice]"], Environment | None]
DeviceProbe: TypeAlias = Callable[[str, Settings], Environment]

MAX_AGE_S = 600.0
MAX_AGE_OF_A_FAILURE_S = 30.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a device can't be used. Not the error: each one raised keeps its own trace."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Probed:
    asked_at_s: float
    answer: Environment | _Failure

    def is_fresh(self, now_s: float) -> bool:
        is_failure = isinstance(self.answer, _Failure)
        return now_s - self.asked_at_s < (MAX_AGE_OF_A_FAILURE_S if is_failure else MAX_AGE_S)


def probe_device(device_id: str, settings: Settings) -> Environment:
    """Ask a worker process for the environment of a device of this machine.

    Raises:
        DeviceUnavailable: The device can't be used, with the reason.
    """
    with open_worker(device_id, settings) as worker:
        return worker.environment


def find_here(
    device_id: str, settings: Settings, _registered: Sequence[RegisteredDevice]
) -> Environment:
    """Return the environment of a device of this machine, whatever is registered.

    Raises:
        DeviceUnavailable: The device can't be used, with the reason.
    """
    return probe_device(device_id, settings)


def auto_device(devices: Iterable[tuple[str, bool]]) -> str | None:
    """Return the device that ``auto`` means where processes take jobs, or None without any.

    Args:
        devices: Each one that ever was taken, and whether it is now: those go first.
    """
    listed = sorted(devices)
    taken = [device_id for device_id, is_taken in listed if is_taken]
    return first_device(taken or [device_id for device_id, _ in listed])


def recall_nothing(_device_id: str, _registered: Sequence[RegisteredDevice]) -> Environment | None:
    """Remember no device."""
    return None


def _meant(
    device_id: str,
    registered: Sequence[RegisteredDevice],
    is_taken: Callable[[RegisteredDevice], bool],
) -> str:
    """Return the device that is meant by ``auto``, where some are registered; else the name."""
    if device_id != "auto":
        return device_id
    return auto_device((each.device_id, is_taken(each)) for each in registered) or device_id


def _taken_here(
    device_id: str,
    registered: Sequence[RegisteredDevice],
    is_taken: Callable[[RegisteredDevice], bool],
) -> Environment | None:
    """Return the environment of a device whose jobs a process of this host takes.

    Only while that lives: after a driver's exchange, an old row says what no longer is.
    """
    own = (each for each in registered if each.device_id == device_id and each.is_here)
    return next((each.environment for each in own if is_taken(each)), None)


def _taken_check() -> Callable[[RegisteredDevice], bool]:
    """Return what tells whether a process takes a device's jobs now.

    Mostly one process takes those of all devices of a host, and is looked up once.
    """
    now = datetime.now(UTC)
    found: dict[tuple[str | None, datetime], bool] = {}

    def is_taken(device: RegisteredDevice) -> bool:
        key = device.owner, device.seen_at
        if key not in found:
            found[key] = device.is_taken(now)
        return found[key]

    return is_taken


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
        self, probe: DeviceProbe = probe_device, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe = probe
        self._clock = clock
        # One worker process at a time, whatever the device. Lookups need no token: those of many
        # devices that are not there would else start as many processes. What is known waits for
        # none of this.
        self._lock = threading.Lock()
        self._probed: dict[str, _Probed] = {}

    def find(
        self, device_id: str, settings: Settings, registered: Sequence[RegisteredDevice]
    ) -> Environment:
        """Return the environment of a device.

        Args:
            device_id: ``auto`` is what it is for jobs; where nothing is registered, the first
                usable device here.
            settings: For the process that is asked.
            registered: The devices in the database.

        Raises:
            UsageError: It is no device's name.
            DeviceUnavailable: No machine has it, or it can't be used.
            Conflict: Other machines have it, and they differ.
        """
        check_device_name(device_id)
        is_taken = _taken_check()
        device_id = _meant(device_id, registered, is_taken)
        here = _taken_here(device_id, registered, is_taken)
        if here is not None:
            return here
        found = self._ask(device_id, settings)
        if isinstance(found, Environment):
            return found
        own = (each for each in registered if each.device_id == device_id and not each.is_here)
        others = sorted(own, key=attrgetter("seen_at"))
        # Rows are kept: after an upgrade, the one before it says what no longer is. Where no
        # process lives, the last word is the best there is.
        living = [each for each in others if is_taken(each)]
        elsewhere = {each.environment.key: each.environment for each in living or others[-1:]}
        if len(elsewhere) > 1:
            raise Conflict(
                f"{len(elsewhere)} machines have a device {device_id}, and they differ",
                hint="ask for an architecture instead: arch=",
            )
        if not elsewhere:
            raise DeviceUnavailable(found.message, hint=found.hint)
        return next(iter(elsewhere.values()))

    def recall(self, device_id: str, registered: Sequence[RegisteredDevice]) -> Environment | None:
        """Return what ``find`` would, without starting or waiting for a process.

        Args:
            device_id: As ``find``'s.
            registered: As ``find``'s.

        Returns:
            None where that is not known.
        """
        is_taken = _taken_check()
        device_id = _meant(device_id, registered, is_taken)
        here = _taken_here(device_id, registered, is_taken)
        if here is not None:
            return here
        found = self._probed.get(device_id)
        if found is None or not found.is_fresh(self._clock()):
            return None
        return found.answer if isinstance(found.answer, Environment) else None

    def _ask(self, device_id: str, settings: Settings) -> Environment | _Failure:
        """Return what this machine says of a device, now or lately."""
        found = self._probed.get(device_id)
        if found is None or not found.is_fresh(self._clock()):
            with self._lock:
                found = self._probed.get(device_id)
                if found is None or not found.is_fresh(self._clock()):
                    answer = self._answer(device_id, settings)
                    found = self._probed[device_id] = _Probed(self._clock(), answer)
        return found.answer

    def _answer(self, device_id: str, settings: Settings) -> Environment | _Failure:
        try:
            return self._probe(device_id, settings)
        except DeviceUnavailable as error:
            return _Failure(error.message, error.hint)
