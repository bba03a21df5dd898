"""Which questions about ``best`` a database has an answer to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import true
from sqlalchemy.orm import Session

from tuner.domain.outcome import Outcome
from tuner.domain.workload import Workload
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.reruns import is_no_rerun
from tuner.store.table import table_of

_FEW = 500  # more keys are not sent to the database, but looked for in what it returns


@dataclass(frozen=True, slots=True)
class TunedWorkload:
    """A workload with a confirmed trial in an environment.

    Attributes:
        workload: The workload.
        environment_key: Of the environment.
        architecture: Of its device.
    """

    workload: Workload
    environment_key: str
    architecture: str


def tuned_workloads(session: Session, keys: Collection[str] | None = None) -> list[TunedWorkload]:
    """Return each workload and environment with a confirmed trial, newest workloads first.

    Args:
        session: Of the store.
        keys: Only of these workloads.
    """
    query = _query()
    if keys is not None and len(keys) <= _FEW:
        query = query.where(table_of(WorkloadRow).c.key.in_(keys))
    return [
        TunedWorkload(
            rows.read_workload(row.operator, row.shape, row.strides, row.dtype, row.scalars),
            row.environment_key,
            row.architecture,
        )
        for row in session.connection().execute(query)
        if keys is None or row.key in keys
    ]


def _query() -> Select[Any]:
    # A workload and an environment have thousands of trials: to find one takes a look at an
    # index, and of environments there are few.
    workload, environment = table_of(WorkloadRow), table_of(EnvironmentRow)
    confirmed = exists().where(
        TrialRow.workload_id == workload.c.id,
        TrialRow.confirmed == true(),
        TrialRow.environment_id == environment.c.id,
        TrialRow.outcome == Outcome.OK.value,
        is_no_rerun(),
    )
    return (
        select(
            *workload.c,
            environment.c.key.label("environment_key"),
            environment.c.architecture,
        )
        .select_from(workload.join(environment, true()))
        .where(confirmed)
        .order_by(workload.c.id.desc(), environment.c.id)
    )
