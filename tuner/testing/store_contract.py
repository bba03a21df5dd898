"""What every results database must do. Run it over yours with a fixture ``database_url``.

A subclass whose name starts with ``Test`` gives the fixture: the URL of a database that does not
exist yet, or is empty. Each test opens it through ``open_store`` alone.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from sqlalchemy import insert
from sqlalchemy import update

from tuner.domain.environment import Environment
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Protocol
from tuner.domain.study import SkippedPoint
from tuner.domain.workload import make_workload
from tuner.domain.workload import Workload
from tuner.errors import DatabaseProblem
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.models import SampleRow
from tuner.store.models import TrialRow
from tuner.store.rows import LOG_LIMIT_BYTES
from tuner.store.table import table_of
from tuner.store.writer import StudyRecorder
from tuner.testing.store_answers_contract import StoreAnswersContract
from tuner.testing.store_controls_contract import StoreControlsContract
from tuner.testing.store_steps import run_trial
from tuner.testing.store_steps import stored
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import make_source
from tuner.testing.store_values import WORKLOAD


class StoreContract(StoreAnswersContract, StoreControlsContract):
    """The suite. Every test ends with a look for damage."""

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

    # Results nearby

    def test_nearby_results_are_of_other_workloads_and_like_devices(
        self, recorder: StudyRecorder
    ) -> None:
        def measure(workload: Workload, block: int, time_us: float, **changes: Any) -> None:
            definition = make_definition(**changes)
            study_id = recorder.open_study(definition, fresh=False).study_id
            point = make_point(block, workload=workload)
            trial_id = recorder.start_trial(study_id, point, GEOMETRY)
            recorder.finish_trial(trial_id, make_report([time_us] * 3), bytes_moved=BYTES_MOVED)

        def device(architecture: str) -> dict[str, Any]:
            return {"environment": Environment({"architecture": architecture}, {})}

        other = make_workload("vector_add", (2048, 4096), "float16", {"scale": 0.1})
        here, like, unlike = device("gfx1201"), device("gfx1200"), device("gfx1100")
        measure(WORKLOAD, 64, 1.0, **here)  # the study would take it over: not nearby
        measure(WORKLOAD, 64, 2.0, **here, protocol=Protocol(samples=9))
        measure(other, 64, 3.0, **here, sources={"block": make_source("block", "old")})
        measure(other, 64, 4.0, **here)
        measure(other, 128, 5.0, **here)
        measure(WORKLOAD, 256, 6.0, **like)
        measure(WORKLOAD, 256, 7.0, **unlike)
        failing = recorder.open_study(make_definition(**here), fresh=False).study_id
        failed = recorder.start_trial(failing, make_point(512, workload=other), GEOMETRY)
        recorder.finish_trial(failed, make_failure(), bytes_moved=BYTES_MOVED)

        found = recorder.nearby_results(make_definition(**here), WORKLOAD, "block")

        as_plain = {
            (each.workload.shape, each.workload.dtype, each.same_device): sorted(
                (config["BLOCK"], time_us) for config, time_us in each.results
            )
            for each in found
        }
        assert as_plain == {
            ((1024, 4096), "float32", True): [(64, 2.0)],
            ((2048, 4096), "float16", True): [(64, 4.0), (128, 5.0)],
            ((1024, 4096), "float32", False): [(256, 6.0)],
        }
        assert recorder.nearby_results(make_definition(**here), WORKLOAD, "serial") == []
