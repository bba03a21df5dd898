"""What a results database must do once trials are in it: confirm, reuse, answer, export."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.study import SkippedPoint
from tuner.errors import DatabaseProblem
from tuner.store import queries
from tuner.store import Store
from tuner.store.models import ProcessRow
from tuner.store.writer import StudyRecorder
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_steps import stored
from tuner.testing.store_steps import StoreFixtures
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import make_source
from tuner.testing.store_values import WORKLOAD


class StoreAnswersContract(StoreFixtures):
    """Confirmation, reuse, best and exports."""

    def test_the_last_required_process_confirms(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        trial_id = run_trial(recorder, study_id, 64, 10.0)
        confirm_first = [(trial_id, make_report((10.0, 12.0, 11.0)))]
        recorder.record_confirmation(0, confirm_first, required=2)
        before = stored(recorder, study_id)[trial_id]
        assert (before.confirmed, before.confirm_processes) == (False, (0,))
        recorder.record_confirmation(1, [(trial_id, make_report((8.0, 9.0, 9.0)))], required=2)
        after = stored(recorder, study_id)[trial_id]
        assert (after.confirmed, after.process_medians_us) == (True, (11.0, 9.0))
        with store.session() as session:
            summary = queries.trial_detail(session, trial_id).summary
        assert (summary.median_us, summary.low_us, summary.high_us) == (10.0, 9.0, 11.0)
        assert summary.bandwidth_gb_s == pytest.approx(BYTES_MOVED / 10e-6 / 1e9)
        assert any(text.startswith("process_spread") for text in summary.warnings)

    def test_a_finalist_that_fails_takes_that_outcome(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        failing, passing = (run_trial(recorder, study_id, block, 10.0) for block in (64, 128))
        crash = make_failure(Outcome.CRASH, Stage.CONFIRM, "killed by signal 11")
        recorder.record_confirmation(
            0, [(failing, crash), (passing, make_report((9.0,)))], required=1
        )
        trials = stored(recorder, study_id)
        assert (trials[failing].outcome, trials[failing].confirmed) == (Outcome.CRASH, False)
        assert trials[passing].confirmed
        with store.session() as session:
            detail = queries.trial_detail(session, failing)
        assert [(each.stage, each.outcome) for each in detail.processes] == [
            ("quick", Outcome.OK),
            ("confirm", Outcome.CRASH),
        ]

    def test_a_confirmation_is_stored_whole_or_not_at_all(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        good = run_trial(recorder, study_id, 64, 10.0)
        running = recorder.start_trial(study_id, make_point(128), GEOMETRY)
        pairs = [(good, make_report()), (running, make_report())]
        with pytest.raises(DatabaseProblem):
            recorder.record_confirmation(0, pairs, required=1)
        assert not stored(recorder, study_id)[good].confirmed
        with store.session() as session:
            assert len(session.scalars(select(ProcessRow.id)).all()) == 1

    # Reuse

    def test_an_equal_trial_of_another_study_is_reused(self, recorder: StudyRecorder) -> None:
        first = recorder.open_study(make_definition("one"), fresh=False).study_id
        origin = run_trial(recorder, first, 64, 10.0)
        definition = make_definition("two")
        second = recorder.open_study(definition, fresh=False).study_id
        assert recorder.find_reusable(definition, make_point(64)) == origin
        reused = recorder.reuse_trial(second, make_point(64), origin)
        assert (reused.outcome, reused.quick_median_us) == (Outcome.OK, 10.0)
        assert not reused.confirmed
        # The copy is not an origin itself.
        assert recorder.find_reusable(definition, make_point(64)) == origin
        # Later confirmation is measured in its own study, and answers from there.
        confirm(recorder, reused.trial_id, (9.0,))
        assert stored(recorder, second)[reused.trial_id].confirmed
        assert not stored(recorder, first)[origin].confirmed

    def test_reuse_of_a_confirmed_trial_counts_as_confirmed_but_not_twice(
        self, store: Store, recorder: StudyRecorder
    ) -> None:
        first = recorder.open_study(make_definition("one"), fresh=False).study_id
        origin = run_trial(recorder, first, 64, 10.0)
        confirm(recorder, origin, (9.0,), (8.0,))
        second = recorder.open_study(make_definition("two"), fresh=False).study_id
        reused = recorder.reuse_trial(second, make_point(64), origin)
        assert (reused.confirmed, reused.process_medians_us) == (True, (9.0, 8.0))
        assert stored(recorder, second)[reused.trial_id] == reused
        with store.session() as session:
            candidates = queries.best_candidates(session, WORKLOAD)
        assert [each.trial_id for each in candidates] == [origin]

    @pytest.mark.parametrize(
        "definition",
        [
            make_definition("two", environment=make_environment(driver="2.0")),
            make_definition("two", sources={"block": make_source("block", "other text")}),
            make_definition("two", protocol=make_definition().protocol.__class__(samples=6)),
            make_definition("two", languages={"serial": "hip", "block": "triton"}),
        ],
        ids=["environment", "source", "protocol", "language"],
    )
    def test_what_differs_in_identity_is_not_reused(
        self, recorder: StudyRecorder, study_id: int, definition: object
    ) -> None:
        run_trial(recorder, study_id, 64, 10.0)
        assert recorder.find_reusable(definition, make_point(64)) is None  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("outcome", "reusable"),
        [
            (Outcome.COMPILE_ERROR, True),
            (Outcome.WRONG_RESULT, True),
            (Outcome.TIMEOUT, False),
            (Outcome.CRASH, False),
            (Outcome.INTERRUPTED, False),
        ],
    )
    def test_which_outcomes_are_reused(
        self, recorder: StudyRecorder, study_id: int, outcome: Outcome, reusable: bool
    ) -> None:
        trial_id = recorder.start_trial(study_id, make_point(64), GEOMETRY)
        recorder.finish_trial(trial_id, make_failure(outcome), bytes_moved=1)
        found = recorder.find_reusable(make_definition("two"), make_point(64))
        assert found == (trial_id if reusable else None)

    # Best

    def test_best_is_the_fastest_confirmed_trial(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        slow, fast, quick = (
            run_trial(recorder, study_id, block, us)
            for block, us in ((64, 10.0), (128, 9.0), (256, 1.0))
        )
        confirm(recorder, slow, (10.0, 10.0, 10.0), (10.5,))
        confirm(recorder, fast, (9.0,), (9.5,))
        with store.session() as session:
            candidates = queries.best_candidates(session, WORKLOAD, with_samples=True)
            limited = queries.best_candidates(session, WORKLOAD, limit=1)
            assert queries.tuned_shapes(session, WORKLOAD) == [WORKLOAD.shape]
        assert [each.trial_id for each in candidates] == [fast, slow]  # not the unconfirmed one
        assert quick not in [each.trial_id for each in candidates]
        assert candidates[1].samples_us == ((10.0, 10.0, 10.0), (10.5,))
        assert candidates[1].process_medians_us == (10.0, 10.5)
        assert [each.trial_id for each in limited] == [fast]
        assert limited[0].samples_us == ()

    def test_best_breaks_ties_by_name_and_not_by_chance(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        for block in (64, 512, 128):
            confirm(recorder, run_trial(recorder, study_id, block, 10.0), (10.0,))
        with store.session() as session:
            blocks = [each.config["BLOCK"] for each in queries.best_candidates(session, WORKLOAD)]
        assert blocks == [128, 512, 64]  # in the order of the configs' text

    def test_best_answers_exactly_the_workload_asked_for(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        confirm(recorder, run_trial(recorder, study_id, 64, 10.0), (10.0,))
        other = make_point().workload.__class__("vector_add", (1024, 4096), "float32", ())
        with store.session() as session:
            assert queries.best_candidates(session, other) == []
            assert queries.tuned_shapes(session, other) == []
            assert queries.best_candidates(session, WORKLOAD, implementation="serial") == []
            assert queries.best_candidates(session, WORKLOAD, environment_key="x") == []
            assert queries.tuned_shapes(session, WORKLOAD, environment_key="x") == []
            key = make_environment().key
            assert len(queries.best_candidates(session, WORKLOAD, environment_key=key)) == 1

    # Export

    def test_exports_hold_every_trial_and_sample(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        confirm(recorder, run_trial(recorder, study_id, 64, 10.0), (10.0, 11.0), (9.0, 9.0))
        confirm(recorder, run_trial(recorder, study_id, 128, 20.0), (20.0,), (21.0,))
        recorder.start_trial(study_id, make_point(256), GEOMETRY)
        recorder.skip_points(study_id, [SkippedPoint(make_point(96), "threads: too many")])
        with store.session() as session:
            trials = list(queries.iter_trials(session, study_id=study_id))
            samples = list(queries.iter_samples(session))
            best = list(queries.iter_best(session))
            assert list(queries.iter_trials(session, study_id=999)) == []
        assert [row["outcome"] for row in trials] == ["ok", "ok", None, "skipped"]
        assert all(tuple(row) == queries.TRIAL_COLUMNS for row in trials)
        assert all(tuple(row) == queries.SAMPLE_COLUMNS for row in samples)
        assert [row["time_us"] for row in samples[:5]] == [10.0, 10.0, 11.0, 9.0, 9.0]
        assert [row["trial_id"] for row in best] == [trials[0]["trial_id"]]
        assert trials[0]["config"] == '{"BLOCK":64}'
        assert trials[0]["scalars"] == '{"scale":0.1}'
        assert trials[0]["started_at"].endswith("+00:00")
