"""Questions to the database. Each takes a session and a fixed number of SQL statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy import func
from sqlalchemy import or_
from sqlalchemy import Row
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import true
from sqlalchemy.orm import aliased
from sqlalchemy.orm import defer
from sqlalchemy.orm import Session

from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.domain.outcome import Stage
from tuner.domain.queue import StudyState
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.store import rows
from tuner.store.best import best_candidates
from tuner.store.best import process_samples
from tuner.store.detail import trial_parts
from tuner.store.export import BEST_COLUMNS
from tuner.store.export import iter_best
from tuner.store.export import iter_samples
from tuner.store.export import iter_trials
from tuner.store.export import SAMPLE_COLUMNS
from tuner.store.export import TRIAL_COLUMNS
from tuner.store.left_behind import left_behind
from tuner.store.left_behind import LeftBehind
from tuner.store.left_behind import outcome_now
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProtocolRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.problems import MAX_ID
from tuner.store.reruns import is_no_rerun
from tuner.store.study_states import study_states
from tuner.store.views import StudySummary
from tuner.store.views import TrialDetail
from tuner.store.views import TrialSummary
from tuner.ways import Way

__all__ = [
    "BEST_COLUMNS",
    "SAMPLE_COLUMNS",
    "TRIAL_COLUMNS",
    "begun_since",
    "best_candidates",
    "counts_by_outcome",
    "find_study",
    "iter_best",
    "iter_samples",
    "iter_trials",
    "list_studies",
    "list_trials",
    "newest_confirmed_study",
    "outcome_counts",
    "process_samples",
    "trial_detail",
    "trial_logs",
    "tuned_shapes",
]


def list_studies(session: Session) -> list[StudySummary]:
    """Return all studies, oldest first."""
    return _studies(session, _study_query().order_by(StudyRow.id))


def find_study(session: Session, name_or_id: str | int) -> StudySummary:
    """Return the newest study of a name; a number that is no study's name is an id.

    Raises:
        NotFound: There is none.
    """
    text = str(name_or_id)
    found: list[StudySummary] = []
    if isinstance(name_or_id, str):
        query = _study_query().where(StudyRow.name == text)
        found = _studies(session, query.order_by(StudyRow.id.desc()).limit(1))
    if not found and text.isascii() and text.isdecimal() and int(text) <= MAX_ID:
        found = _studies(session, _study_query().where(StudyRow.id == int(text)))
    if not found:
        raise NotFound(f"no study {text[:100]!r}", hint=f"{Way.LIST_STUDIES} lists them")
    return found[0]


def begun_since(session: Session, study: StudySummary) -> int | None:
    """Return the study that was begun next under a study's name; None where none was."""
    is_like = (StudyRow.key == study.key) & (StudyRow.generation > study.generation)
    return session.scalar(
        select(func.min(StudyRow.id)).where(or_(StudyRow.previous_id == study.id, is_like))
    )


def counts_by_outcome(session: Session, study_id: int) -> dict[str, int]:
    """Return how many trials ended in each way, in the order of ``Outcome``, then ``running``."""
    return outcome_counts(session, [study_id]).get(study_id, {})


def outcome_counts(session: Session, study_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return ``counts_by_outcome`` of each of some studies that has trials."""
    query = (
        select(TrialRow.study_id, TrialRow.outcome, func.count())
        .where(TrialRow.study_id.in_(study_ids))
        .group_by(TrialRow.study_id, TrialRow.outcome)
    )
    found = session.execute(query).all()
    open_ones = {study_id for study_id, outcome, _ in found if outcome is None}
    gone = left_behind(session, sorted(open_ones)) if open_ones else {}
    counts: dict[int, dict[str, int]] = {}
    for study_id, outcome, count in found:
        of_study = counts.setdefault(study_id, {})
        name = outcome or (Outcome.INTERRUPTED.value if study_id in gone else RUNNING)
        of_study[name] = of_study.get(name, 0) + count
    order = [*(outcome.value for outcome in Outcome), RUNNING]
    return {
        study_id: {name: of_study[name] for name in order if name in of_study}
        for study_id, of_study in counts.items()
    }


def newest_confirmed_study(session: Session) -> StudySummary | None:
    """Return the newest study, but for reruns, that has a confirmed trial; None where none has."""
    has_one = select(TrialRow.id).where(TrialRow.study_id == StudyRow.id, _is_confirmed())
    query = _study_query().where(has_one.exists(), is_no_rerun(StudyRow.id))
    query = query.order_by(StudyRow.id.desc()).limit(1)
    return next(iter(_studies(session, query)), None)


def list_trials(
    session: Session,
    study_id: int,
    *,
    outcome: Outcome | str | None = None,
    confirmed_only: bool = False,
) -> list[TrialSummary]:
    """Return the trials of a study in the order they were started.

    Args:
        session: Of the store.
        study_id: Row of the study.
        outcome: Only those that ended this way; ``running`` for those that have not.
        confirmed_only: Only those measured by the full protocol, here or where taken over from.
    """
    gone = left_behind(session, [study_id])
    query = _trial_query().where(TrialRow.study_id == study_id).order_by(TrialRow.id)
    if outcome is not None:
        value = None if str(outcome) == RUNNING else str(outcome)
        query = query.where(outcome_now(gone) == value)
    if confirmed_only:
        query = query.where(_is_confirmed())
    return [_trial_summary(row, gone) for row in session.execute(query)]


def trial_detail(session: Session, trial_id: int) -> TrialDetail:
    """Return everything stored of a trial.

    Raises:
        NotFound: There is none.
    """
    row = None
    if 0 < trial_id <= MAX_ID:
        row = session.execute(_trial_query().where(TrialRow.id == trial_id)).first()
    if row is None:
        raise NotFound(f"no trial {trial_id}", hint=Way.FIND_TRIAL)
    gone = {} if row.TrialRow.outcome else left_behind(session, [row.TrialRow.study_id])
    return trial_parts(session, _trial_summary(row, gone), row.TrialRow)


def trial_logs(session: Session, trial_ids: Sequence[int]) -> dict[int, str]:
    """Return compiler output or stack trace of each of some trials."""
    query = select(TrialRow.id, TrialRow.log).where(TrialRow.id.in_(trial_ids))
    return {row.id: row.log for row in session.execute(query)}


def tuned_shapes(
    session: Session,
    workload: Workload,
    *,
    environment_key: str | None = None,
    implementation: str | None = None,
) -> list[tuple[int, ...]]:
    """Return the shapes with a confirmed trial, of workloads equal to this one but for the shape.

    Args:
        session: Of the store.
        workload: Gives operator, dtype, scalar arguments and row padding.
        environment_key: Only measured in this environment.
        implementation: Only measured with this one.
    """
    plain = rows.workload_values(workload)
    trial = select(TrialRow.id).where(
        TrialRow.workload_id == WorkloadRow.id,
        TrialRow.confirmed == true(),
        TrialRow.outcome == Outcome.OK.value,
        is_no_rerun(),
    )
    if environment_key is not None:
        trial = trial.join(EnvironmentRow, EnvironmentRow.id == TrialRow.environment_id).where(
            EnvironmentRow.key == environment_key
        )
    if implementation is not None:
        trial = trial.join(
            ImplementationRow, ImplementationRow.id == TrialRow.implementation_id
        ).where(ImplementationRow.name == implementation)
    query = select(WorkloadRow).where(
        WorkloadRow.operator == workload.operator,
        WorkloadRow.dtype == workload.dtype,
        WorkloadRow.scalars == plain["scalars"],
        trial.exists(),
    )
    found = (_workload(row) for row in session.scalars(query))
    return sorted(each.shape for each in found if each.row_padding == workload.row_padding)


def _is_confirmed() -> ColumnElement[bool]:
    """Return whether a trial, or the equal one that it took over, is confirmed."""
    origin = aliased(TrialRow)
    query = select(origin.id).where(origin.id == TrialRow.reused_from_id, origin.confirmed)
    return or_(TrialRow.confirmed, query.exists())


def _study_query() -> Select[*tuple[Any, ...]]:
    return (
        select(
            StudyRow,
            EnvironmentRow.architecture,
            EnvironmentRow.key.label("environment_key"),
            ProtocolRow.key.label("protocol_key"),
        )
        .join(EnvironmentRow, EnvironmentRow.id == StudyRow.environment_id)
        .join(ProtocolRow, ProtocolRow.id == StudyRow.protocol_id)
    )


def _studies(session: Session, query: Select[*tuple[Any, ...]]) -> list[StudySummary]:
    found = session.execute(query).all()
    ids = [row.StudyRow.id for row in found]
    counts, states = outcome_counts(session, ids), study_states(session, ids)
    return [
        _study_summary(row, counts.get(study_id, {}), states[study_id])
        for study_id, row in zip(ids, found, strict=True)
    ]


def _study_summary(row: Row[Any], counts: dict[str, int], state: StudyState) -> StudySummary:
    study: StudyRow = row.StudyRow
    return StudySummary(
        id=study.id,
        name=study.name,
        key=study.key,
        generation=study.generation,
        operator=study.operator,
        spec=json.loads(study.spec),
        device_id=study.device_id,
        architecture=row.architecture,
        environment_key=row.environment_key,
        protocol_key=row.protocol_key,
        sampler=study.sampler,
        sampler_seed=study.sampler_seed,
        planned=study.planned,
        state=state,
        counts=counts,
        previous_id=study.previous_id,
        created_at=study.created_at,
        finished_at=study.finished_at,
    )


def _trial_query() -> Select[*tuple[Any, ...]]:
    return (
        select(
            TrialRow,
            WorkloadRow,
            ImplementationRow.name.label("implementation"),
            ImplementationRow.language,
            StudyRow.name.label("study_name"),
        )
        .join(WorkloadRow, WorkloadRow.id == TrialRow.workload_id)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .join(StudyRow, StudyRow.id == TrialRow.study_id)
        .options(defer(TrialRow.log))  # up to 64 KiB a trial, which lists don't show
    )


def _workload(row: WorkloadRow) -> Workload:
    return rows.read_workload(row.operator, row.shape, row.strides, row.dtype, row.scalars)


def _trial_summary(row: Row[Any], gone: LeftBehind) -> TrialSummary:
    trial: TrialRow = row.TrialRow
    is_cut_off = trial.outcome is None and trial.study_id in gone
    outcome = Outcome.INTERRUPTED.value if is_cut_off else trial.outcome
    return TrialSummary(
        id=trial.id,
        study_id=trial.study_id,
        study_name=row.study_name,
        implementation=row.implementation,
        language=row.language,
        workload=_workload(row.WorkloadRow),
        config=rows.read_config(trial.config),
        attempt=trial.attempt,
        outcome=Outcome(outcome) if outcome else None,
        stage=Stage(trial.stage) if trial.stage else None,
        message=gone[trial.study_id] if is_cut_off else trial.message,
        quick_median_us=trial.quick_median_us,
        confirmed=trial.confirmed,
        median_us=trial.median_us,
        low_us=trial.low_us,
        high_us=trial.high_us,
        bandwidth_gb_s=trial.bandwidth_gb_s,
        max_abs_error=trial.max_abs_error,
        max_rel_error=trial.max_rel_error,
        warnings=rows.read_texts(trial.warnings),
        source_hash=trial.source_hash,
        reused_from_id=trial.reused_from_id,
        started_at=trial.started_at,
        finished_at=trial.finished_at,
    )
