"""Which confirmed trials could answer ``best``: the question asked most often, so made cheap.

Each statement is built once, names only the columns it needs and goes past the ORM; raw samples
are read only for the trials that the answer turns on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from functools import lru_cache
from typing import Any
from typing import TypeAlias

from sqlalchemy import bindparam
from sqlalchemy import Row
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import true
from sqlalchemy.orm import Session

from tuner.domain.environment import Environment
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Protocol
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SampleRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.reruns import is_no_rerun
from tuner.store.table import table_of

Samples: TypeAlias = tuple[tuple[float, ...], ...]  # of each process

_PROCESS = table_of(ProcessRow).c
_SAMPLE = table_of(SampleRow).c
_TRIAL_COLUMNS = (
    *("study_id", "config", "median_us", "bandwidth_gb_s", "source_hash", "warnings"),
    *("finished_at", "max_abs_error"),
)


def best_candidates(
    session: Session,
    workload: Workload,
    *,
    implementation: str | None = None,
    environment_key: str | None = None,
    architecture: str | None = None,
    with_samples: bool = False,
    with_reruns: bool = False,
    limit: int | None = None,
) -> list[BestCandidate]:
    """Return confirmed, valid trials of a workload, fastest first.

    Only trials with confirming processes of their own: one that took over another's verdict
    would count it twice. A rerun made to reproduce a record is evidence about that record; it
    does not take its place. Equal medians are ordered by implementation, config and id.

    Args:
        session: Of the store.
        workload: Exactly this problem, scalar arguments included.
        implementation: Only this one.
        environment_key: Only measured in this environment.
        architecture: Only measured on such a device.
        with_samples: Read the raw samples too.
        with_reruns: Those too that were made to reproduce a record.
        limit: At most so many.
    """
    values: dict[str, object] = {"workload_key": workload.key}
    given = {
        "implementation": implementation,
        "environment_key": environment_key,
        "architecture": architecture,
        "most": limit,
    }
    values |= {name: value for name, value in given.items() if value is not None}
    query = _candidate_query(frozenset(values), with_reruns)
    found = session.connection().execute(query, values).all()
    trial_ids = [row.trial_id for row in found]
    medians = _process_medians(session, trial_ids)
    samples = process_samples(session, trial_ids) if with_samples else {}
    return [
        _candidate(row, workload, medians[row.trial_id], samples.get(row.trial_id, ()))
        for row in found
    ]


def candidates_of_workloads(
    session: Session, workloads: Sequence[Workload]
) -> dict[str, list[BestCandidate]]:
    """Return what ``best_candidates`` gives for each workload, by the workload's key.

    In two statements, whatever their number.

    Args:
        session: Of the store.
        workloads: Some hundreds at most: all of their candidates are held at once.
    """
    by_key = {each.key: each for each in workloads}
    values = {"workload_keys": list(by_key)}
    query = _candidate_query(frozenset(values), with_reruns=False)
    rows_found = session.connection().execute(query, values).all()
    medians = _process_medians(session, [row.trial_id for row in rows_found])
    found: dict[str, list[BestCandidate]] = {key: [] for key in by_key}
    for row in rows_found:
        candidate = _candidate(row, by_key[row.workload_key], medians[row.trial_id], ())
        found[row.workload_key].append(candidate)
    return found


def process_samples(session: Session, trial_ids: Sequence[int]) -> dict[int, Samples]:
    """Return the raw samples of trials' valid confirming processes, in the order taken.

    Args:
        session: Of the store.
        trial_ids: Rows of the trials. One without such a process is left out.
    """
    if not trial_ids:
        return {}
    found: dict[int, dict[int, list[float]]] = {}
    samples = session.connection().execute(_sample_query(), {"trial_ids": trial_ids})
    for trial_id, position, time_us in samples.all():
        found.setdefault(trial_id, {}).setdefault(position, []).append(time_us)
    return {
        trial_id: tuple(tuple(samples_us) for samples_us in processes.values())
        for trial_id, processes in found.items()
    }


def _process_medians(session: Session, trial_ids: Sequence[int]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {trial_id: [] for trial_id in trial_ids}
    medians = session.connection().execute(_median_query(), {"trial_ids": trial_ids})
    for trial_id, median_us in medians.all():
        found[trial_id].append(median_us)
    return found


# Built once each: building a statement takes longer than running it.
@cache
def _candidate_query(given: frozenset[str], with_reruns: bool) -> Select[*tuple[Any, ...]]:
    """Return the query of ``best_candidates`` with parameters of these names."""
    trial, workload = table_of(TrialRow), table_of(WorkloadRow)
    study, implementation = table_of(StudyRow), table_of(ImplementationRow)
    environment, protocol = table_of(EnvironmentRow), table_of(ProtocolRow)
    query = (
        select(
            workload.c.key.label("workload_key"),
            trial.c.id.label("trial_id"),
            *(trial.c[name] for name in _TRIAL_COLUMNS),
            study.c.name.label("study_name"),
            implementation.c.name.label("implementation"),
            implementation.c.language,
            environment.c.identity,
            environment.c.context,
            protocol.c.fields,
        )
        .select_from(workload)
        .join(trial, trial.c.workload_id == workload.c.id)
        .join(study, study.c.id == trial.c.study_id)
        .join(implementation, implementation.c.id == trial.c.implementation_id)
        .join(environment, environment.c.id == trial.c.environment_id)
        .join(protocol, protocol.c.id == trial.c.protocol_id)
        .where(
            workload.c.key.in_(bindparam("workload_keys", expanding=True))
            if "workload_keys" in given
            else workload.c.key == bindparam("workload_key"),
            trial.c.confirmed == true(),
            trial.c.outcome == Outcome.OK.value,
            true() if with_reruns else is_no_rerun(),
        )
        .order_by(trial.c.median_us, implementation.c.name, trial.c.config, trial.c.id)
    )
    filtered = {
        "implementation": implementation.c.name,
        "environment_key": environment.c.key,
        "architecture": environment.c.architecture,
    }
    for name in sorted(given & filtered.keys()):
        query = query.where(filtered[name] == bindparam(name))
    return query.limit(bindparam("most")) if "most" in given else query


@cache
def _median_query() -> Select[Any]:
    query = select(_PROCESS.trial_id, _PROCESS.median_us)
    return _confirming(query).order_by(_PROCESS.trial_id, _PROCESS.position)


@cache
def _sample_query() -> Select[Any]:
    query = select(_PROCESS.trial_id, _PROCESS.position, _SAMPLE.time_us).join(
        table_of(SampleRow), _SAMPLE.process_id == _PROCESS.id
    )
    return _confirming(query).order_by(_PROCESS.trial_id, _PROCESS.position, _SAMPLE.position)


def _confirming(query: Select[*tuple[Any, ...]]) -> Select[Any]:
    return query.where(
        _PROCESS.trial_id.in_(bindparam("trial_ids", expanding=True)),
        _PROCESS.stage == "confirm",
        _PROCESS.outcome == Outcome.OK.value,
    )


def _candidate(
    row: Row[Any], workload: Workload, medians: Sequence[float], samples: Samples
) -> BestCandidate:
    # The database itself holds that a confirmed trial has a median and an end.
    return BestCandidate(
        trial_id=row.trial_id,
        study_id=row.study_id,
        study_name=row.study_name,
        implementation=row.implementation,
        language=row.language,
        config=rows.read_config(row.config),
        workload=workload,
        median_us=row.median_us,
        process_medians_us=tuple(medians),
        bandwidth_gb_s=row.bandwidth_gb_s or 0.0,
        source_hash=row.source_hash,
        environment=_environment(row.identity, row.context),
        protocol=_protocol(row.fields),
        warnings=rows.read_texts(row.warnings),
        finished_at=row.finished_at,
        max_abs_error=row.max_abs_error,
        samples_us=samples,
    )


# A database has few environments and protocols, and thousands of trials of each.
@lru_cache(maxsize=256)
def _environment(identity: str, context: str) -> Environment:
    return rows.read_environment(identity, context)


@lru_cache(maxsize=256)
def _protocol(fields: str) -> Protocol:
    return rows.read_protocol(fields)
