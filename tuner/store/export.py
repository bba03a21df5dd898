"""Streams trials, samples and best configs as flat rows: units in the names, a fixed order.

Rows are read in chunks from one snapshot, so that an export of 10^6 trials needs little memory
and does not see what a running study adds meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import and_
from sqlalchemy import ColumnElement
from sqlalchemy import func
from sqlalchemy import or_
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import true
from sqlalchemy.orm import Session

from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.row_stream import RowStream
from tuner.store.controls import run_drifts
from tuner.store.left_behind import left_behind
from tuner.store.left_behind import message_now
from tuner.store.left_behind import outcome_now
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SampleRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.reruns import is_no_rerun
from tuner.store.streams import stream
from tuner.store.times import iso_time

_DRIFTS = run_drifts()

_POINT: dict[str, Any] = {
    "study_id": TrialRow.study_id,
    "study": StudyRow.name,
    "operator": WorkloadRow.operator,
    "implementation": ImplementationRow.name,
    "language": ImplementationRow.language,
    "shape": WorkloadRow.shape,
    "dtype": WorkloadRow.dtype,
    "scalars": WorkloadRow.scalars,
    "config": TrialRow.config,
}
_TRIAL: dict[str, Any] = {
    "trial_id": TrialRow.id,
    **_POINT,
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
    "build_s": TrialRow.build_s,
    "validate_s": TrialRow.validate_s,
    "measure_s": TrialRow.measure_s,
    "registers": TrialRow.registers,
    "spills": TrialRow.spills,
    "spill_bytes": TrialRow.spill_bytes,
    "shared_bytes": TrialRow.shared_bytes,
    "code_bytes": TrialRow.code_bytes,
    "max_abs_error": TrialRow.max_abs_error,
    "max_rel_error": TrialRow.max_rel_error,
    "warnings": TrialRow.warnings,
    "source_hash": TrialRow.source_hash,
    "binary_hash": TrialRow.binary_hash,
    "environment_key": EnvironmentRow.key,
    "device_id": StudyRow.device_id,
    "architecture": EnvironmentRow.architecture,
    "protocol_key": ProtocolRow.key,
    "reused_from": TrialRow.reused_from_id,
    "started_at": iso_time(TrialRow.started_at),
    "finished_at": iso_time(TrialRow.finished_at),
    "strides": WorkloadRow.strides,
    "sentinel_drift": _DRIFTS.c.drift,
}
_SAMPLE: dict[str, Any] = {
    "trial_id": TrialRow.id,
    **_POINT,
    "stage": ProcessRow.stage,
    "process": ProcessRow.position,
    "sample": SampleRow.position,
    "time_us": SampleRow.time_us,
    "strides": WorkloadRow.strides,
}
# One row for each of these: figures of different ones are not compared.
_BEST_OF = (
    *("operator", "shape", "strides", "dtype", "scalars"),
    *("device_id", "environment_key", "protocol_key"),
)

TRIAL_COLUMNS = tuple(_TRIAL)
SAMPLE_COLUMNS = tuple(_SAMPLE)
BEST_COLUMNS = TRIAL_COLUMNS


def iter_trials(session: Session, *, study_id: int | None = None) -> RowStream:
    """Yield all trials, or a study's, in the order they were started."""
    gone = left_behind(session, None if study_id is None else [study_id])
    columns = {**_TRIAL, "outcome": outcome_now(gone), "message": message_now(gone)}
    query = _trials(columns, study_id).order_by(TrialRow.id)
    return stream(session, query)


def iter_samples(session: Session, *, study_id: int | None = None) -> RowStream:
    """Yield every raw sample with its trial, by process, in the order taken."""
    query = (
        _trials(_SAMPLE, study_id)
        .join(ProcessRow, ProcessRow.trial_id == TrialRow.id)
        .join(SampleRow, SampleRow.process_id == ProcessRow.id)
        .order_by(TrialRow.id, ProcessRow.id, SampleRow.position)
    )
    return stream(session, query)


def iter_best(session: Session, *, study_id: int | None = None) -> Iterator[dict[str, Plain]]:
    """Yield the fastest confirmed trial of each workload, device, environment and protocol.

    Equal medians are ordered as by ``best_candidates``.
    """
    groups: list[ColumnElement[Any]] = [_TRIAL[name] for name in _BEST_OF]
    query = (
        _trials(_TRIAL, study_id)
        .where(TrialRow.confirmed == true(), TrialRow.outcome == Outcome.OK.value, is_no_rerun())
        .order_by(
            *groups,
            *(TrialRow.median_us, ImplementationRow.name, TrialRow.config, TrialRow.id),
        )
    )
    by_group = groupby(
        stream(session, query), key=lambda row: tuple(row[name] for name in _BEST_OF)
    )
    return (next(group) for _, group in by_group)


def _trials(columns: dict[str, Any], study_id: int | None) -> Select[*tuple[Any, ...]]:
    query: Select[*tuple[Any, ...]] = (
        select(*(column.label(name) for name, column in columns.items()))
        .select_from(TrialRow)
        .join(StudyRow, StudyRow.id == TrialRow.study_id)
        .join(WorkloadRow, WorkloadRow.id == TrialRow.workload_id)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .join(EnvironmentRow, EnvironmentRow.id == TrialRow.environment_id)
        .join(ProtocolRow, ProtocolRow.id == TrialRow.protocol_id)
    )
    if "sentinel_drift" in columns:
        query = query.outerjoin(_DRIFTS, _measured_last_in_run())
    return query if study_id is None else query.where(TrialRow.study_id == study_id)


def _measured_last_in_run() -> ColumnElement[bool]:
    """Return the condition that a trial's last process was measured in a run.

    Where times of the trial and the run decide, its processes are not looked at.
    """
    measured_at = (
        select(func.max(ProcessRow.recorded_at))
        .where(ProcessRow.trial_id == TrialRow.id)
        .scalar_subquery()
    )
    return and_(
        _DRIFTS.c.study_id == TrialRow.study_id,
        _DRIFTS.c.workload_id == TrialRow.workload_id,
        TrialRow.quick_median_us.is_not(None),
        or_(TrialRow.reused_from_id.is_(None), measured_at.is_not(None)),
        or_(TrialRow.started_at >= _DRIFTS.c.begins_at, measured_at >= _DRIFTS.c.begins_at),
        or_(_DRIFTS.c.ends_at.is_(None), measured_at < _DRIFTS.c.ends_at),
    )
