"""Stores the controls of runs, and reads what they say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from datetime import UTC
from functools import cache
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam
from sqlalchemy import case
from sqlalchemy import ColumnElement
from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import Subquery
from sqlalchemy import tuple_
from sqlalchemy.orm import Session

from tuner.domain.controls import ControlKind
from tuner.domain.controls import ControlRound
from tuner.domain.controls import ControlSummary
from tuner.domain.controls import run_controls
from tuner.domain.controls import RunControls
from tuner.domain.identity import canonical_json
from tuner.domain.outcome import Outcome
from tuner.domain.records import TrialReport
from tuner.domain.stats import median
from tuner.domain.workload import Workload
from tuner.store import rows
from tuner.store.control_models import ControlRow
from tuner.store.models import ProcessRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.problems import checked_integer
from tuner.store.reports import sound_report
from tuner.store.rows import Values
from tuner.store.table import find_or_insert
from tuner.store.table import insert_rows
from tuner.store.table import table_of

_CONTROL = table_of(ControlRow)
_WORKLOAD = table_of(WorkloadRow)
_PROBLEM = ("operator", "shape", "strides", "dtype", "scalars")


def add_controls(connection: Connection, study_id: int, measured: ControlRound) -> None:
    """Store all controls of a round."""
    workload = rows.workload_values(measured.point.workload)
    shared: Values = {
        "study_id": study_id,
        "workload_id": find_or_insert(connection, WorkloadRow, ["key"], workload),
        "run_started_at": measured.run_started_at,
        "position": measured.position,
        "recorded_at": datetime.now(UTC),
    }
    own: dict[ControlKind, Values] = {
        ControlKind.COPY: {
            "bytes_moved": checked_integer("bytes moved", measured.point.copy_bytes)
        },
        ControlKind.SENTINEL: {"trial_id": measured.point.sentinel_id},
    }
    insert_rows(
        connection,
        ControlRow,
        [
            shared | {"kind": kind.value} | own.get(kind, {}) | _report_values(report)
            for kind, report in zip(ControlKind, measured.reports, strict=True)
        ],
    )


def study_controls(session: Session, study_id: int) -> list[RunControls]:
    """Return what the controls of a study say, by workload and run, in the order measured."""
    query = _query().where(_CONTROL.c.study_id == study_id)
    return _read(session, query, {})


def trial_controls(session: Session, trial_id: int) -> list[RunControls]:
    """Return the controls of the runs in which a trial was measured, oldest first.

    Those of its workload alone. A trial that is gone on with after a stop was measured in two
    runs; what took over another's verdict was measured with that one, and by its own processes.
    """
    return controls_of_trials(session, [trial_id])[trial_id]


def controls_of_trials(session: Session, trial_ids: Sequence[int]) -> dict[int, list[RunControls]]:
    """Return what ``trial_controls`` gives for each trial, in two statements for all of them."""
    found: dict[int, list[RunControls]] = {each: [] for each in trial_ids}
    values = {"trial_ids": list(trial_ids)}
    runs = _read(session, _trials_query(), values) if trial_ids else []
    if not runs:
        return found
    by_study: dict[tuple[int, str], list[RunControls]] = {}
    for run in runs:
        by_study.setdefault((run.study_id, run.workload.key), []).append(run)
    moments: dict[tuple[int, int, str], list[datetime]] = {}
    for trial_id, study_id, key, moment in session.connection().execute(_moments_query(), values):
        moments.setdefault((trial_id, study_id, key), []).append(moment)
    for (trial_id, study_id, key), times in moments.items():
        runs_there = by_study.get((study_id, key), ())
        found[trial_id] += [each for each in runs_there if each.covers(times)]
    for of_one in found.values():
        of_one.sort(key=lambda each: each.run_started_at)
    return found


def run_drifts() -> Subquery:
    """Return how the sentinel drifted in each run: one row a study, workload and run.

    ``ends_at`` is when the study's next run on the workload began, NULL for the last one;
    ``drift`` is ``RunControls.drift``.
    """
    table = _CONTROL.c
    of_workload = (table.study_id, table.workload_id)
    spread = func.max(table.median_us) / func.min(table.median_us) - 1.0
    return (
        select(
            *of_workload,
            table.run_started_at.label("begins_at"),
            func.lead(table.run_started_at)
            .over(partition_by=of_workload, order_by=table.run_started_at)
            .label("ends_at"),
            case((func.count(table.median_us) > 1, spread)).label("drift"),
        )
        .where(table.kind == ControlKind.SENTINEL.value)
        .group_by(*of_workload, table.run_started_at)
        .subquery("run_drifts")
    )


def median_of_samples(row: RowMapping) -> float | None:
    """Return what the median of a row must be."""
    samples = json.loads(row["samples_us"] or "[]")
    return median(samples) if samples else None


def _report_values(report: TrialReport) -> Values:
    sound = sound_report(report)
    values = rows.failure_values(sound.failure)
    if sound.failure is None and sound.process is not None:
        values |= rows.process_values(sound.process)
        values["samples_us"] = canonical_json(list(sound.process.samples_us))
    return values


# Asked with each answer to `best`: built once, as to build a statement takes longer than to run it.
@cache
def _trials_query() -> Select[Any]:
    """Return the query of the controls of trials' studies and workloads, and of their origins'."""
    asked, trial = _asked(), table_of(TrialRow)
    which = select(trial.c.study_id, trial.c.workload_id).join(asked, _is_it_or_origin(asked))
    return _query().where(tuple_(_CONTROL.c.study_id, _CONTROL.c.workload_id).in_(which))


@cache
def _moments_query() -> Select[Any]:
    """Return the query of when each process of trials, and of their origins, was stored."""
    asked, trial, process = _asked(), table_of(TrialRow), table_of(ProcessRow)
    return (
        select(asked.c.id, trial.c.study_id, _WORKLOAD.c.key, process.c.recorded_at)
        .select_from(asked)
        .join(trial, _is_it_or_origin(asked))
        .join(_WORKLOAD, _WORKLOAD.c.id == trial.c.workload_id)
        .join(process, process.c.trial_id == trial.c.id)
    )


def _asked() -> Subquery:
    trial = table_of(TrialRow).alias()
    wanted = trial.c.id.in_(bindparam("trial_ids", expanding=True))
    return select(trial.c.id, trial.c.reused_from_id).where(wanted).subquery("asked")


def _is_it_or_origin(asked: Subquery) -> ColumnElement[bool]:
    own = table_of(TrialRow).c.id
    return own.in_([asked.c.id, asked.c.reused_from_id])


def _query() -> Select[Any]:
    """Return the query of summaries, one a workload, run and control."""
    table = _CONTROL.c
    failed = case((table.outcome != Outcome.OK.value, table.message))
    run = (table.study_id, table.run_started_at, table.kind)
    return (
        select(
            *run,
            *(_WORKLOAD.c[name] for name in _PROBLEM),
            func.count().label("rounds"),
            func.count(table.median_us).label("valid"),
            func.min(table.median_us).label("low_us"),
            func.max(table.median_us).label("high_us"),
            func.max(table.trial_id).label("trial_id"),
            func.max(table.bytes_moved).label("bytes_moved"),
            func.min(failed).label("message"),
        )
        .join(_WORKLOAD, _WORKLOAD.c.id == table.workload_id)
        .group_by(*run, _WORKLOAD.c.id)
        .order_by(table.study_id, _WORKLOAD.c.id, table.run_started_at, table.kind)
    )


def _read(session: Session, query: Select[Any], values: dict[str, Any]) -> list[RunControls]:
    found = session.connection().execute(query, values)
    return run_controls(
        ControlSummary(study_id, _workload(*problem), started_at, ControlKind(kind), *figures)
        for study_id, started_at, kind, problem, figures in (
            (*row[:3], row[3 : 3 + len(_PROBLEM)], row[3 + len(_PROBLEM) :]) for row in found
        )
    )


# Of a study's workloads each has many rows.
@lru_cache(maxsize=256)
def _workload(operator: str, shape: str, strides: str, dtype: str, scalars: str) -> Workload:
    return rows.read_workload(operator, shape, strides, dtype, scalars)
