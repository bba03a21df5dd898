"""The study loop over a real database and a scripted worker."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.device import DeviceFacts
from tuner.domain.environment import Environment
from tuner.domain.job import ConfirmJob
from tuner.domain.job import Kernel
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import BuildReport
from tuner.domain.records import BuiltAhead
from tuner.domain.records import Failure
from tuner.domain.records import ProcessReport
from tuner.domain.records import TrialReport
from tuner.domain.study import SourceText
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import EnvironmentProblem
from tuner.operator import Operator
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.study import events
from tuner.study.ahead import Builds
from tuner.study.confirm import finalists
from tuner.study.plan import make_plan
from tuner.study.runner import StudyRunner
from tuner.study.spec import Budget
from tuner.study.spec import parse_study
from tuner.worker.builders import NoBuilders

FACTS = DeviceFacts(
    "fake:0", "fake", "fake1", "fake", 1, 32, 1024, (2**31 - 1, 65535, 65535), 2**63 - 1, 65536,
    255, 2**40, 0, "host-clock",
)  # fmt: skip
STUDY = """schema = 1
name = "scripted"
operator = "planted"
shapes = ["4x8", "5x8"]
[space.good]
BLOCK = [32, 64]
[space.wrong]
BLOCK = [32, 64]
[space.half]
BLOCK = [64]
[search]
finalists = 2
[protocol]
processes = 3
samples = 4
"""


@dataclass
class ScriptedWorker:
    """Takes times and failures from a script, by entry point and block."""

    quick_us: Callable[[Kernel], float]
    failures: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    stop_at: str = ""

    def run_trial(self, job: TrialJob, limits: Limits) -> TrialReport:
        self.log.append(f"{name_of(job.kernel)} alone")
        return self._report(job.kernel, "alone", job.sampling.samples)

    def run_screening(
        self, job: ScreenJob, limits: Limits, meanwhile: Callable[[], None] | None = None
    ) -> list[TrialReport]:
        names = [name_of(kernel) for kernel in job.kernels]
        if meanwhile is not None:
            meanwhile()
        if self.stop_at in names:
            raise KeyboardInterrupt
        self.log += names
        return [self._report(kernel, "quick", job.sampling.samples) for kernel in job.kernels]

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        self.log.append(f"confirm {len(job.kernels)} from {job.rotation}")
        return [self._report(kernel, "confirm", job.sampling.samples) for kernel in job.kernels]

    def prepare(self, job: ConfirmJob) -> None:
        del job

    def await_prepared(self, limits: Limits) -> None:
        del limits

    def close(self, *, force: bool = False) -> None:
        del force

    def _report(self, kernel: Kernel, stage: str, samples: int) -> TrialReport:
        outcome = self.failures.get((stage, name_of(kernel)))
        if outcome is not None:
            return TrialReport(Failure(outcome, Stage.VALIDATE, "as scripted"))
        time_us = self.quick_us(kernel)
        times = tuple(time_us * (1 + step / 1000) for step in range(samples))
        return TrialReport(
            None, BuildReport(0.1, "0" * 64, "none"), (), ProcessReport(times, 1, 1, "stream")
        )


def name_of(kernel: Kernel) -> str:
    return f"{kernel.entry}/{kernel.geometry.threads}"


def by_block(kernel: Kernel) -> float:
    """Smaller blocks are faster; `half` is the slowest."""
    return kernel.geometry.threads * (10.0 if "half" in kernel.entry else 1.0)


@dataclass
class Harness:
    """Runs the scripted study over one database."""

    operator: Operator
    store: Store
    events: list[events.Event] = field(default_factory=list)

    def run(
        self, worker: ScriptedWorker, *, text: str = STUDY, fresh: bool = False,
        budget: Budget | None = None, builds: Builds | None = None,
    ) -> tuple[int, bool]:  # fmt: skip
        spec = parse_study(text, "scripted.toml")
        plan = make_plan(spec, self.operator, FACTS)
        sources = {
            each.name: self.operator.source(each) for each in spec.implementations(self.operator)
        }
        definition = StudyDefinition(
            spec.name, self.operator.name, spec.as_plain(), "fake:0",
            Environment({"architecture": "fake1"}, {}), spec.protocol,
            {
                name: SourceText(each.source_hash, each.language, each.entry, each.main, each.files)
                for name, each in sources.items()
            },
            {name: each.language for name, each in sources.items()},
            plan.sampler, 0, plan.planned,
        )  # fmt: skip
        self.runner = StudyRunner(
            operator=self.operator,
            spec=spec,
            plan=plan,
            definition=definition,
            sources=sources,
            recorder=self.store.recorder(),
            worker=worker,
            start_workers=lambda count: [worker] * count,
            builds=builds or NoBuilders(),
            listener=self.events.append,
            budget=budget or Budget(),
            fresh=fresh,
        )
        return self.runner.run()

    def trials(self, study_id: int) -> list[StoredTrial]:
        return self.store.recorder().stored_trials(study_id)


@pytest.fixture
def harness(planted: Operator, tmp_path: Path) -> Iterator[Harness]:
    """Return a harness over a database of its own."""
    with open_store(str(tmp_path / "scripted.db"), create=True, writable=True) as store:
        yield Harness(planted, store)


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
