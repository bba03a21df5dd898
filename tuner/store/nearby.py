"""Results that a search of one workload can learn from: of its neighbours, of like devices."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy import or_
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.identity import Config
from tuner.domain.outcome import Outcome
from tuner.domain.study import NearbyResults
from tuner.domain.study import StudyDefinition
from tuner.domain.workload import Workload
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProtocolRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.reruns import is_no_rerun

# The newest ones; a search takes 8 neighbours and needs no more than some hundred of each.
MAX_ROWS = 20_000


def nearby_results(
    session: Session, definition: StudyDefinition, workload: Workload, implementation: str
) -> list[NearbyResults]:
    """Return what an implementation gave on other workloads and on devices of the same family.

    Times are only compared within a group: those of one workload on one architecture, by one
    protocol and source. Of several such groups of a workload and architecture the newest is
    returned. What a study would take over itself, because nothing differs, is left out.
    """
    architecture = str(definition.environment.identity.get("architecture", ""))
    chosen: dict[tuple[str, str], tuple[str, str, str]] = {}
    workloads: dict[tuple[str, str], Workload] = {}
    results: dict[tuple[str, str], list[tuple[Config, float]]] = {}
    for row in session.execute(_newest_trials(definition, workload, implementation, architecture)):
        place = (row.workload_key, row.architecture)
        group = (row.environment_key, row.protocol_key, row.source_hash)
        if chosen.setdefault(place, group) != group:
            continue
        if place not in workloads:
            workloads[place] = rows.read_workload(
                row.operator, row.shape, row.strides, row.dtype, row.scalars
            )
        results.setdefault(place, []).append((rows.read_config(row.config), row.quick_median_us))
    return [
        NearbyResults(workloads[place], place[1] == architecture, tuple(found))
        for place, found in results.items()
        if len(workloads[place].shape) == len(workload.shape)
    ]


def family(architecture: str) -> str:
    """Return what the names of an architecture's family begin with: gfx12, sm_9; else itself.

    AMD counts steppings and minors in the last two characters, NVIDIA minors in the last digit.
    """
    if re.fullmatch(r"gfx[0-9a-f]{3,}", architecture):
        return architecture[:-2]
    if re.fullmatch(r"sm_[0-9]{2,}", architecture):
        return architecture[:-1]
    return architecture


def _newest_trials(
    definition: StudyDefinition, workload: Workload, implementation: str, architecture: str
) -> Select[*tuple[Any, ...]]:
    """Return the query of timed trials that a study would not take over itself, newest first."""
    return (
        select(
            TrialRow.config,
            TrialRow.quick_median_us,
            TrialRow.source_hash,
            ProtocolRow.key.label("protocol_key"),
            EnvironmentRow.key.label("environment_key"),
            EnvironmentRow.architecture,
            WorkloadRow.key.label("workload_key"),
            *(WorkloadRow.operator, WorkloadRow.shape, WorkloadRow.strides, WorkloadRow.dtype),
            WorkloadRow.scalars,
        )
        .join(WorkloadRow, WorkloadRow.id == TrialRow.workload_id)
        .join(ImplementationRow, ImplementationRow.id == TrialRow.implementation_id)
        .join(EnvironmentRow, EnvironmentRow.id == TrialRow.environment_id)
        .join(ProtocolRow, ProtocolRow.id == TrialRow.protocol_id)
        .where(
            ImplementationRow.operator == definition.operator,
            ImplementationRow.name == implementation,
            ImplementationRow.language == definition.languages[implementation],
            TrialRow.outcome == Outcome.OK.value,
            TrialRow.quick_median_us.is_not(None),
            TrialRow.reused_from_id.is_(None),
            TrialRow.origin == "measured",
            is_no_rerun(),
            _is_of_family(architecture),
            or_(
                WorkloadRow.key != workload.key,
                EnvironmentRow.key != definition.environment.key,
                ProtocolRow.key != definition.protocol.key,
                TrialRow.source_hash != definition.sources[implementation].source_hash,
            ),
        )
        .order_by(TrialRow.id.desc())
        .limit(MAX_ROWS)
    )


def _is_of_family(architecture: str) -> ColumnElement[bool]:
    beginning = family(architecture)
    if beginning == architecture:
        return EnvironmentRow.architecture == architecture
    rest = len(architecture) - len(beginning)
    pattern = beginning.replace("_", r"\_") + "_" * rest
    return EnvironmentRow.architecture.like(pattern, escape="\\")
