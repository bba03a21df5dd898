"""Sets event times and profiler times of a workload's trials side by side.

They measure different things: events enclose the launch as well, or average many launches from a
graph; a profiler takes the kernel's begin and end alone, mostly at other clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations


@dataclass(frozen=True, slots=True)
class TimePair:
    """Both times of one trial, each with its range.

    Attributes:
        trial_id: Row of the trial.
        label: Implementation and config, for people.
        event_us: Smallest, median and largest: of the process medians, or the quick median alone.
        profiler_us: Smallest, median and largest of the profiled launches.
    """

    trial_id: int
    label: str
    event_us: tuple[float, float, float]
    profiler_us: tuple[float, float, float]


def rank_flips(pairs: Sequence[TimePair]) -> list[tuple[TimePair, TimePair]]:
    """Return the pairs whose first is faster by events and slower by the profiler.

    Only where neither pair of ranges overlaps: what either can't tell apart is not ranked.
    """
    return [
        (one, other)
        for one, other in permutations(pairs, 2)
        if one.event_us[2] < other.event_us[0] and one.profiler_us[0] > other.profiler_us[2]
    ]
