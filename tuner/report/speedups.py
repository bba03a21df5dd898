"""What recorded figures claim of each other, beside a rerun: rankings and speed-ups. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.domain.identity import config_text
from tuner.domain.protocol import Protocol
from tuner.domain.workload import Workload
from tuner.report.reproduce import Entry
from tuner.report.reproduce import GPU_THRESHOLD


@dataclass(frozen=True, slots=True)
class Claim:
    """How many times as fast one result is as another, then and now.

    Attributes:
        workload: Shape of the recorded workload.
        faster: Label of the one that was faster.
        slower: Label of the other.
        recorded: Ratio of their recorded medians, at least 1.
        rerun: Ratio of the reruns' medians; None where one of them failed.
        rerun_workload: Shape of the rerun.
    """

    workload: str
    faster: str
    slower: str
    recorded: float
    rerun: float | None
    rerun_workload: str

    def __str__(self) -> str:
        here = "not measured" if self.rerun is None else f"{self.rerun:.3g}"
        return (
            f"{self.workload}: {self.faster} is {self.recorded:.3g} times as fast as "
            f"{self.slower}: {_here(self.workload, self.rerun_workload)} {here}"
        )


@dataclass(frozen=True, slots=True)
class Ranking:
    """Order of the implementations on a workload by their best config, then and now.

    Attributes:
        workload: Shape of the recorded workload.
        recorded: Names, fastest first.
        rerun: Names, fastest first, of those measured.
        swapped: Pairs whose order turned round, by more than the threshold on either side.
        rerun_workload: Shape of the rerun.
    """

    workload: str
    recorded: tuple[str, ...]
    rerun: tuple[str, ...]
    swapped: tuple[tuple[str, str], ...]
    rerun_workload: str

    def __str__(self) -> str:
        text = (
            f"{self.workload}: recorded {' < '.join(self.recorded)}; "
            f"{_here(self.workload, self.rerun_workload)} "
            f"{' < '.join(self.rerun) or 'none measured'}"
        )
        pairs = ", ".join("/".join(pair) for pair in self.swapped)
        return f"{text}; swapped: {pairs}" if pairs else text


def claims(entries: Sequence[Entry]) -> list[Claim]:
    """Return the speed-ups that the recorded figures state, beside the reruns'.

    These are the ones a source makes. Where it makes none, they are each implementation's best
    config over the next slower implementation's, and configs of one implementation that differ
    in one parameter, by neighbouring values.
    """
    found: list[Claim] = []
    for group in _comparable(entries).values():
        best = _best_of_each(group)
        stated = [
            (each, other)
            for each in best
            for other in best
            if other.original.implementation in each.original.faster_than
        ]
        if stated:
            found += [_claim(a, b, group) for a, b in stated]
            continue
        found += [_claim(a, b, group) for a, b in pairwise(best)]
        found += [_claim(a, b, group) for a, b in _neighbours(group)]
    return found


def rankings(entries: Sequence[Entry]) -> list[Ranking]:
    """Return the order of the implementations wherever several share workload and protocol."""
    found = []
    for group in _comparable(entries).values():
        recorded = _best_of_each(group)
        if len(recorded) < 2:
            continue
        now: dict[str, float] = {}
        for each in group:
            if each.rerun.median_us is not None:
                name = each.original.implementation
                now[name] = min(each.rerun.median_us, now.get(name, math.inf))
        names = tuple(each.original.implementation for each in recorded)
        then = {each.original.implementation: each.original.median_us for each in recorded}
        swapped = tuple(
            (a, b)
            for index, a in enumerate(names)
            for b in names[index + 1 :]
            if a in now and b in now and _turned_round(then[a], then[b], now[a], now[b])
        )
        found.append(
            Ranking(
                group[0].original.workload.shape_text,
                names,
                tuple(sorted(now, key=lambda name: now[name])),
                swapped,
                group[0].rerun.workload.shape_text,
            )
        )
    return found


def _here(recorded: str, rerun: str) -> str:
    return "here" if rerun == recorded else f"here at {rerun}"


def _turned_round(then_a: float, then_b: float, now_a: float, now_b: float) -> bool:
    """Tell whether a was faster and now b is, by more than results that tie would differ."""
    limit = 1.0 + GPU_THRESHOLD
    return then_b > then_a * limit and now_a > now_b * limit


def _comparable(entries: Sequence[Entry]) -> dict[tuple[Workload, Protocol], list[Entry]]:
    """Group by what must be equal for two recorded times to be compared."""
    groups: dict[tuple[Workload, Protocol], list[Entry]] = {}
    for each in entries:
        key = (each.original.workload, each.original.protocol)
        groups.setdefault(key, []).append(each)
    return groups


def _best_of_each(group: Sequence[Entry]) -> list[Entry]:
    best: dict[str, Entry] = {}
    for each in sorted(group, key=lambda each: each.original.median_us):
        best.setdefault(each.original.implementation, each)
    return list(best.values())


def _neighbours(group: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Return pairs of one implementation whose configs differ in one parameter's value."""
    lines: dict[tuple[str, str, str], list[Entry]] = {}
    for each in group:
        config = each.original.config
        for name in config:
            rest = config_text({key: config[key] for key in config if key != name})
            lines.setdefault((each.original.implementation, name, rest), []).append(each)
    pairs = []
    for (_, name, _), line in lines.items():
        numbers = [each for each in line if isinstance(each.original.config[name], int | float)]
        ordered = sorted(numbers, key=lambda each: each.original.config[name])
        pairs += list(pairwise(ordered))
    return pairs


def _claim(a: Entry, b: Entry, group: Sequence[Entry]) -> Claim:
    fast, slow = sorted((a, b), key=lambda each: each.original.median_us)
    now_fast, now_slow = fast.rerun.median_us, slow.rerun.median_us
    rerun = None if now_fast is None or now_slow is None else now_slow / now_fast
    return Claim(
        fast.original.workload.shape_text,
        _label(fast, group),
        _label(slow, group),
        slow.original.median_us / fast.original.median_us,
        rerun,
        fast.rerun.workload.shape_text,
    )


def _label(entry: Entry, group: Sequence[Entry]) -> str:
    """Name an entry by its implementation, with its config where that has several."""
    name = entry.original.implementation
    same = [each for each in group if each.original.implementation == name]
    return name if len(same) == 1 else f"{name} {config_text(entry.original.config)}"
