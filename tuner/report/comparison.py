"""Sets two studies, environments or sources side by side, workload by workload. Pure.

What a new driver, compiler or kernel changed is the question here, so that a difference of
environment or source is the subject. Only another device or protocol makes times incomparable.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass

from tuner.domain.environment import differences
from tuner.domain.environment import Environment
from tuner.domain.environment import FieldDifference
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.domain.stats import choose
from tuner.domain.stats import tie_set
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.report.reproduce import device_reasons
from tuner.report.reproduce import judge_times
from tuner.report.reproduce import Judgement
from tuner.report.reproduce import protocol_changes

SCHEMA = "tuner.compare/1"
COLUMNS = (
    "shape", "dtype", "winner_a", "config_a", "median_a_us", "winner_b", "config_b", "median_b_us",
    "ratio", "ratio_low", "ratio_high", "threshold", "change", "winner", "trial_a", "trial_b",
    "reasons",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two things compared.

    Attributes:
        name: As the user named it.
        label: What it is, for people.
        candidates: Its confirmed trials, with samples.
    """

    name: str
    label: str
    candidates: tuple[BestCandidate, ...]


@dataclass(frozen=True, slots=True)
class WorkloadComparison:
    """One workload on both sides.

    Attributes:
        workload: The problem.
        left: Winner of the left side: of those tied with the fastest, the simplest.
        right: Winner of the right side.
        winner: ``same``; ``tied``: another one, but the old one ties with it; ``changed``; or
            ``only in A`` and ``only in B``.
        judgement: Of the right winner's time against the left's.
    """

    workload: Workload
    left: BestCandidate | None
    right: BestCandidate | None
    winner: str
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, workload by workload.

    Attributes:
        left: The left side.
        right: The right side.
        workloads: In the order of the left side, then what only the right one has.
        environment: Fields in which the environments differ, identity first.
        protocol: Fields in which the protocols differ.
        sources: Implementations whose source differs, with both hashes.
    """

    left: Side
    right: Side
    workloads: tuple[WorkloadComparison, ...]
    environment: tuple[FieldDifference, ...]
    protocol: tuple[str, ...]
    sources: tuple[str, ...]

    def rows(self) -> list[dict[str, Plain]]:
        """Return one row a workload, with the keys of ``COLUMNS``."""
        return [_row(each) for each in self.workloads]

    def counts(self) -> dict[str, int]:
        """Return how many workloads came out in each way, and how many winners changed."""
        found: dict[str, int] = {}
        for each in self.workloads:
            verdict = _change(each)
            found[verdict] = found.get(verdict, 0) + 1
        found["winners changed"] = sum(each.winner == "changed" for each in self.workloads)
        return found

    def as_plain(self) -> dict[str, Plain]:
        """Return the JSON of ``tuner compare --format json``."""
        return {
            "schema": SCHEMA,
            "a": {"name": self.left.name, "label": self.left.label},
            "b": {"name": self.right.name, "label": self.right.label},
            "counts": self.counts(),
            "environment": [asdict(each) for each in self.environment],
            "protocol": list(self.protocol),
            "sources": list(self.sources),
            "workloads": [
                {
                    **_row(each),
                    "scalars": dict(each.workload.scalars),
                    "reasons": list(each.judgement.reasons),
                }
                for each in self.workloads
            ],
        }


def compare_sides(left: Side, right: Side) -> Comparison:
    """Compare two sides, each of which has a candidate."""
    groups_left, groups_right = _by_workload(left.candidates), _by_workload(right.candidates)
    workloads = tuple(
        _compare(workload, groups_left.get(workload, ()), groups_right.get(workload, ()))
        for workload in dict.fromkeys((*groups_left, *groups_right))
    )
    return Comparison(
        left,
        right,
        workloads,
        tuple(_environment_differences(groups_left, groups_right)),
        tuple(_protocol_differences(groups_left, groups_right)),
        tuple(_source_differences(left.candidates, right.candidates)),
    )


def _by_workload(
    candidates: Iterable[BestCandidate],
) -> dict[Workload, tuple[BestCandidate, ...]]:
    """Group by workload; within one, the protocol used last and the newest of each config."""
    groups: dict[Workload, list[BestCandidate]] = {}
    for each in sorted(candidates, key=lambda each: (each.finished_at, each.trial_id)):
        groups.setdefault(each.workload, []).append(each)
    found = {}
    for workload in sorted(groups, key=lambda each: (each.operator, each.dtype, each.shape)):
        group = groups[workload]
        last = group[-1]
        latest = {
            (each.implementation, config_text(each.config)): each
            for each in group
            if each.protocol.key == last.protocol.key
            and each.environment.key == last.environment.key
        }
        found[workload] = tuple(
            sorted(latest.values(), key=lambda each: (each.implementation, _simplicity(each)))
        )
    return found


def _simplicity(candidate: BestCandidate) -> tuple[tuple[str, float, str], ...]:
    """Order configs by their values, as ``tuner best`` prefers them among ties."""
    return tuple(
        (name, float(value) if isinstance(value, int | float) else 0.0, str(value))
        for name, value in sorted(candidate.config.items())
    )


def _compare(
    workload: Workload, left: Sequence[BestCandidate], right: Sequence[BestCandidate]
) -> WorkloadComparison:
    if not left or not right:
        ours = _winner(left) if left else None
        theirs = _winner(right) if right else None
        where = "only in A" if left else "only in B"
        judgement = Judgement("not_comparable", reasons=(where,))
        return WorkloadComparison(workload, ours, theirs, where, judgement)
    before, after = _winner(left), _winner(right)
    if before.trial_id == after.trial_id:
        return WorkloadComparison(workload, before, after, "same", Judgement("same", 1.0, 1.0, 1.0))
    reasons = [
        *device_reasons(before.environment, after.environment),
        *(f"protocol: {each}" for each in protocol_changes(before.protocol, after.protocol)),
    ]
    if reasons:
        ratio = after.median_us / before.median_us
        judgement = Judgement("not_comparable", ratio, reasons=tuple(reasons))
    else:
        # Only the CPU device has the field that says which processor it is.
        is_cpu = "cpu" in after.environment.identity
        judgement = judge_times(before.samples_us, after.samples_us, is_cpu=is_cpu)
    return WorkloadComparison(workload, before, after, _winner_change(before, right), judgement)


def _winner(candidates: Sequence[BestCandidate]) -> BestCandidate:
    return candidates[choose([each.samples_us for each in candidates])]


def _winner_change(before: BestCandidate, right: Sequence[BestCandidate]) -> str:
    """Say whether the old winner still wins, ties with the fastest now, or was overtaken."""
    after = _winner(right)
    point = (before.implementation, config_text(before.config))
    if (after.implementation, config_text(after.config)) == point:
        return "same"
    tied = [right[index] for index in tie_set([each.samples_us for each in right])]
    still = any((each.implementation, config_text(each.config)) == point for each in tied)
    return "tied" if still else "changed"


def _environment_differences(
    left: Mapping[Workload, Sequence[BestCandidate]],
    right: Mapping[Workload, Sequence[BestCandidate]],
) -> list[FieldDifference]:
    found: dict[tuple[bool, str, str, str], FieldDifference] = {}
    for before in _environments(left):
        for after in _environments(right):
            for each in differences(before, after):
                found.setdefault((not each.is_identity, each.name, each.left, each.right), each)
    return [found[key] for key in sorted(found)]


def _environments(groups: Mapping[Workload, Sequence[BestCandidate]]) -> list[Environment]:
    every = (each.environment for group in groups.values() for each in group)
    return list({each.key: each for each in every}.values())


def _protocol_differences(
    left: Mapping[Workload, Sequence[BestCandidate]],
    right: Mapping[Workload, Sequence[BestCandidate]],
) -> list[str]:
    pairs = {
        (before.protocol, after.protocol)
        for workload, group in left.items()
        for before in group[:1]
        for after in right.get(workload, ())[:1]
    }
    changes = (each for before, after in pairs for each in protocol_changes(before, after))
    return sorted(set(changes))


def _source_differences(left: Iterable[BestCandidate], right: Iterable[BestCandidate]) -> list[str]:
    before, after = _hashes(left), _hashes(right)
    return [
        f"{name}: {_short(before[name])} -> {_short(after[name])}"
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]


def _hashes(candidates: Iterable[BestCandidate]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in candidates:
        found.setdefault(each.implementation, set()).add(each.source_hash)
    return found


def _short(hashes: set[str]) -> str:
    return ", ".join(each[:12] for each in sorted(hashes))


def _change(each: WorkloadComparison) -> str:
    return each.judgement.verdict.replace("_", " ")


def _row(each: WorkloadComparison) -> dict[str, Plain]:
    left, right, judgement = each.left, each.right, each.judgement
    return {
        "shape": each.workload.shape_text,
        "dtype": each.workload.dtype,
        "winner_a": left.implementation if left else None,
        "config_a": dict(left.config) if left else None,
        "median_a_us": left.median_us if left else None,
        "winner_b": right.implementation if right else None,
        "config_b": dict(right.config) if right else None,
        "median_b_us": right.median_us if right else None,
        "ratio": judgement.ratio,
        "ratio_low": judgement.low,
        "ratio_high": judgement.high,
        "threshold": judgement.threshold,
        "change": _change(each),
        "winner": each.winner,
        "trial_a": left.trial_id if left else None,
        "trial_b": right.trial_id if right else None,
        "reasons": "; ".join(judgement.reasons) or None,
    }
