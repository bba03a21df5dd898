"""What every results database must do. Run it over yours with a fixture ``database_url``.

A subclass whose name starts with ``Test`` gives the fixture: the URL of a database that does not
exist yet, or is empty. Each test opens it through ``open_store`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

import pytest
from sqlalchemy import insert
from sqlalchemy import select
from sqlalchemy import update

from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.study import SkippedPoint
from tuner.domain.study import StoredTrial
from tuner.errors import DatabaseProblem
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.check import find_problems
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.models import TrialRow
from tuner.store.rows import LOG_LIMIT_BYTES
from tuner.store.table import table_of
from tuner.store.writer import StudyRecorder
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import make_source
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


def stored(recorder: StudyRecorder, study_id: int) -> dict[int, StoredTrial]:
    """Return a study's trials by id."""
    return {trial.trial_id: trial for trial in recorder.stored_trials(study_id)}


class StoreContract:
    """The suite. Every test ends with a look for damage."""

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

    def test_a_study_is_new_then_resumed_then_finished(self, recorder: StudyRecorder) -> None:
        first = recorder.open_study(make_definition(), fresh=False)
        again = recorder.open_study(make_definition(), fresh=False)
        recorder.finish_study(first.study_id)
        last = recorder.open_study(make_definition(), fresh=False)
        assert [each.state for each in (first, again, last)] == ["new", "resumed", "finished"]
        assert {each.study_id for each in (first, again, last)} == {first.study_id}

    def test_fresh_makes_a_study_beside_an_equal_one(self, recorder: StudyRecorder) -> None:
        first = recorder.open_study(make_definition(), fresh=False)
        fresh = recorder.open_study(make_definition(), fresh=True)
        assert fresh.state == "new"
        assert fresh.study_id != first.study_id
        # The newest one is meant from now on.
        assert recorder.open_study(make_definition(), fresh=False).study_id == fresh.study_id

    def test_a_changed_study_is_new_and_linked_to_the_old(self, recorder: StudyRecorder) -> None:
        first = recorder.open_study(make_definition(), fresh=False)
        changed = make_definition(environment=make_environment(driver="2.0"))
        second = recorder.open_study(changed, fresh=False)
        assert (second.state, second.previous_id) == ("new", first.study_id)

    def test_context_does_not_make_a_new_study(self, recorder: StudyRecorder) -> None:
        first = recorder.open_study(make_definition(), fresh=False)
        warmer = make_definition(environment=make_environment(clock="1.9 GHz"))
        assert recorder.open_study(warmer, fresh=False).study_id == first.study_id

    def test_find_study_takes_names_and_ids(self, store: Store, recorder: StudyRecorder) -> None:
        first = recorder.open_study(make_definition("one"), fresh=False).study_id
        newest = recorder.open_study(make_definition("one"), fresh=True).study_id
        with store.session() as session:
            assert queries.find_study(session, "one").id == newest
            assert queries.find_study(session, str(first)).id == first
            for missing in ("two", "999", "9" * 40, ""):
                with pytest.raises(NotFound):
                    queries.find_study(session, missing)

    def test_list_studies_counts_outcomes(self, store: Store, recorder: StudyRecorder) -> None:
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        run_trial(recorder, study_id, 64, 10.0)
        recorder.start_trial(study_id, make_point(128), GEOMETRY)
        with store.session() as session:
            (study,) = queries.list_studies(session)
        assert study.counts == {"ok": 1, "running": 1}
        assert (study.architecture, study.device_id, study.planned) == ("x86_64", "cpu", 4)
        assert study.created_at.tzinfo is UTC

    # Trials

    def test_a_trial_comes_back_as_it_was_reported(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        report = make_report((10.0, 0.1 + 0.2, 1e-9))
        trial_id = recorder.start_trial(study_id, make_point(64, warm=True, ratio=0.1), GEOMETRY)
        recorder.finish_trial(trial_id, report, bytes_moved=BYTES_MOVED)
        with store.session() as session:
            detail = queries.trial_detail(session, trial_id)
        assert detail.summary.outcome is Outcome.OK
        assert detail.summary.config == {"BLOCK": 64, "warm": True, "ratio": 0.1}
        assert detail.summary.workload == WORKLOAD
        assert detail.summary.quick_median_us == 0.1 + 0.2
        assert (detail.summary.max_abs_error, detail.summary.max_rel_error) == (3e-7, 2e-7)
        assert (detail.build, detail.geometry) == (report.build, GEOMETRY)
        (process,) = detail.processes
        assert process.report == report.process
        assert process.validations == report.validations
        assert detail.source == make_source("block")
        assert detail.environment == make_environment()
        assert detail.protocol == make_definition().protocol

    def test_a_failure_keeps_its_reason(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        trial_id = recorder.start_trial(study_id, make_point(), GEOMETRY)
        recorder.finish_trial(trial_id, make_failure(log="line 1\nline 2"), bytes_moved=1)
        with store.session() as session:
            detail = queries.trial_detail(session, trial_id)
        summary = detail.summary
        assert (summary.outcome, summary.stage) == (Outcome.COMPILE_ERROR, Stage.BUILD)
        assert (summary.message, detail.log) == ("error: no such thing", "line 1\nline 2")
        assert summary.quick_median_us is None

    def test_texts_from_outside_are_stored_whatever_they_hold(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        trial_id = recorder.start_trial(study_id, make_point(), GEOMETRY)
        log = "first error\n" + "é" * LOG_LIMIT_BYTES + "\x00\udcff\nlast line"
        report = make_failure(message="", log=log)
        recorder.finish_trial(trial_id, report, bytes_moved=1)
        with store.session() as session:
            detail = queries.trial_detail(session, trial_id)
        assert detail.summary.message == "compile_error (no message)"
        assert len(detail.log.encode()) <= LOG_LIMIT_BYTES
        assert detail.log.startswith("first error\n")
        assert detail.log.endswith("\nlast line")
        assert "[truncated: " in detail.log

    def test_an_ended_trial_does_not_end_again(
        self, recorder: StudyRecorder, study_id: int
    ) -> None:
        trial_id = run_trial(recorder, study_id, 64, 10.0)
        with pytest.raises(DatabaseProblem, match="has ended already"):
            recorder.finish_trial(trial_id, make_report((20.0,)), bytes_moved=1)
        assert stored(recorder, study_id)[trial_id].quick_median_us == 10.0

    def test_a_point_has_one_trial(self, recorder: StudyRecorder, study_id: int) -> None:
        run_trial(recorder, study_id, 64, 10.0)
        with pytest.raises(DatabaseProblem):
            recorder.start_trial(study_id, make_point(64), GEOMETRY)
        # 64 and 64.0 are different values of a parameter; so are 1 and True.
        recorder.start_trial(study_id, make_point(64.0), GEOMETRY)  # type: ignore[arg-type]

    def test_an_interrupted_trial_is_tried_again(self, recorder: StudyRecorder) -> None:
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        first = recorder.start_trial(study_id, make_point(64), GEOMETRY)
        opened = recorder.open_study(make_definition(), fresh=False)
        assert (opened.state, opened.interrupted) == ("resumed", 1)
        second = run_trial(recorder, study_id, 64, 10.0)
        trials = stored(recorder, study_id)
        assert [(each.outcome, each.attempt) for each in trials.values()] == [
            (Outcome.INTERRUPTED, 0),
            (Outcome.OK, 1),
        ]
        assert list(trials) == [first, second]

    def test_leaving_the_store_gives_its_studies_up(self, database_url: str) -> None:
        with open_store(database_url, create=True, writable=True) as store:
            recorder = store.recorder()
            study_id = recorder.open_study(make_definition(), fresh=False).study_id
            trial_id = recorder.start_trial(study_id, make_point(64), GEOMETRY)
        reopened = open_store(database_url, create=False, writable=False)
        with reopened, reopened.session() as session:
            detail = queries.trial_detail(session, trial_id)
        assert detail.summary.outcome is Outcome.INTERRUPTED

    def test_skipped_points_are_added_once(
        self, store: Store, recorder: StudyRecorder, study_id: int
    ) -> None:
        trial_id = run_trial(recorder, study_id, 64, 10.0)
        skipped = [SkippedPoint(make_point(block), "threads: too many") for block in (64, 96, 96)]
        recorder.skip_points(study_id, skipped)
        recorder.skip_points(study_id, skipped)
        trials = stored(recorder, study_id)
        assert [each.outcome for each in trials.values()] == [Outcome.OK, Outcome.SKIPPED]
        assert trials[trial_id].quick_median_us == 10.0
        with store.session() as session:
            (found,) = queries.list_trials(session, study_id, outcome=Outcome.SKIPPED)
        assert (found.stage, found.message) == (Stage.PLAN, "threads: too many")

    # Values that can't be

    @pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), float("-inf")])
    def test_a_senseless_time_ends_as_timer_error(
        self, store: Store, recorder: StudyRecorder, study_id: int, bad: float
    ) -> None:
        trial_id = recorder.start_trial(study_id, make_point(), GEOMETRY)
        recorder.finish_trial(trial_id, make_report((10.0, bad)), bytes_moved=1)
        with store.session() as session:
            detail = queries.trial_detail(session, trial_id)
        assert detail.summary.outcome is Outcome.TIMER_ERROR
        assert "sample 1 of 2" in detail.summary.message
        assert detail.processes == ()

    @pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), float("-inf"), None])
    def test_the_database_itself_refuses_a_senseless_sample(
        self, store: Store, recorder: StudyRecorder, study_id: int, bad: float | None
    ) -> None:
        run_trial(recorder, study_id, 64, 10.0)
        row = {"process_id": 1, "position": 99, "time_us": bad}
        with pytest.raises(DatabaseProblem), store.transaction() as connection:
            connection.execute(insert(table_of(SampleRow)), row)

    @pytest.mark.parametrize(
        "change",
        [
            {"outcome": "excellent"},
            {"outcome": "crash"},
            {"outcome": None},
            {"confirmed": True},
            {"median_us": 5.0},
            {"quick_median_us": 0.0},
            {"quick_median_us": float("inf")},
            {"build_s": -1.0},
            {"study_id": 999},
            {"reused_from_id": 999},
            {"attempt": -1},
        ],
        ids=str,
    )
    def test_the_database_itself_refuses_a_senseless_trial(
        self, store: Store, recorder: StudyRecorder, study_id: int, change: dict[str, object]
    ) -> None:
        run_trial(recorder, study_id, 64, 10.0)
        with pytest.raises(DatabaseProblem), store.transaction() as connection:
            connection.execute(update(table_of(TrialRow)).values(**change))

    def test_numbers_of_more_than_64_bits_are_refused(self, recorder: StudyRecorder) -> None:
        with pytest.raises(UsageError, match="does not fit 64 bits"):
            recorder.open_study(make_definition(sampler_seed=2**63), fresh=False)
        opened = recorder.open_study(make_definition(sampler_seed=2**63 - 1), fresh=False)
        assert opened.state == "new"

    # Confirmation

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
