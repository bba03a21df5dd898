"""Comparing two studies, environments or sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.unconfirmed import no_confirmed_trial
from tuner.domain.outcome import Outcome
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.comparison import compare_sides
from tuner.report.comparison import Comparison
from tuner.report.comparison import Side
from tuner.settings import load_settings
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.store.views import StudySummary
    from tuner.store.views import TrialSummary

MIN_PREFIX_DIGITS = 4


def compare(left: str, right: str, *, settings: Settings | None = None) -> Comparison:
    """Set two sides side by side.

    Args:
        left: Name or id of a study, ``env:KEYPREFIX`` or ``source:HASHPREFIX``.
        right: Likewise.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: There is no such study, environment or source.
        UsageError: A side holds no confirmed trial, or a prefix is not one.
        DatabaseProblem: The database can't be used.
    """
    settings = settings or load_settings()
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return compare_sides(_side(session, left), _side(session, right))


def _side(session: Session, name: str) -> Side:
    from tuner.store import queries

    kind, colon, rest = name.partition(":")
    if colon and kind == "env":
        prefix = _prefix(name, rest)
        studies = [
            each
            for each in queries.list_studies(session)
            if each.environment_key.startswith(prefix)
        ]
        _only_one({each.environment_key for each in studies}, name)
        return _filled(session, name, f"environment {studies[0].environment_key[:12]}", studies)
    if colon and kind == "source":
        studies = queries.list_studies(session)
        return _filled(session, name, name, studies, source_prefix=_prefix(name, rest))
    study = queries.find_study(session, rest if colon and kind == "study" else name)
    label = f"study {study.name} (id {study.id}, {study.created_at:%Y-%m-%d %H:%M} UTC)"
    return _filled(session, name, label, [study])


def _prefix(name: str, text: str) -> str:
    digits = text.lower()
    if len(digits) < MIN_PREFIX_DIGITS or not set(digits) <= set("0123456789abcdef"):
        raise UsageError(
            f"{name[:80]!r}: give at least {MIN_PREFIX_DIGITS} hexadecimal digits",
            hint=f"{Way.SHOW_TRIAL} has the source's hash, {Way.EXPORT_TRIALS} both keys",
        )
    return digits


def _only_one(keys: set[str], name: str) -> None:
    if not keys:
        raise NotFound(f"nothing was measured in {name!r}", hint=f"see {Way.EXPORT_TRIALS}")
    if len(keys) > 1:
        listed = ", ".join(each[:12] for each in sorted(keys))
        raise UsageError(f"{name!r} is short of {listed}", hint="give more digits")


def _filled(
    session: Session,
    name: str,
    label: str,
    studies: Sequence[StudySummary],
    source_prefix: str = "",
) -> Side:
    """Return a side with the confirmed trials of its studies.

    Of a trial that took over another's verdict, that other one counts.
    """
    from tuner.store import queries

    trials: list[TrialSummary] = [
        trial
        for study in studies
        for trial in queries.list_trials(session, study.id, outcome=Outcome.OK)
        if trial.source_hash.startswith(source_prefix)
    ]
    if not trials and source_prefix:
        raise NotFound(f"nothing was measured from {name!r}", hint=f"see {Way.EXPORT_TRIALS}")
    wanted = {each.id for each in trials} | {each.reused_from_id for each in trials}
    workloads: dict[Workload, None] = dict.fromkeys(each.workload for each in trials)
    candidates = [
        each
        for workload in workloads
        for each in queries.best_candidates(session, workload, with_samples=True, with_reruns=True)
        if each.trial_id in wanted and each.samples_us and all(each.samples_us)
    ]
    if not candidates:
        raise no_confirmed_trial(repr(name), studies)
    _only_one({each.source_hash for each in candidates} if source_prefix else {""}, name)
    return Side(name, label, tuple(candidates))
