"""Lists in pages, by key: a page costs the same wherever it is in the list.

Each function returns plain rows with ids beyond one that was seen, in one or two statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy import func
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import aliased
from sqlalchemy.orm import Session

from tuner.domain.evidence import StoredReproduction
from tuner.domain.identity import Plain
from tuner.domain.outcome import failed_count
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.store.leases import driven_studies
from tuner.store.left_behind import left_behind
from tuner.store.left_behind import LeftBehind
from tuner.store.left_behind import message_now
from tuner.store.left_behind import outcome_now
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.queries import outcome_counts
from tuner.store.reproductions import newest_reproductions
from tuner.store.reruns import is_no_rerun
from tuner.store.study_states import study_states

_T = TypeVar("_T")
_CHUNK_ROWS = 1000
_JSON_COLUMNS = frozenset({"scalars", "config", "warnings", "identity", "context"})

_TRIAL: dict[str, Any] = {
    "trial_id": TrialRow.id,
    "study_id": TrialRow.study_id,
    "operator": WorkloadRow.operator,
    "shape": WorkloadRow.shape,
    "dtype": WorkloadRow.dtype,
    "scalars": WorkloadRow.scalars,
    "implementation": ImplementationRow.name,
    "language": ImplementationRow.language,
    "config": TrialRow.config,
    "attempt": TrialRow.attempt,
    "outcome": TrialRow.outcome,
    "stage": TrialRow.stage,
    "message": TrialRow.message,
    "confirmed": TrialRow.confirmed,
    "median_us": TrialRow.median_us,
    "low_us": TrialRow.low_us,
    "high_us": TrialRow.high_us,
    "quick_median_us": TrialRow.quick_median_us,
    "bandwidth_gb_s": TrialRow.bandwidth_gb_s,
    "max_abs_error": TrialRow.max_abs_error,
    "max_rel_error": TrialRow.max_rel_error,
    "warnings": TrialRow.warnings,
    "source_hash": TrialRow.source_hash,
    "reused_from": TrialRow.reused_from_id,
    "device_id": StudyRow.device_id,
    "started_at": TrialRow.started_at,
    "finished_at": TrialRow.finished_at,
}
_STUDY: dict[str, Any] = {
    "study_id": StudyRow.id,
    "study": StudyRow.name,
    "operator": StudyRow.operator,
    "device_id": StudyRow.device_id,
    "architecture": EnvironmentRow.architecture,
    "environment_key": EnvironmentRow.key,
    "state": StudyRow.state,
    "planned": StudyRow.planned,
    "created_at": StudyRow.created_at,
    "finished_at": StudyRow.finished_at,
}
TRIAL_COLUMNS = tuple(_TRIAL)


@dataclass(frozen=True, slots=True)
class TrialFilter:
    """Which trials of a study are listed; None lets all through.

    Attributes:
        outcome: How they ended; ``running`` for those that have not.
        implementation: By this one.
        shape: As users write it, e.g. ``1024x4096``.
        confirmed: By fresh processes, or not.
    """

    outcome: str | None = None
    implementation: str | None = None
    shape: str | None = None
    confirmed: bool | None = None


def trial_rows(
    session: Session, study_id: int, wanted: TrialFilter, *, after: int = 0, limit: int | None
) -> Iterator[dict[str, Plain]]:
    """Yield a study's trials in the order they were started, beyond the one with id ``after``."""
    gone = left_behind(session, [study_id])
    query = (
        _select({**_TRIAL, "outcome": outcome_now(gone), "message": message_now(gone)})
        .select_from(TrialRow)
        .join(StudyRow, StudyRow.id == TrialRow.study_id)
        .join(WorkloadRow, WorkloadRow.id == TrialRow.workload_id)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .where(TrialRow.study_id == study_id, TrialRow.id > after, *_conditions(wanted, gone))
        .order_by(TrialRow.id)
        .limit(limit)
        .execution_options(yield_per=_CHUNK_ROWS)
    )
    for row in session.execute(query).mappings():
        yield {**_plain(row), "outcome": row["outcome"] or RUNNING}


def has_implementation(session: Session, study_id: int, name: str) -> bool:
    """Tell whether a study has a trial of an implementation."""
    found = _of_study(select(TrialRow.id), study_id).where(ImplementationRow.name == name)
    return session.scalar(found.limit(1)) is not None


def implementation_names(session: Session, study_id: int) -> list[str]:
    """Return the implementations of which a study has trials."""
    return list(session.scalars(_of_study(select(ImplementationRow.name), study_id).distinct()))


def shape_names(session: Session, study_id: int) -> list[str]:
    """Return the shapes of which a study has trials, in the order in which they got their first."""
    query = (
        select(WorkloadRow.shape)
        .join(TrialRow, TrialRow.workload_id == WorkloadRow.id)
        .where(TrialRow.study_id == study_id)
        .group_by(WorkloadRow.shape)
        .order_by(func.min(TrialRow.id))
    )
    return list(session.scalars(query))


def study_rows(
    session: Session, *, before: int | None = None, limit: int | None, with_reruns: bool = True
) -> list[dict[str, Plain]]:
    """Return studies, newest first, from below the id ``before``, with state and counts.

    Args:
        session: Of the store.
        before: Only from below this id.
        limit: At most so many.
        with_reruns: Those of records run again too, which ask no question of their own.
    """
    query = (
        _select(_STUDY)
        .select_from(StudyRow)
        .join(EnvironmentRow, EnvironmentRow.id == StudyRow.environment_id)
        .order_by(StudyRow.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(StudyRow.id < before)
    if not with_reruns:
        query = query.where(is_no_rerun(StudyRow.id))
    found = [_plain(row) for row in session.execute(query).mappings()]
    ids = [row["study_id"] for row in found]
    counts = outcome_counts(session, ids)
    driven = driven_studies(session.connection(), ids)
    states = study_states(session, ids)
    return [
        {
            **row,
            "state": states[row["study_id"]].value,
            **_tally(counts.get(row["study_id"], {})),
            "is_driven": row["study_id"] in driven,
        }
        for row in found
    ]


def reproduction_rows(
    session: Session, *, before: int | None = None, limit: int | None
) -> list[dict[str, Plain]]:
    """Return reruns of records, newest first, from below the id ``before``."""
    found = newest_reproductions(session, before=before, limit=limit)
    return [_reproduction_row(each) for each in found]


def environment_rows(
    session: Session, *, before: int | None = None, limit: int | None
) -> list[dict[str, Plain]]:
    """Return environments, newest first, from below the id ``before``, with their studies.

    Those of equal identity are one; its context is the newest, such as the load of some moment.
    """
    alike = aliased(EnvironmentRow)
    studies = (
        select(func.count())
        .select_from(StudyRow)
        .join(alike, alike.id == StudyRow.environment_id)
        .where(alike.key == EnvironmentRow.key)
        .correlate(EnvironmentRow)
        .scalar_subquery()
    )
    newest = select(func.max(alike.id)).group_by(alike.key)
    columns = {
        "environment_id": EnvironmentRow.id,
        "environment_key": EnvironmentRow.key,
        "fingerprint": EnvironmentRow.fingerprint,
        "architecture": EnvironmentRow.architecture,
        "studies": studies,
        "identity": EnvironmentRow.identity,
        "context": EnvironmentRow.context,
    }
    query = _select(columns).where(EnvironmentRow.id.in_(newest))
    query = query.order_by(EnvironmentRow.id.desc()).limit(limit)
    if before is not None:
        query = query.where(EnvironmentRow.id < before)
    return [_plain(row) for row in session.execute(query).mappings()]


def _of_study(query: Select[_T], study_id: int) -> Select[_T]:
    """Let a query choose among a study's trials, with their implementations."""
    return (
        query.select_from(TrialRow)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .where(TrialRow.study_id == study_id)
    )


def _reproduction_row(stored: StoredReproduction) -> dict[str, Plain]:
    found = stored.reproduction
    return {
        "reproduction_id": stored.id,
        "original_kind": found.original_kind,
        "original_id": found.original_id,
        "verdict": found.verdict,
        "ratio": found.ratio,
        "ratio_low": found.ratio_low,
        "ratio_high": found.ratio_high,
        "threshold": found.threshold,
        "rerun_study_id": found.rerun_study_id,
        "rerun_trial_id": found.rerun_trial_id,
        "again_study_id": stored.again_study_id,
        "again_trial_id": stored.again_trial_id,
        "differences": list(found.differences),
        "created_at": stored.created_at.isoformat(timespec="microseconds"),
    }


def _conditions(wanted: TrialFilter, gone: LeftBehind) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.outcome is not None:
        value = None if wanted.outcome == RUNNING else wanted.outcome
        found.append(outcome_now(gone) == value)
    if wanted.implementation is not None:
        found.append(ImplementationRow.name == wanted.implementation)
    if wanted.shape is not None:
        found.append(WorkloadRow.shape == wanted.shape)
    if wanted.confirmed is not None:
        found.append(TrialRow.confirmed.is_(wanted.confirmed))
    return found


def _tally(counts: dict[str, int]) -> dict[str, Plain]:
    apart = (Outcome.SKIPPED.value, Outcome.INTERRUPTED.value, RUNNING)
    return {
        "trials": sum(counts.values()),
        "ok": counts.get(Outcome.OK.value, 0),
        "failed": failed_count(counts),
        **{name: counts.get(name, 0) for name in apart},
    }


def _select(columns: dict[str, Any]) -> Select[*tuple[Any, ...]]:
    return select(*(column.label(name) for name, column in columns.items()))


def _plain(row: RowMapping) -> dict[str, Plain]:
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: Any) -> Plain:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if name in _JSON_COLUMNS and isinstance(value, str):
        return json.loads(value)
    return value
