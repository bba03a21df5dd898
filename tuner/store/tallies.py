"""Sums over the whole database, for monitoring. Each is one statement over an index or a table."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.domain.outcome import Stage
from tuner.domain.queue import JobState
from tuner.store.job_models import DeviceRow
from tuner.store.job_models import JobRow
from tuner.store.left_behind import left_behind
from tuner.store.models import EnvironmentRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow


def trials_by_outcome(session: Session) -> list[tuple[str, str, str, int]]:
    """Return outcome, device, architecture and how many trials ended so there."""
    # Counted by study first: that needs an index only, and there are few studies.
    counted = (
        select(TrialRow.study_id, TrialRow.outcome, func.count().label("count"))
        .group_by(TrialRow.study_id, TrialRow.outcome)
        .subquery()
    )
    query = (
        select(counted, StudyRow.device_id, EnvironmentRow.architecture)
        .join(StudyRow, StudyRow.id == counted.c.study_id)
        .join(EnvironmentRow, EnvironmentRow.id == StudyRow.environment_id)
    )
    found = session.execute(query).all()
    gone = left_behind(session)
    counts: Counter[tuple[str, str, str]] = Counter()
    for study_id, outcome, count, device_id, architecture in found:
        name = outcome or (Outcome.INTERRUPTED.value if study_id in gone else RUNNING)
        counts[device_id, architecture, name] += count
    return [
        (name, device_id, architecture, count)
        for (device_id, architecture, name), count in sorted(counts.items())
    ]


def stage_seconds(session: Session) -> list[tuple[str, str, float]]:
    """Return stage, device and the seconds that finished trials spent there."""
    stages = {
        Stage.BUILD: func.sum(TrialRow.build_s),
        Stage.VALIDATE: func.sum(TrialRow.validate_s),
        Stage.MEASURE: func.sum(TrialRow.measure_s),
    }
    query = (
        select(StudyRow.device_id, *stages.values())
        .join(StudyRow, StudyRow.id == TrialRow.study_id)
        .group_by(StudyRow.device_id)
        .order_by(StudyRow.device_id)
    )
    return [
        (stage.value, device_id, float(seconds or 0.0))
        for device_id, *sums in session.execute(query)
        for stage, seconds in zip(stages, sums, strict=True)
    ]


def jobs_by_state(session: Session) -> list[tuple[str, str, int]]:
    """Return state, device and how many jobs are in it: 0 too, of each device that is known.

    A series that is there only now and then can't be told from one that is not scraped.
    """
    query = select(JobRow.device_id, JobRow.state, func.count()).group_by(
        JobRow.device_id, JobRow.state
    )
    found = {(device_id, state): count for device_id, state, count in session.execute(query)}
    devices = {device_id for device_id, _ in found}
    devices |= set(session.scalars(select(DeviceRow.device_id).distinct()))
    return [
        (state.value, device_id, found.get((device_id, state.value), 0))
        for device_id in sorted(devices)
        for state in JobState
    ]
