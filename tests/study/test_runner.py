"""The study loop over a real database and a scripted worker."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from dataclasses import field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_study import by_block
from scripted_study import Harness
from scripted_study import name_of
from scripted_study import ScriptedWorker
from scripted_study import STUDY

from tuner.domain.job import Kernel
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import BuiltAhead
from tuner.domain.records import Failure
from tuner.domain.study import StoredTrial
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import EnvironmentProblem
from tuner.store import queries
from tuner.study.confirm import finalists
from tuner.study.spec import Budget


def test_defaults_run_first_then_the_rest_then_the_finalists(harness: Harness) -> None:
    worker = ScriptedWorker(by_block)

    study_id, finished = harness.run(worker)

    assert finished
    first = worker.log[:8]
    assert first[:3] == ["planted_good/64", "planted_wrong/64", "planted_half/64"]
    assert sorted(first[3:5]) == ["planted_good/32", "planted_wrong/32"]
    # The two fastest, and the fastest of the third implementation.
    assert first[5:] == ["confirm 3 from 0", "confirm 3 from 1", "confirm 3 from 2"]
    confirmed = [str(trial.point) for trial in harness.trials(study_id) if trial.confirmed]
    assert sorted(confirmed) == [
        f"{shape} {name} BLOCK={block}"
        for shape in ("4x8", "5x8")
        for name, block in (("good", 32), ("half", 64), ("wrong", 32))
    ]


def test_a_failed_trial_is_no_finalist(harness: Harness) -> None:
    failures = {("quick", "planted_wrong/32"): Outcome.WRONG_RESULT}

    study_id, _ = harness.run(ScriptedWorker(by_block, failures))

    outcomes = {str(trial.point): trial for trial in harness.trials(study_id)}
    assert outcomes["4x8 wrong BLOCK=32"].outcome is Outcome.WRONG_RESULT
    assert outcomes["4x8 wrong BLOCK=64"].confirmed


def test_a_finalist_that_fails_gives_its_place_to_the_next(harness: Harness) -> None:
    failures = {("confirm", "planted_good/32"): Outcome.UNSTABLE_RESULT}

    study_id, finished = harness.run(ScriptedWorker(by_block, failures))

    assert finished
    trials = {str(trial.point): trial for trial in harness.trials(study_id)}
    assert trials["4x8 good BLOCK=32"].outcome is Outcome.UNSTABLE_RESULT
    assert not trials["4x8 good BLOCK=32"].confirmed
    assert trials["4x8 good BLOCK=64"].confirmed


def test_a_finished_study_adds_nothing(harness: Harness) -> None:
    first, _ = harness.run(ScriptedWorker(by_block))
    worker = ScriptedWorker(by_block)

    second, finished = harness.run(worker)

    assert (second, finished) == (first, True)
    assert worker.log == []


def test_what_comes_next_is_made_ready_once_and_only_where_something_is_measured(
    harness: Harness,
) -> None:
    worker = ScriptedWorker(by_block)
    harness.run(worker)
    assert worker.prepared == [(4, 8), (5, 8)]
    assert harness.kept_ready == [3, 3]  # with the last trials of each workload

    other = STUDY.replace('name = "scripted"', 'name = "other"')
    harness.run(worker, text=other.replace('"5x8"]', '"6x8"]'))
    assert worker.prepared == [(4, 8), (5, 8), (6, 8)]
    assert harness.kept_ready == [3, 3, 3]


def test_what_was_cut_off_is_tried_again_first(harness: Harness) -> None:
    cut = ScriptedWorker(by_block, stop_at="planted_half/64")
    with pytest.raises(KeyboardInterrupt):
        harness.run(cut)
    worker = ScriptedWorker(by_block)

    study_id, finished = harness.run(worker)

    assert finished
    # The batch that was under way, whole.
    cut_off = ["planted_good/64", "planted_wrong/64", "planted_half/64"]
    assert worker.log[:3] == cut_off
    trials = harness.trials(study_id)
    done = [trial for trial in trials if trial.outcome is not Outcome.INTERRUPTED]
    assert len(done) == len({trial.point.key for trial in done}) == 10
    assert [trial.attempt for trial in trials if "half" in trial.point.implementation] == [0, 1, 0]


def test_a_budget_confirms_what_it_has_and_the_next_run_goes_on(harness: Harness) -> None:
    worker = ScriptedWorker(by_block)

    study_id, finished = harness.run(worker, budget=Budget(trials=2))
    assert not finished
    assert worker.log[-1] == "confirm 2 from 2"
    again, finished = harness.run(ScriptedWorker(by_block))

    assert finished
    assert again == study_id
    assert len(harness.trials(study_id)) == 10


def test_equal_trials_of_another_study_are_taken_over(harness: Harness) -> None:
    harness.run(ScriptedWorker(by_block))
    worker = ScriptedWorker(by_block)

    study_id, finished = harness.run(worker, text=STUDY.replace("[64]", "[64, 128]"))

    assert finished
    assert [name for name in worker.log if "confirm" not in name] == ["planted_half/128"] * 2
    assert len(harness.trials(study_id)) == 12
    fresh = ScriptedWorker(by_block)
    harness.run(fresh, fresh=True)
    assert len([name for name in fresh.log if "confirm" not in name]) == 10


def test_configs_of_one_binary_are_warned_of(harness: Harness) -> None:
    study_id, _ = harness.run(ScriptedWorker(by_block))  # gives every trial the same hash

    with harness.store.session() as session:
        trials = queries.list_trials(session, study_id)
    warned = [str(trial.config) for trial in trials if "same_binary: trial" in str(trial.warnings)]
    # Of each workload's two blocks of `good` and `wrong`, the second is warned of.
    assert len(warned) == 4


def test_a_device_that_is_lost_again_and_again_stops_the_study(harness: Harness) -> None:
    failures = {
        ("confirm", f"planted_{name}/{block}"): Outcome.INTERRUPTED
        for name in ("good", "wrong", "half")
        for block in (32, 64)
    }

    with pytest.raises(EnvironmentProblem, match="could not be confirmed"):
        harness.run(ScriptedWorker(by_block, failures))


@dataclass
class ScriptedBuilds:
    """Answers at once, with failures by script, and notes what was asked of it."""

    overlaps: bool = False
    count: int = 2
    failures: dict[str, Failure] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        self.asked.append(name_of(kernel))
        future: Future[BuiltAhead] = Future()
        future.set_result(BuiltAhead(self.failures.get(name_of(kernel)), 0.25, cached=False))
        return future


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_build_that_failed_ahead_is_its_trials_outcome(harness: Harness, overlaps: bool) -> None:
    failure = Failure(Outcome.COMPILE_ERROR, Stage.BUILD, "no such name", "line 1\nline 2")
    builds = ScriptedBuilds(overlaps, failures={"planted_good/32": failure})
    worker = ScriptedWorker(by_block)

    study_id, finished = harness.run(worker, builds=builds)

    assert finished
    assert "planted_good/32" not in worker.log
    with harness.store.session() as session:
        details = [
            queries.trial_detail(session, each.id)
            for each in queries.list_trials(session, study_id)
        ]
    failed = [each for each in details if each.summary.outcome == "compile_error"]
    assert [str(each.summary.config) for each in failed] == ["{'BLOCK': 32}"] * 2
    assert {each.log for each in failed} == {"line 1\nline 2"}
    built = {each.build.build_s for each in details if each.build is not None}
    assert built == {0.25}, "the time is that of the build, not of finding it in the cache"


def test_what_is_taken_over_is_not_built(harness: Harness) -> None:
    harness.run(ScriptedWorker(by_block))
    builds = ScriptedBuilds()

    harness.run(ScriptedWorker(by_block), text=STUDY.replace("[64]", "[64, 128]"), builds=builds)

    assert builds.asked == ["planted_half/128"] * 2


def test_one_that_is_unstable_in_company_is_measured_alone(harness: Harness) -> None:
    failures = {("quick", "planted_good/64"): Outcome.UNSTABLE_RESULT}
    worker = ScriptedWorker(by_block, failures)

    study_id, _ = harness.run(worker)

    assert worker.log.count("planted_good/64 alone") == 2
    assert {trial.outcome for trial in harness.trials(study_id)} == {Outcome.OK}
    both = {**failures, ("alone", "planted_good/64"): Outcome.UNSTABLE_RESULT}
    study_id, _ = harness.run(ScriptedWorker(by_block, both), fresh=True)
    outcomes = [trial.outcome for trial in harness.trials(study_id)]
    assert outcomes.count(Outcome.UNSTABLE_RESULT) == 2


def test_what_the_last_batch_gave_is_kept_when_the_next_is_stopped(harness: Harness) -> None:
    builds = ScriptedBuilds(overlaps=True)
    text = STUDY.replace("[32, 64]", "[32, 64, 128]")
    worker = ScriptedWorker(by_block, stop_at="planted_wrong/128")
    with pytest.raises(KeyboardInterrupt):
        harness.run(worker, text=text, builds=builds)

    trials = {str(trial.point): trial.outcome for trial in harness.trials(1)}
    assert trials["4x8 good BLOCK=64"] is Outcome.OK
    assert trials["4x8 wrong BLOCK=128"] is Outcome.INTERRUPTED
    assert None not in trials.values()


def test_what_a_budget_left_out_is_told(harness: Harness) -> None:
    harness.run(ScriptedWorker(by_block), budget=Budget(trials=2))

    assert [str(each) for each in harness.runner.uncovered()] == [
        "4x8 good: 1 of 2 configs not tried",
        "4x8 wrong: 1 of 2 configs not tried",
        "4x8 half: 1 of 1 configs not tried",
        "5x8 good: 2 of 2 configs not tried",
        "5x8 wrong: 2 of 2 configs not tried",
        "5x8 half: 1 of 1 configs not tried",
    ]
    harness.run(ScriptedWorker(by_block))
    assert harness.runner.uncovered() == ()


@given(
    st.lists(st.floats(0.5, 1e4), min_size=1, max_size=30),
    st.integers(1, 8),
    st.floats(1.0, 3.0),
)
def test_finalists_are_near_the_fastest_and_few(
    times_us: list[float], count: int, within: float
) -> None:
    workload = Workload("planted", (4, 8), "float32", ())
    trials = [
        StoredTrial(
            number, TrialPoint(workload, f"i{number % 3}", {"n": number}), 0, Outcome.OK, time_us
        )
        for number, time_us in enumerate(times_us)
    ]
    chosen = finalists(trials, count, within)

    fastest = min(times_us)
    assert chosen[0].quick_median_us == fastest
    names = {each.point.implementation for each in trials}
    leaders = [
        min(
            (each for each in trials if each.point.implementation == name),
            key=lambda each: (each.quick_median_us, each.trial_id),
        )
        for name in names
    ]
    others = [each for each in chosen if each not in leaders]
    assert all((each.quick_median_us or 0) <= within * fastest for each in others)
    assert len(chosen) <= count + len(leaders) - 1
    assert {each.point.implementation for each in chosen} == names
    near = [each for each in trials if (each.quick_median_us or 0) <= within * fastest]
    assert len(chosen) >= min(count, len(near))
