"""How far a study is: counts, and the fastest trial of each workload so far."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.identity import Config
from tuner.domain.outcome import Outcome
from tuner.store import rows
from tuner.store.models import ImplementationRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow


@dataclass(frozen=True, slots=True)
class FastestTrial:
    """The fastest trial of a workload in one study, as it stands.

    Attributes:
        trial_id: Row of the trial.
        shape: Of the workload, as users write it.
        implementation: Name of the implementation.
        config: Its config.
        median_us: Of the confirming processes, or of the quick stage as long as none of the
            workload's trials is confirmed.
        confirmed: Which of the two.
    """

    trial_id: int
    shape: str
    implementation: str
    config: Config
    median_us: float
    confirmed: bool


def fastest_trials(session: Session, study_id: int) -> list[FastestTrial]:
    """Return the fastest valid trial of each workload of a study, in the order they came up."""
    time_us = func.coalesce(TrialRow.median_us, TrialRow.quick_median_us)
    rank = func.row_number().over(
        partition_by=TrialRow.workload_id,
        order_by=(TrialRow.confirmed.desc(), time_us, TrialRow.id),
    )
    ranked = (
        select(
            TrialRow.id,
            TrialRow.workload_id,
            TrialRow.implementation_id,
            TrialRow.config,
            TrialRow.confirmed,
            time_us.label("time_us"),
            rank.label("rank"),
            func.min(TrialRow.id).over(partition_by=TrialRow.workload_id).label("first_id"),
        )
        .where(
            TrialRow.study_id == study_id,
            TrialRow.outcome == Outcome.OK.value,
            time_us.is_not(None),
        )
        .subquery()
    )
    query = (
        select(ranked, WorkloadRow.shape, ImplementationRow.name)
        .join(WorkloadRow, WorkloadRow.id == ranked.c.workload_id)
        .join(ImplementationRow, ImplementationRow.id == ranked.c.implementation_id)
        .where(ranked.c.rank == 1)
        .order_by(ranked.c.first_id)
    )
    return [
        FastestTrial(
            trial_id=row.id,
            shape=row.shape,
            implementation=row.name,
            config=rows.read_config(row.config),
            median_us=row.time_us,
            confirmed=bool(row.confirmed),
        )
        for row in session.execute(query)
    ]
