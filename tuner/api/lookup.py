"""Looking up a config with all that makes it believable: interval, ties, chain, and others."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.api.answer import open_answer
from tuner.api.known_devices import DeviceFinder
from tuner.api.known_devices import find_here
from tuner.api.plain import plain
from tuner.api.question import asked
from tuner.api.reading import trial_as_plain
from tuner.domain.identity import Plain
from tuner.domain.stats import median_interval
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.domain.study import BestCandidate
    from tuner.report.best import Match


@dataclass(frozen=True, slots=True)
class Launch:
    """What it takes to build and launch a config.

    Attributes:
        trial_id: Where it was measured.
        implementation: Name.
        language: ``hip`` or ``triton``.
        config: The config.
        median_us: Its time.
        entry: Name of the kernel function.
        options: What its compiler was given.
        geometry: Grid, threads a block and shared bytes; None where it was not recorded.
    """

    trial_id: int
    implementation: str
    language: str
    config: Mapping[str, Plain]
    median_us: float
    entry: str
    options: Sequence[str]
    geometry: Mapping[str, Plain] | None


@dataclass(frozen=True, slots=True)
class Lookup:
    """An answer, and what it rests on.

    Attributes:
        answer: As ``tuner best --format json`` has it.
        interval_us: 95 % interval of the median over all samples of the best.
        slower: Time of the next one over the best's, with its 95 % interval; None without one.
        trial: The best's whole chain, as ``tuner show --format json`` has it.
        launches: The fastest config of each language among those that the best was chosen from:
            of its environment, source and protocol. The best first.
    """

    answer: Mapping[str, Plain]
    interval_us: tuple[float, float]
    slower: tuple[float, float, float] | None
    trial: Mapping[str, Plain]
    launches: tuple[Launch, ...]


def look_up(
    operator: str,
    shape: str,
    settings: Settings,
    *,
    dtype: str = "float32",
    scalars: Mapping[str, float] | None = None,
    row_padding: int = 0,
    device: str | None = None,
    architecture: str | None = None,
    implementation: str | None = None,
    match: Match | None = None,
    find_device: DeviceFinder = find_here,
) -> Lookup:
    """Return the best stored config for a workload, as ``best`` does, with what it rests on.

    Raises:
        NotFound: Nothing matches; the message says what differs.
        UsageError: What was asked for is no workload of the operator.
        DeviceUnavailable: The device can't be used.
        DatabaseProblem: The database can't be used.
    """
    wanted = asked(
        operator,
        shape,
        settings,
        dtype=dtype,
        scalars=scalars,
        row_padding=row_padding,
        device=device,
        architecture=architecture,
        implementation=implementation,
        match=match,
    )
    with open_answer(wanted, find_device, settings) as (session, answer):
        samples_us = [each for process in answer.best.samples_us for each in process]
        return Lookup(
            answer=answer.as_plain(),
            interval_us=median_interval(samples_us),
            slower=answer.slower(),
            trial=trial_as_plain(session, answer.best.trial_id),
            launches=tuple(_launch(session, each) for each in answer.by_language),
        )


def _launch(session: Session, candidate: BestCandidate) -> Launch:
    from tuner.store import queries

    detail = queries.trial_detail(session, candidate.trial_id)
    return Launch(
        trial_id=candidate.trial_id,
        implementation=candidate.implementation,
        language=candidate.language,
        config=dict(candidate.config),
        median_us=candidate.median_us,
        entry=detail.source.entry,
        options=() if detail.build is None else tuple(detail.build.options),
        geometry=None if detail.geometry is None else plain(detail.geometry),
    )
