"""What a study reads back to go on: its own trials, and equal ones of other studies."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import cache

from sqlalchemy import bindparam
from sqlalchemy import ColumnElement
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import aliased
from sqlalchemy.orm import Session

from tuner.domain.outcome import Outcome
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.reruns import is_no_rerun

# Never reused: not a verdict on the kernel (interrupted, skipped), or possibly the machine's
# fault (timeout, crash). A constraint that skips is not part of the hashed source.
NOT_REUSED = (Outcome.INTERRUPTED, Outcome.SKIPPED, Outcome.TIMEOUT, Outcome.CRASH)


def is_finished(session: Session, study_key: str) -> bool:
    """Tell whether everything planned by the newest study of a key is stored."""
    newest = select(StudyRow.state).where(StudyRow.key == study_key)
    state = session.scalar(newest.order_by(StudyRow.generation.desc()).limit(1))
    return state == "finished"


def stored_trials(
    session: Session, study_id: int, trial_ids: Sequence[int] | None = None
) -> list[StoredTrial]:
    """Return all or some trials of a study, in the order they were started.

    A trial that was reused from a confirmed one counts as confirmed, by the processes of that
    one, until it has processes of its own.
    """
    which = TrialRow.study_id == study_id
    return _stored(session, which if trial_ids is None else which & TrialRow.id.in_(trial_ids))


def stored_trial(session: Session, trial_id: int) -> StoredTrial:
    """Return one trial as ``stored_trials`` does."""
    (found,) = _stored(session, TrialRow.id == trial_id)
    return found


def _stored(session: Session, which: ColumnElement[bool]) -> list[StoredTrial]:
    own = _confirming(session, TrialRow.id == ProcessRow.trial_id, which)
    origins = _confirming(session, TrialRow.reused_from_id == ProcessRow.trial_id, which)
    origin = aliased(TrialRow)
    query = (
        select(
            TrialRow.id,
            TrialRow.config,
            TrialRow.attempt,
            TrialRow.outcome,
            TrialRow.quick_median_us,
            TrialRow.confirmed,
            origin.confirmed.label("origin_confirmed"),
            ImplementationRow.name,
            *(WorkloadRow.operator, WorkloadRow.shape, WorkloadRow.strides, WorkloadRow.dtype),
            WorkloadRow.scalars,
        )
        .join(WorkloadRow, WorkloadRow.id == TrialRow.workload_id)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .join(origin, origin.id == TrialRow.reused_from_id, isouter=True)
        .where(which)
        .order_by(TrialRow.id)
    )
    found = []
    read_workload = functools.cache(rows.read_workload)  # a study has few workloads, many trials
    for row in session.execute(query):
        workload = read_workload(row.operator, row.shape, row.strides, row.dtype, row.scalars)
        taken_over = bool(row.origin_confirmed) and row.id not in own
        processes = (origins if taken_over else own).get(row.id, [])
        found.append(
            StoredTrial(
                trial_id=row.id,
                point=TrialPoint(workload, row.name, rows.read_config(row.config)),
                attempt=row.attempt,
                outcome=Outcome(row.outcome) if row.outcome else None,
                quick_median_us=row.quick_median_us,
                confirmed=row.confirmed or taken_over,
                process_medians_us=tuple(median_us for _, median_us in processes),
                confirm_processes=tuple(position for position, _ in processes),
            )
        )
    return found


def _confirming(
    session: Session, link: ColumnElement[bool], which: ColumnElement[bool]
) -> dict[int, list[tuple[int, float]]]:
    """Return position and median of valid confirming processes, by trial they are linked to."""
    query = (
        select(TrialRow.id, ProcessRow.position, ProcessRow.median_us)
        .join(ProcessRow, link)
        .where(which, ProcessRow.stage == "confirm", ProcessRow.outcome == Outcome.OK.value)
        .order_by(TrialRow.id, ProcessRow.position)
    )
    found: dict[int, list[tuple[int, float]]] = {}
    for trial_id, position, median_us in session.execute(query):
        assert median_us is not None  # the database holds it for valid processes
        found.setdefault(trial_id, []).append((position, median_us))
    return found


def find_reusable(session: Session, definition: StudyDefinition, point: TrialPoint) -> int | None:
    """Return the newest finished trial of equal identity in any study, or None."""
    identity = {
        "workload_key": point.workload.key,
        "config_key": point.config_key,
        "operator": definition.operator,
        "implementation": point.implementation,
        "language": definition.languages[point.implementation],
        "source_hash": definition.sources[point.implementation].source_hash,
        "environment_key": definition.environment.key,
        "protocol_key": definition.protocol.key,
    }
    return session.scalar(_reusable_query(), identity)


@cache
def _reusable_query() -> Select[int]:
    """Return the statement of ``find_reusable``, built once: it runs before every trial."""
    return (
        select(TrialRow.id)
        .join(WorkloadRow, WorkloadRow.id == TrialRow.workload_id)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .join(EnvironmentRow, EnvironmentRow.id == TrialRow.environment_id)
        .join(ProtocolRow, ProtocolRow.id == TrialRow.protocol_id)
        .where(
            WorkloadRow.key == bindparam("workload_key"),
            TrialRow.config_key == bindparam("config_key"),
            ImplementationRow.operator == bindparam("operator"),
            ImplementationRow.name == bindparam("implementation"),
            ImplementationRow.language == bindparam("language"),
            TrialRow.source_hash == bindparam("source_hash"),
            EnvironmentRow.key == bindparam("environment_key"),
            ProtocolRow.key == bindparam("protocol_key"),
            TrialRow.outcome.is_not(None),
            TrialRow.outcome.not_in([outcome.value for outcome in NOT_REUSED]),
            TrialRow.reused_from_id.is_(None),
            TrialRow.origin == "measured",
            is_no_rerun(),
        )
        .order_by(TrialRow.id.desc())
        .limit(1)
    )
