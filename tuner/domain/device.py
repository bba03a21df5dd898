"""What a worker tells of its device: plain facts, limits and readings."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field


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
