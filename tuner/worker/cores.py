"""How the processor's cores are shared between building and measuring."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

# Left to the measuring worker, which feeds the device, and to this process, which stores what it
# answers.
KEPT_CORES = 2
# Fewer than this and builds would take turns with the measuring worker on its own cores.
FEWEST_TO_OVERLAP = 4
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class CoreShare:
    """Which cores build, and when.

    Attributes:
        builders: How many kernels are built at a time.
        cores: Where builders run.
        overlaps: Kernels are built while others are measured. Otherwise both take turns: nothing
            is built while anything is measured.
    """

    builders: int
    cores: tuple[int, ...]
    overlaps: bool


def share_cores(device_kind: str, cores: tuple[int, ...], quota: float = math.inf) -> CoreShare:
    """Return how cores are shared while a device of a kind is measured.

    On the CPU device a build beside a measurement takes its cores, cache and memory bandwidth. A
    GPU's launches are timed on the device, so that builds can't lengthen them; the cores kept
    see that it is fed at once. A quota of processor time that builders used up would stop the
    measuring worker as well: builders stay below it.

    Args:
        device_kind: ``DeviceFacts.kind``.
        cores: Those this process may run on.
        quota: Processor seconds a second that it may use.
    """
    usable = max(1, math.floor(min(len(cores), quota)))
    if device_kind == "cpu" or usable < FEWEST_TO_OVERLAP:
        return CoreShare(usable, cores, overlaps=False)
    return CoreShare(usable - KEPT_CORES, cores[KEPT_CORES:], overlaps=True)


def own_cores() -> tuple[int, ...]:
    """Return the cores this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def own_quota() -> float:
    """Return the processor seconds a second that a container grants; infinity without a limit."""
    try:
        granted, period = _QUOTA.read_text(encoding="ascii").split()
        return math.inf if granted == "max" else int(granted) / int(period)
    except (OSError, ValueError):
        return math.inf
