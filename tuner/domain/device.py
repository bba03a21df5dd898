"""What devices are called, and what a worker tells of its own: facts, limits and readings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field

from tuner.errors import UsageError

# As a regular expression of Python and of JSON Schema.
DEVICE_PATTERN = "^(auto|cpu|(cuda|hip):[0-9]{1,3})$"
DEVICE_NAMES = "auto, cpu, cuda:N or hip:N"
_AUTO_ORDER = {"hip": 0, "cuda": 1, "cpu": 3}
_OTHER_KIND = 2


def check_device_name(text: str) -> None:
    """Check that a text is ``auto`` or names a device.

    Raises:
        UsageError: It does not.
    """
    if re.fullmatch(DEVICE_PATTERN, text) is None:
        raise UsageError(f"device {text[:40]!r} is not understood", hint=DEVICE_NAMES)


def first_device(device_ids: Iterable[str]) -> str | None:
    """Return what ``auto`` means: AMD, then NVIDIA, then other kinds, the CPU last; or None."""
    return min(
        device_ids,
        key=lambda each: _AUTO_ORDER.get(each.partition(":")[0], _OTHER_KIND),
        default=None,
    )


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device as its driver describes it. Limits are read from the device, never from a table.

    Attributes:
        device_id: How users name it: ``cpu``, ``cuda:0``, ``hip:0``.
        kind: ``cpu``, ``cuda`` or ``hip``.
        architecture: ``x86_64``, ``sm_90``, ``gfx1201``.
        name: Display name. Never used to match results.
        compute_units: Multiprocessors, compute units or cores.
        wave_size: Threads that run in lock step (warp, wavefront).
        max_threads_per_block: Largest block the device launches.
        max_grid: Largest grid per axis, in blocks.
        max_grid_threads: Largest grid.x * block.x (2^32 - 1 on AMD).
        max_shared_bytes: Shared memory (LDS) a block can have; the device opts in where it must.
        max_registers_per_thread: Vector registers one thread can have; None where unknown.
        memory_bytes: Device memory.
        cache_bytes: Last-level cache, for cold-cache timing; 0 where unknown.
        timer: ``device-event`` or ``host-clock``.
        languages: For each language, "" when it is usable, else why it is not.
        target: What its compiler is told to build for, enough to build without the device; ""
            where that is not possible.
    """

    device_id: str
    kind: str
    architecture: str
    name: str
    compute_units: int
    wave_size: int
    max_threads_per_block: int
    max_grid: tuple[int, int, int]
    max_grid_threads: int
    max_shared_bytes: int
    max_registers_per_thread: int | None
    memory_bytes: int
    cache_bytes: int
    timer: str
    languages: dict[str, str] = field(default_factory=dict)
    target: str = ""


@dataclass(frozen=True, slots=True)
class DeviceListing:
    """One line of ``tuner devices``: usable, or the reason why not and the remedy."""

    device_id: str
    usable: bool
    architecture: str = ""
    name: str = ""
    reason: str = ""
    remedy: str = ""
    languages: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Readings around a measurement. None where the vendor library does not give them."""

    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
