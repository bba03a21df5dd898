"""Controls of a run: when they are measured, of what, and what is stored of them."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field

import pytest
from scripted_study import by_block
from scripted_study import Harness
from scripted_study import name_of
from scripted_study import process_of
from scripted_study import ScriptedWorker
from scripted_study import STUDY

from tuner.domain.controls import ControlRound
from tuner.domain.controls import RunControls
from tuner.domain.job import ControlJob
from tuner.domain.job import Sampling
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.domain.study import StoredTrial
from tuner.domain.study import TrialPoint
from tuner.operator import Operator
from tuner.store.control_models import ControlRow
from tuner.store.controls import study_controls
from tuner.study.controls import ControlRounds
from tuner.study.spec import Budget


def controls_of(harness: Harness, study_id: int) -> list[RunControls]:
    with harness.store.session() as session:
        return study_controls(session, study_id)


def rows_of(harness: Harness) -> list[ControlRow]:
    with harness.store.session() as session:
        return list(session.query(ControlRow).order_by(ControlRow.id))


def drifting(part: float) -> ScriptedWorker:
    """A worker on which the sentinel takes longer in each round of the controls."""

    def sentinel_us(rounds: int, samples: int) -> list[float]:
        return [10.0 * (1.0 + part * (rounds > 1))] * samples

    return ScriptedWorker(by_block, sentinel_us=sentinel_us)


def test_every_workload_has_all_three_at_start_and_end(harness: Harness) -> None:
    worker = ScriptedWorker(by_block)

    study_id, _ = harness.run(worker)

    found = controls_of(harness, study_id)
    assert [each.workload.shape_text for each in found] == ["4x8", "5x8"]
    assert all(each.sentinel_count >= 2 for each in found)
    assert {(each.null_us, each.copy_us) for each in found} == {(1.5, 6.0)}
    assert worker.log[-1].startswith("confirm")
    rows = rows_of(harness)
    assert [each.kind for each in rows[:3]] == ["null", "copy", "sentinel"]
    first = [each for each in rows if each.kind == "sentinel" and each.position == 0]
    last = [each for each in rows if each.kind == "sentinel" and each.position > 0]
    assert len(first) == 2 <= len(last)
    assert {each.samples_us for each in first} == {"[10.0,10.0,10.0,10.0,10.0,10.0,10.0]"}


def test_the_sentinel_is_the_fastest_of_the_first_batch(harness: Harness) -> None:
    worker = ScriptedWorker(by_block)

    study_id, _ = harness.run(worker)

    trials = {trial.trial_id: trial for trial in harness.trials(study_id)}
    for each in controls_of(harness, study_id):
        batch = [trial for trial in trials.values() if trial.point.workload == each.workload][:4]
        fastest = min(batch, key=lambda trial: (trial.quick_median_us or 0.0, trial.trial_id))
        assert each.sentinel_id == fastest.trial_id
        names = {f"planted_{fastest.point.implementation}/{fastest.point.config['BLOCK']}"}
        assert names <= {name for name, _ in worker.controls}
        assert set(fastest.point.config.values()) == {32}


def test_the_copy_moves_what_the_workload_must(harness: Harness) -> None:
    worker = ScriptedWorker(by_block)
    harness.run(worker)
    # 4x8 floats in and out, and 5x8: whole words of 16 bytes, each read and written.
    assert {copy_bytes for _, copy_bytes in worker.controls} == {4 * 8 * 4 * 2, 5 * 8 * 4 * 2}


@pytest.mark.parametrize(("part", "marked"), [(0.05, True), (0.005, False), (-0.05, True)])
def test_a_sentinel_that_drifts_marks_the_run(harness: Harness, part: float, marked: bool) -> None:
    study_id, _ = harness.run(drifting(part))

    first = controls_of(harness, study_id)[0]

    assert first.is_marked is marked
    assert first.drift == pytest.approx(abs(part), rel=0.06)
    assert "4x8" in first.drift_text()


def test_each_run_of_a_study_is_judged_by_itself(harness: Harness) -> None:
    """A device that is slower on another day does not make either day unsteady."""
    study_id, finished = harness.run(ScriptedWorker(by_block), budget=Budget(trials=2))
    assert not finished
    slower = ScriptedWorker(by_block, sentinel_us=lambda _, samples: [20.0] * samples)

    assert harness.run(slower) == (study_id, True)

    first, second, *_ = controls_of(harness, study_id)
    assert first.workload == second.workload
    assert first.next_run_at == second.run_started_at
    assert second.next_run_at is None
    assert (first.drift, second.drift) == (0.0, 0.0)


def test_a_run_that_only_confirms_is_judged_too(harness: Harness) -> None:
    lost = {("confirm", "planted_good/32"): Outcome.INTERRUPTED}
    one = STUDY.replace(', "5x8"', "")
    with pytest.raises(Exception, match="could not be confirmed"):
        harness.run(ScriptedWorker(by_block, lost), text=one)
    worker = ScriptedWorker(by_block)

    study_id, finished = harness.run(worker, text=one)

    assert finished
    assert not [name for name in worker.log if "confirm" not in name]
    assert controls_of(harness, study_id)[-1].sentinel_count == 2


def test_a_run_that_measures_nothing_has_no_controls(harness: Harness) -> None:
    harness.run(ScriptedWorker(by_block))
    before = len(rows_of(harness))
    worker = ScriptedWorker(by_block)
    harness.run(worker)  # finished already
    harness.run(worker, text=STUDY.replace('"scripted"', '"equal"'))  # all is taken over
    assert len(rows_of(harness)) == before
    assert worker.controls == []


def test_a_run_without_a_valid_config_has_no_sentinel(harness: Harness) -> None:
    failures = {
        ("quick", f"planted_{name}/{block}"): Outcome.WRONG_RESULT
        for name in ("good", "wrong", "half")
        for block in (32, 64)
    }
    _, finished = harness.run(ScriptedWorker(by_block, failures))
    assert finished
    assert rows_of(harness) == []


class Stopping(ScriptedWorker):
    """Is stopped by the user while it measures its second round."""

    def run_controls(self, job: ControlJob, limits: Limits) -> list[TrialReport]:
        if self.controls:
            raise KeyboardInterrupt
        return super().run_controls(job, limits)


def test_a_stop_leaves_no_half_round(harness: Harness) -> None:
    with pytest.raises(KeyboardInterrupt):
        harness.run(Stopping(by_block))

    assert [(each.kind, each.position) for each in rows_of(harness)] == [
        ("null", 0), ("copy", 0), ("sentinel", 0),
    ]  # fmt: skip
    study_id, finished = harness.run(ScriptedWorker(by_block))
    assert finished
    stopped, *rest = controls_of(harness, study_id)
    assert (stopped.drift, stopped.is_marked) == (None, False)
    assert stopped.sentinel_count == 1
    assert [each.workload.shape_text for each in rest] == ["5x8"]


class Failing(ScriptedWorker):
    """Has no compiler for the copy, and loses its sentinel."""

    def run_controls(self, job: ControlJob, limits: Limits) -> list[TrialReport]:
        null, _, _ = super().run_controls(job, limits)
        copy = TrialReport(Failure(Outcome.COMPILE_ERROR, Stage.BUILD, "no compiler", "its log"))
        lost = TrialReport(Failure(Outcome.TIMEOUT, Stage.MEASURE, "no end within 60 s"))
        return [null, copy, lost]


def test_controls_that_fail_are_rows_and_stop_nothing(harness: Harness) -> None:
    study_id, finished = harness.run(Failing(by_block))

    assert finished
    first = controls_of(harness, study_id)[0]
    assert (first.null_us, first.copy_us, first.copy_gb_s, first.drift) == (1.5, None, None, None)
    assert first.failures == (
        "copy: no compiler (2 of 2 rounds)",
        "sentinel: no end within 60 s (2 of 2 rounds)",
    )
    (log,) = {each.log for each in rows_of(harness) if each.kind == "copy"}
    assert log == "its log"


@dataclass
class Notes:
    """A recorder of controls, and a clock that their measurement moves."""

    now_s: float = 0.0
    taken_s: float = 0.5
    rounds: list[float] = field(default_factory=list)

    def record_controls(self, _study_id: int, _measured: ControlRound) -> None:
        self.rounds.append(self.now_s)

    def run_controls(self, job: ControlJob, _limits: Limits) -> list[TrialReport]:
        self.now_s += self.taken_s
        return [TrialReport(None, process=process_of([1.0] * job.sampling.samples))] * 3


def test_regular_rounds_take_a_hundredth_of_the_time(planted: Operator) -> None:
    notes = Notes()
    workload = planted.workload((4, 8), "float32")
    point = TrialPoint(workload, "good", {"BLOCK": 32})
    good = planted.implementation("good")
    sampling = Sampling(1, 2, 1, 100.0, "hot", "auto", "", 1)
    rounds = ControlRounds(
        planted, notes, notes, sampling, Limits(),  # type: ignore[arg-type]
        lambda each: planted.kernel(good, planted.source(good), each.config, workload),
        clock_s=lambda: notes.now_s,
    )  # fmt: skip
    trial = StoredTrial(1, point, 0, Outcome.OK, 10.0)
    assert rounds.due(workload)
    rounds.measure(1, workload, [])  # nothing is valid yet
    assert not rounds.begun(workload)
    while notes.now_s < 1000.0:  # a batch a second
        notes.now_s += 1.0
        if rounds.due(workload):
            rounds.measure(1, workload, [trial])
    taken_s = notes.taken_s * (len(notes.rounds) - 1)
    assert 0.008 * notes.now_s < taken_s <= 0.01 * notes.now_s

    notes.rounds, notes.taken_s = [], 0.001  # a quick device: still not after every batch
    for _ in range(100):
        notes.now_s += 1.0
        if rounds.due(workload):
            rounds.measure(1, workload, [trial])
    assert 15 <= len(notes.rounds) <= 20
    assert name_of(rounds.kernel_of(point)) == "planted_good/32"
