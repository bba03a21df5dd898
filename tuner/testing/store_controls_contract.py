"""What every results database must do with the controls of runs."""

from __future__ import annotations

from datetime import datetime
from datetime import timedelta
from datetime import UTC

import pytest
from sqlalchemy import select
from sqlalchemy import update

from tuner.domain.controls import ControlPoint
from tuner.domain.controls import ControlRound
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.errors import DatabaseProblem
from tuner.store import queries
from tuner.store import Store
from tuner.store.control_models import ControlRow
from tuner.store.controls import controls_of_trials
from tuner.store.controls import study_controls
from tuner.store.controls import trial_controls
from tuner.store.table import table_of
from tuner.store.writer import StudyRecorder
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import measure_controls
from tuner.testing.store_steps import run_trial
from tuner.testing.store_steps import StoreFixtures
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import WORKLOAD


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class StoreControlsContract(StoreFixtures):
    """The suite."""

    def test_controls_come_back_as_they_were_measured(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        began = now()
        trial_id = run_trial(recorder, study_id, 64, 10.0)
        measure_controls(recorder, study_id, trial_id, 10.0, 10.4, 10.1, started_at=began)
        with store.session() as session:
            (run,) = study_controls(session, study_id)
            rows = session.execute(select(ControlRow.samples_us, ControlRow.clock_after_mhz)).all()
        assert (run.study_id, run.workload, run.sentinel_id) == (study_id, WORKLOAD, trial_id)
        assert (run.run_started_at, run.next_run_at) == (began, None)
        assert (run.null_us, run.copy_us, run.copy_bytes) == (1.5, 8.0, BYTES_MOVED)
        assert (run.sentinel_low_us, run.sentinel_high_us, run.sentinel_count) == (10.0, 10.4, 3)
        assert run.drift == pytest.approx(0.04)
        assert run.is_marked
        assert rows[0] == ("[1.5,1.25,1.75]", 2350.0)
        assert len(rows) == 9

    def test_controls_that_failed_keep_their_reason(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        trial_id = run_trial(recorder, study_id, 64, 10.0)
        failure = make_failure(Outcome.OUT_OF_MEMORY, Stage.MEASURE, "no room", log="line 1")
        began = now()
        measure_controls(recorder, study_id, trial_id, 10.0, started_at=began, failure=failure)
        senseless = make_report((0.0,))
        point = ControlPoint(WORKLOAD, trial_id, BYTES_MOVED)
        measured = ControlRound(began, 1, point, (make_report(), failure, senseless))
        recorder.record_controls(study_id, measured)
        with store.session() as session:
            (run,) = study_controls(session, study_id)
            query = select(ControlRow.outcome, ControlRow.stage, ControlRow.log)
            failed = session.execute(query.where(ControlRow.outcome != "ok")).all()
        assert run.failures == (
            "copy: no room (2 of 2 rounds)",
            "sentinel: sample 0 of 1 is 0.0 us (1 of 2 rounds)",
        )
        assert run.drift is None
        assert failed[0] == ("out_of_memory", "measure", "line 1")
        assert failed[-1] == ("timer_error", "measure", "")

    def test_a_round_is_stored_whole_or_not_at_all(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        with pytest.raises(DatabaseProblem):  # the sentinel is no trial
            measure_controls(recorder, study_id, 4711, 10.0, started_at=now())
        with store.session() as session:
            assert study_controls(session, study_id) == []

    @pytest.mark.parametrize(
        "change",
        [{"median_us": 0.0}, {"samples_us": None}, {"trial_id": None}, {"outcome": "timeout"}],
        ids=str,
    )
    def test_the_database_itself_refuses_a_senseless_control(
        self, store: Store, recorder: StudyRecorder, study_id: int, change: dict[str, object]
    ) -> None:
        trial_id = run_trial(recorder, study_id, 64, 10.0)
        measure_controls(recorder, study_id, trial_id, 10.0, started_at=now())
        table = table_of(ControlRow)
        with pytest.raises(DatabaseProblem), store.transaction() as connection:
            connection.execute(update(table).where(table.c.kind == "sentinel").values(**change))

    def test_a_trial_belongs_to_the_runs_that_measured_it(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        first = now()
        early = run_trial(recorder, study_id, 64, 10.0)
        measure_controls(recorder, study_id, early, 10.0, 10.1, started_at=first)
        second = now()
        late = run_trial(recorder, study_id, 128, 11.0)
        confirm(recorder, early, (10.0, 10.0), (10.0, 10.0))
        measure_controls(recorder, study_id, early, 10.0, 11.0, started_at=second)
        third = now() + timedelta(hours=1)
        measure_controls(recorder, study_id, early, 10.0, 12.0, started_at=third)
        quick = run_trial(recorder, study_id, 256, 12.0)
        another = recorder.open_study(make_definition("another"), fresh=False).study_id
        own = first - timedelta(hours=1)  # begun before what it takes over was measured
        taken_over = recorder.reuse_trial(another, make_point(128), late).trial_id
        confirmed = recorder.reuse_trial(another, make_point(256), quick).trial_id
        confirm(recorder, confirmed, (12.0, 12.0), (12.0, 12.0))
        measure_controls(recorder, another, confirmed, 12.0, 12.6, started_at=own)
        with store.session() as session:
            runs = {
                trial_id: [each.run_started_at for each in trial_controls(session, trial_id)]
                for trial_id in (early, late, taken_over, confirmed)
            }
            together = controls_of_trials(session, list(runs))
            assert controls_of_trials(session, []) == {}
            drifts = {
                row["trial_id"]: row["sentinel_drift"] for row in queries.iter_trials(session)
            }
        assert runs == {
            early: [first, second],
            late: [second],
            taken_over: [second],
            confirmed: [own, second],
        }
        assert {
            trial_id: [each.run_started_at for each in found]
            for trial_id, found in together.items()
        } == runs
        assert drifts == {  # of the run that measured it last
            early: pytest.approx(0.1),
            late: pytest.approx(0.1),
            quick: pytest.approx(0.1),
            taken_over: None,
            confirmed: pytest.approx(0.05),
        }
