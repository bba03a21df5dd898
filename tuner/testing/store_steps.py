"""Steps and fixtures of the store contracts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tuner.domain.controls import ControlPoint
from tuner.domain.controls import ControlRound
from tuner.domain.records import TrialReport
from tuner.domain.study import StoredTrial
from tuner.store import open_store
from tuner.store import Store
from tuner.store.check import find_problems
from tuner.store.writer import StudyRecorder
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import WORKLOAD


def run_trial(recorder: StudyRecorder, study_id: int, block: int, *samples_us: float) -> int:
    """Start and finish a valid trial."""
    trial_id = recorder.start_trial(study_id, make_point(block), GEOMETRY)
    recorder.finish_trial(trial_id, make_report(samples_us), bytes_moved=BYTES_MOVED)
    return trial_id


def confirm(recorder: StudyRecorder, trial_id: int, *processes_us: tuple[float, ...]) -> None:
    """Store valid confirming processes, all of which are required."""
    for position, samples_us in enumerate(processes_us):
        recorder.record_confirmation(
            position, [(trial_id, make_report(samples_us))], required=len(processes_us)
        )


def measure_controls(
    recorder: StudyRecorder,
    study_id: int,
    sentinel_id: int,
    *sentinel_us: float,
    started_at: datetime,
    failure: TrialReport | None = None,
) -> None:
    """Store a round of a run's controls for each time of the sentinel.

    Args:
        recorder: Of the store.
        study_id: Driven by the recorder.
        sentinel_id: Trial on ``WORKLOAD``.
        sentinel_us: Its median in each round.
        started_at: When the run began.
        failure: Report of the copy; None for a valid one.
    """
    point = ControlPoint(WORKLOAD, sentinel_id, BYTES_MOVED)
    for position, time_us in enumerate(sentinel_us):
        reports = (
            make_report((1.5, 1.25, 1.75)),
            failure or make_report((8.0,)),
            make_report((time_us,) * 3),
        )
        recorder.record_controls(study_id, ControlRound(started_at, position, point, reports))


def stored(recorder: StudyRecorder, study_id: int) -> dict[int, StoredTrial]:
    """Return a study's trials by id."""
    return {trial.trial_id: trial for trial in recorder.stored_trials(study_id)}


class StoreFixtures:
    """A store over the fixture ``database_url``, its recorder and a study in it."""

    @pytest.fixture
    def store(self, database_url: str) -> Iterator[Store]:
        """A store that is sound after the test."""
        with open_store(database_url, create=True, writable=True) as store:
            yield store
            with store.session() as session:
                assert find_problems(session.connection()) == []

    @pytest.fixture
    def recorder(self, store: Store) -> StudyRecorder:
        """The store's recorder."""
        return store.recorder()

    @pytest.fixture
    def study_id(self, recorder: StudyRecorder) -> int:
        """An open study."""
        return recorder.open_study(make_definition(), fresh=False).study_id

    # Studies
