"""The table and the page of benchmarks/measurement.py."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from datetime import UTC
from pathlib import Path

SAME_SESSION = "same session"
TWO_SESSIONS = "two sessions"
CLOCKS = ("ncu", "cupti")
WORST = 10
SHORT_US = 10.0  # below it a pair may differ by so many microseconds, above it by so large a part
FEW_US = 0.15
PART = 0.01
CLOCK_FEW_US = 0.5
CLOCK_PART = 0.03


@dataclass(frozen=True, slots=True)
class Pair:
    """Two times of one config.

    Attributes:
        kind: ``same session`` or ``two sessions`` for twice ours; else the other clock.
        shape: Of the workload.
        dtype: Of the arrays.
        cache: ``hot`` or ``cold``.
        implementation: Its name.
        config: As text.
        first_us: Ours.
        second_us: Ours again, or the other clock's.
    """

    kind: str
    shape: str
    dtype: str
    cache: str
    implementation: str
    config: str
    first_us: float
    second_us: float

    @property
    def difference_us(self) -> float:
        """How far apart the two are."""
        return abs(self.second_us - self.first_us)

    @property
    def relative(self) -> float:
        """How far apart the two are, as a part of the smaller one."""
        return self.difference_us / min(self.first_us, self.second_us)

    @property
    def allowed_us(self) -> float:
        """How far apart they may be."""
        least_us = min(self.first_us, self.second_us)
        if self.kind in CLOCKS:
            return max(CLOCK_PART * self.second_us, CLOCK_FEW_US)
        return FEW_US if least_us < SHORT_US else PART * least_us

    @property
    def is_within(self) -> bool:
        """Whether they are that near."""
        return self.difference_us <= self.allowed_us


@dataclass(slots=True)
class Results:
    """What was measured so far.

    Attributes:
        pairs: Of all parts.
        notes: Of each part, what was not run or not met, and why.
        rotation: What the planted rotation gave; empty before.
        facts: Command, device, versions.
    """

    facts: Mapping[str, str]
    pairs: list[Pair] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    rotation: dict[str, object] = field(default_factory=dict)

    def note(self, part: str, text: str) -> None:
        """Say something of a part, once."""
        told = self.notes.setdefault(part, [])
        if text not in told:
            told.append(text)

    def of(self, *kinds: str) -> list[Pair]:
        """Return the pairs of these kinds."""
        return [each for each in self.pairs if each.kind in kinds]


def write(target: Path, results: Results) -> None:
    """Write the CSV and the page beside it."""
    with target.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([
            "kind", "shape", "dtype", "cache", "implementation", "config",
            "first_us", "second_us", "difference_us", "allowed_us", "within",
        ])  # fmt: skip
        for each in results.pairs:
            times_us = (each.first_us, each.second_us, each.difference_us, each.allowed_us)
            writer.writerow([
                each.kind, each.shape, each.dtype, each.cache, each.implementation, each.config,
                *(f"{time_us:.4f}" for time_us in times_us), str(each.is_within).lower(),
            ])  # fmt: skip
    target.with_suffix(".md").write_text(page(results), encoding="utf-8")


def page(results: Results) -> str:
    """Return the Markdown page."""
    facts = "; ".join(f"{k} {text}" for k, text in results.facts.items() if k != "command")
    lines = [
        "# How far a figure can be trusted",
        "",
        f"{datetime.now(UTC).date()}; {facts}.",
        "",
        f"    {results.facts['command']}",
        "",
        *_same_config_twice(results),
        *_other_clocks(results),
        *_rotation(results),
    ]
    return "\n".join(lines) + "\n"


def _same_config_twice(results: Results) -> list[str]:
    lines = [
        "## The same config twice",
        "",
        "Each config is entered twice among the finalists of a confirmation (fresh processes,",
        "interleaved, full protocol): *same session* compares the two entries, *two sessions* one",
        "entry with itself in a confirmation some time later. A pair may differ by "
        f"{PART:.0%}, or {FEW_US} µs",
        f"below {SHORT_US:g} µs.",
        "",
        "| | pairs | within | share | median difference | 90 % | 99 % | largest |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in (SAME_SESSION, TWO_SESSIONS):
        of_kind = results.of(kind)
        for title, pairs in (
            (f"{kind}, {SHORT_US:g} µs and more", [p for p in of_kind if not _is_short(p)]),
            (f"{kind}, shorter", [p for p in of_kind if _is_short(p)]),
            (f"{kind}, all", of_kind),
        ):
            lines.append(_quantile_row(title, pairs))
    worst = sorted(
        results.of(SAME_SESSION, TWO_SESSIONS), key=lambda p: p.difference_us / p.allowed_us
    )[: -WORST - 1 : -1]
    lines += ["", "The pairs furthest apart for what is allowed:", "", *_table(worst, "again")]
    return [*lines, *_notes(results, "pairs")]


def _other_clocks(results: Results) -> list[str]:
    lines = [
        "## Against another clock",
        "",
        "The default configs' figures of the first session beside the duration of the kernel as",
        "Nsight Compute (`ncu`: clocks left alone; caches flushed before each launch where ours is",
        "cold, left where it is hot) or CUPTI (through torch.profiler, the launches of a run of",
        "our own protocol) has it. Ours is the time from launch to launch, gaps included; a",
        f"duration has none. They may differ by {CLOCK_PART:.0%} or {CLOCK_FEW_US} µs.",
        "",
    ]
    for clock in CLOCKS:
        pairs = results.of(clock)
        if pairs:
            within = sum(each.is_within for each in pairs)
            lines += [f"{clock}: {within} of {len(pairs)} within.", "", *_table(pairs, clock)]
        lines += _notes(results, clock)
    return lines


def _rotation(results: Results) -> list[str]:
    lines = ["## A rotation that is too small", ""]
    if results.rotation:
        found = results.rotation
        lines += [
            f"A cold trial asks for {found['sets']} buffer sets: `{found['sound']}`. The same one",
            f"with {found['planted_sets']} of them, planted: `{found['planted']}`.",
            "",
            f"> {found['message']}",
            "",
        ]
    return [*lines, *_notes(results, "rotation")]


def _notes(results: Results, part: str) -> list[str]:
    told = [f"- {text}" for text in results.notes.get(part, ())]
    return [*told, ""] if told else []


def _table(pairs: Sequence[Pair], second: str) -> list[str]:
    return [
        f"| kind | shape | dtype | cache | config | ours, µs | {second}, µs | apart | |",
        "|---|---|---|---|---|---:|---:|---:|---|",
        *(
            f"| {each.kind} | {each.shape} | {each.dtype} | {each.cache} "
            f"| {each.implementation} `{each.config}` | {each.first_us:.3f} "
            f"| {each.second_us:.3f} | {each.difference_us:.3f} µs, {each.relative:.2%} "
            f"| {'' if each.is_within else 'beyond'} |"
            for each in pairs
        ),
        "",
    ]


def _quantile_row(title: str, pairs: Sequence[Pair]) -> str:
    if not pairs:
        return f"| {title} | 0 | | | | | | |"
    within = sum(each.is_within for each in pairs)
    ranked = sorted(pairs, key=lambda each: each.relative)
    cells = [_apart(ranked[min(len(ranked) - 1, int(q * len(ranked)))]) for q in (0.5, 0.9, 0.99)]
    cells.append(_apart(ranked[-1]))
    return (
        f"| {title} | {len(pairs)} | {within} | {within / len(pairs):.1%} | {' | '.join(cells)} |"
    )


def _apart(pair: Pair) -> str:
    return f"{pair.relative:.2%} ({pair.difference_us:.3f} µs)"


def _is_short(pair: Pair) -> bool:
    return min(pair.first_us, pair.second_us) < SHORT_US
