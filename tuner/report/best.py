"""Answers "which configuration is best for this shape" from confirmed trials, and how surely.

Trials are matched on identity: environment, source and protocol. Anything less than exact is
given only when asked for, and says what differs.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import Literal
from typing import TypeAlias

from tuner.domain.environment import differences
from tuner.domain.environment import Environment
from tuner.domain.environment import FieldDifference
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.domain.stats import choose
from tuner.domain.stats import may_tie
from tuner.domain.stats import median
from tuner.domain.stats import ratio_interval
from tuner.domain.stats import tie_set
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.ways import Way

Match: TypeAlias = Literal["exact", "same-arch", "nearest-shape"]
# Gives the samples of trials, by process, for the ids of their rows.
ReadSamples: TypeAlias = Callable[[Sequence[int]], Mapping[int, tuple[tuple[float, ...], ...]]]
SCHEMA = "tuner.best/1"


@dataclass(frozen=True, slots=True)
class BestAnswer:
    """The best config for a workload, and how sure that is.

    Attributes:
        match: ``exact``, or in which way it is less.
        asked: The workload asked for. The answer's own is ``best.workload``.
        best: The config to use: of those tied with the fastest, the simplest.
        ties: The others that can't be told apart from the fastest.
        runner_up: The fastest that is truly slower, or None.
        by_language: The fastest config of each language among those it was chosen from; the
            best is its own language's.
        differences: Identity fields in which its environment differs from the one asked for.
        notes: What else the reader must know, one line each.
    """

    match: Match
    asked: Workload
    best: BestCandidate
    ties: tuple[BestCandidate, ...]
    runner_up: BestCandidate | None
    by_language: tuple[BestCandidate, ...] = ()
    differences: tuple[FieldDifference, ...] = ()
    notes: tuple[str, ...] = ()

    def slower(self) -> tuple[float, float, float] | None:
        """Return the runner-up's time over the best's, with the ends of its 95 % interval.

        Both need their samples. Finite: what has one single sample ties with everything, and is
        no runner-up.
        """
        second = self.runner_up
        if second is None:
            return None
        low, high = ratio_interval(self.best.samples_us, second.samples_us)
        return second.median_us / self.best.median_us, low, high

    def as_plain(self) -> dict[str, Plain]:
        """Return the answer as the JSON of ``tuner best --format json`` has it."""
        return {
            "schema": SCHEMA,
            "match": self.match,
            "asked": self.asked.as_plain(),
            "best": candidate_plain(self.best),
            "ties": [candidate_plain(each) for each in self.ties],
            "runner_up": None if self.runner_up is None else candidate_plain(self.runner_up),
            "differences": [
                {
                    "field": each.name,
                    "wanted": each.left,
                    "answer": each.right,
                    "identity": each.is_identity,
                }
                for each in self.differences
            ],
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from tuner.report.notebook import answer_html

        return answer_html(self)


def candidate_plain(candidate: BestCandidate) -> dict[str, Plain]:
    """Return a candidate for JSON, units in the names."""
    return {
        "trial_id": candidate.trial_id,
        "study_id": candidate.study_id,
        "study": candidate.study_name,
        "workload": candidate.workload.as_plain(),
        "implementation": candidate.implementation,
        "language": candidate.language,
        "config": dict(candidate.config),
        "median_us": candidate.median_us,
        "low_us": min(candidate.process_medians_us),
        "high_us": max(candidate.process_medians_us),
        "process_medians_us": list(candidate.process_medians_us),
        "bandwidth_gb_s": candidate.bandwidth_gb_s,
        "max_abs_error": candidate.max_abs_error,
        "warnings": list(candidate.warnings),
        "source_hash": candidate.source_hash,
        "environment_key": candidate.environment.key,
        "environment": dict(candidate.environment.identity),
        "protocol": candidate.protocol.as_plain(),
        "finished_at": candidate.finished_at.isoformat(),
    }


def answer_exact(
    candidates: Sequence[BestCandidate],
    asked: Workload,
    environment: Environment,
    source_hashes: Mapping[str, str],
    *,
    match: Match = "exact",
    notes: Sequence[str] = (),
    read_samples: ReadSamples | None = None,
) -> BestAnswer:
    """Answer from the candidates of equal environment, today's source, and one protocol.

    Args:
        candidates: Confirmed trials of one workload, with samples unless they can be read.
        asked: The workload asked for.
        environment: Machine and toolchain asked for.
        source_hashes: Today's source hash of each implementation.
        match: Given on as the answer's.
        notes: Given on, before those found here.
        read_samples: Asked for the samples of those that may tie, where there are several.

    Raises:
        NotFound: None matches; the message names what differs in the nearest one.
    """
    if not candidates:
        raise NotFound(
            f"{asked.operator} {asked.shape_text} {asked.dtype} was never tuned",
            hint=f"run a study with this shape, or {Way.ASK_NEAREST_SHAPE}",
        )
    exact = [
        each
        for each in candidates
        if each.environment.identity == environment.identity
        and source_is_current(each, source_hashes)
    ]
    if not exact:
        raise NotFound(
            f"{asked.operator} {asked.shape_text} {asked.dtype} was tuned, but not for this "
            "environment and source: "
            + _nearest_difference(candidates, environment, source_hashes),
            hint=f"run the study on this device, or {Way.ASK_SAME_ARCHITECTURE}",
        )
    return _answer(exact, asked, environment, match, notes, read_samples)


def answer_same_architecture(
    candidates: Sequence[BestCandidate],
    asked: Workload,
    architecture: str,
    environment: Environment | None,
    source_hashes: Mapping[str, str],
    *,
    read_samples: ReadSamples | None = None,
) -> BestAnswer:
    """Answer from any environment and source of the architecture, and say what differs.

    Arguments are those of ``answer_exact``.

    Raises:
        NotFound: The workload was never tuned on this architecture.
    """
    same = [
        each for each in candidates if each.environment.identity.get("architecture") == architecture
    ]
    if not same:
        raise NotFound(
            f"{asked.operator} {asked.shape_text} {asked.dtype} was never tuned on {architecture}",
            hint="run a study with this shape on such a device",
        )
    # Times of different environments are never compared: take the newest environment's alone.
    newest = max(same, key=lambda each: (each.finished_at, each.trial_id))
    group = [
        each
        for each in same
        if each.environment.identity == newest.environment.identity
        and source_is_current(each, source_hashes) == source_is_current(newest, source_hashes)
    ]
    notes = [] if source_is_current(newest, source_hashes) else ["tuned for older source"]
    return _answer(group, asked, environment, "same-arch", notes, read_samples)


def nearest_shape(
    shapes: Sequence[tuple[int, ...]], asked: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the tuned shape nearest to the asked one: least sum of squared log ratios.

    The last dimension counts four-fold: for row-wise kernels it decides which config wins.
    """
    from math import log2

    def distance(shape: tuple[int, ...]) -> float:
        ratios = [log2(a / b) ** 2 for a, b in zip(shape, asked, strict=True)]
        return sum(ratios[:-1]) + 4.0 * ratios[-1]

    same_rank = [shape for shape in shapes if len(shape) == len(asked)]
    return min(same_rank, key=lambda shape: (distance(shape), shape), default=None)


def _answer(
    candidates: Sequence[BestCandidate],
    asked: Workload,
    environment: Environment | None,
    match: Match,
    notes: Sequence[str],
    read_samples: ReadSamples | None,
) -> BestAnswer:
    group, more_notes = _one_protocol(candidates)
    ordered = sorted(group, key=_simplicity)
    near = _with_samples(_contenders(ordered), read_samples)
    best, tied = _judged(near)
    tied_ids = {each.trial_id for each in tied}
    with_samples = {each.trial_id: each for each in near}
    slower = [
        with_samples.get(each.trial_id, each) for each in ordered if each.trial_id not in tied_ids
    ]
    differing = differences(environment, best.environment) if environment is not None else []
    identity = [each for each in differing if each.is_identity]
    unread = [each.name for each in identity if each.left == each.right]
    if unread:
        more_notes.append(f"could not be read, so not known to be equal: {', '.join(unread)}")
    return BestAnswer(
        match=match,
        asked=asked,
        best=best,
        ties=tuple(sorted((each for each in tied if each is not best), key=_speed)),
        runner_up=min(slower, key=_speed, default=None),
        by_language=_by_language(best, group),
        differences=tuple(each for each in identity if each.left != each.right),
        notes=(*notes, *more_notes),
    )


def _speed(candidate: BestCandidate) -> tuple[float, int]:
    return candidate.median_us, candidate.trial_id


def _by_language(best: BestCandidate, group: Sequence[BestCandidate]) -> tuple[BestCandidate, ...]:
    """Return the fastest of each language, the best of all first."""
    found = {best.language: best}
    for each in sorted(group, key=_speed):
        found.setdefault(each.language, each)
    return tuple(found.values())


def _contenders(ordered: Sequence[BestCandidate]) -> list[BestCandidate]:
    """Return the fastest, and those whose process medians allow that they tie with it."""
    fastest = min(ordered, key=lambda each: median(each.process_medians_us))
    return [
        each
        for each in ordered
        if each is fastest or may_tie(fastest.process_medians_us, each.process_medians_us)
    ]


def _with_samples(
    contenders: list[BestCandidate], read_samples: ReadSamples | None
) -> list[BestCandidate]:
    """Return them with their samples, unless one alone is left: it is the best without."""
    if read_samples is None or len(contenders) == 1:
        return contenders
    samples = read_samples([each.trial_id for each in contenders])
    return [replace(each, samples_us=samples.get(each.trial_id, ())) for each in contenders]


def _judged(
    contenders: Sequence[BestCandidate],
) -> tuple[BestCandidate, list[BestCandidate]]:
    """Return the one to use, and all that tie with the fastest."""
    if len(contenders) == 1:
        return contenders[0], [contenders[0]]
    samples = [each.samples_us for each in contenders]
    return contenders[choose(samples)], [contenders[index] for index in tie_set(samples)]


def _one_protocol(
    candidates: Sequence[BestCandidate],
) -> tuple[list[BestCandidate], list[str]]:
    """Keep the candidates of the protocol used last: figures of two are never compared.

    Of a trial measured more than once (``--fresh``) the newest counts.
    """
    newest = max(candidates, key=lambda each: (each.finished_at, each.trial_id))
    protocols = {each.protocol for each in candidates}
    latest: dict[tuple[str, str], BestCandidate] = {}
    for each in sorted(candidates, key=lambda each: (each.finished_at, each.trial_id)):
        if each.protocol == newest.protocol:
            latest[each.implementation, config_text(each.config)] = each
    notes = []
    if len(protocols) > 1:
        notes.append(f"also measured by {len(protocols) - 1} other protocol(s), not compared here")
    return list(latest.values()), notes


def _simplicity(candidate: BestCandidate) -> tuple[str, tuple[tuple[str, float, str], ...]]:
    """Order of preference among ties: implementation by name, then smaller parameter values."""
    values = []
    for name, value in sorted(candidate.config.items()):
        number = float(value) if isinstance(value, int | float) else 0.0
        values.append((name, number, str(value)))
    return candidate.implementation, tuple(values)


def source_is_current(candidate: BestCandidate, source_hashes: Mapping[str, str]) -> bool:
    """Tell whether a candidate was measured with today's source."""
    return candidate.source_hash == source_hashes.get(candidate.implementation)


def _nearest_difference(
    candidates: Sequence[BestCandidate],
    environment: Environment,
    source_hashes: Mapping[str, str],
) -> str:
    """Say in words what separates the nearest candidate from an exact match."""

    def found(candidate: BestCandidate) -> list[str]:
        names = [
            str(each)
            for each in differences(candidate.environment, environment)
            if each.is_identity
        ]
        if not source_is_current(candidate, source_hashes):
            names.append(f"tuned for older source of {candidate.implementation}")
        return names

    return "; ".join(min((found(each) for each in candidates), key=len)[:3])
