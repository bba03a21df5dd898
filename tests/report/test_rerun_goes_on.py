"""A rerun that was stopped goes on with its own studies: none is left behind, none begun again."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_device import Laboratory
from scripted_device import ScriptedWorker

from tuner import api
from tuner.domain.job import ConfirmJob
from tuner.domain.protocol import Limits
from tuner.domain.queue import JobKind
from tuner.domain.records import TrialReport


class Pulled(BaseException):
    """The plug was pulled."""


def run(laboratory: Laboratory, record: str, study_id: int | None, opened: list[int]) -> Any:
    """Run a job that reproduces a record, anew or going on."""
    request = {"record": record, "device": None, "shape": None}
    laboratory.script.rounds = 0
    return api.run_job(
        JobKind.REPRODUCE, request, "cuda:0", laboratory.settings, study_id=study_id,
        on_study=opened.append,
    )  # fmt: skip


def stop_in_process(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have the confirming process of this number end the run."""
    left = [number]
    confirm = ScriptedWorker.run_confirmation

    def stopping(self: ScriptedWorker, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        if left[0] == 0:
            raise Pulled
        left[0] -= 1
        return confirm(self, job, limits)

    monkeypatch.setattr(ScriptedWorker, "run_confirmation", stopping)


# Three processes of the first look, and three of a second one that what is slower gets.
@pytest.mark.parametrize(("before", "studies_before"), [(0, 1), (2, 1), (3, 2), (5, 2)])
def test_what_was_measured_before_the_stop_is_not_measured_again(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, before: int, studies_before: int
) -> None:
    study = laboratory.run("second-good")
    laboratory.change(factor={"planted_second_good": 1.2})
    begun: list[int] = []
    with monkeypatch.context() as patch:
        stop_in_process(patch, before)
        with pytest.raises(Pulled):
            run(laboratory, f"study:{study}", None, begun)
    assert len(begun) == studies_before
    # Somebody else's rerun of the same record, meanwhile.
    other = laboratory.reproduce(f"study:{study}")

    laboratory.script.interleaved.clear()
    gone_on: list[int] = []
    result = run(laboratory, f"study:{study}", begun[-1], gone_on)

    assert laboratory.script.interleaved == ([2] * 3 + [1] * 3)[before:]
    assert begun[-1] == gone_on[0]
    assert result["rerun_study_ids"] == list(dict.fromkeys([*begun, *gone_on]))
    assert not set(result["rerun_study_ids"]) & set(other.study_ids)
    assert result["verdict"] == "slower"
    assert result["ratio"] == pytest.approx(1.2, rel=0.01)
    studies = api.page_studies(laboratory.settings).items
    assert {each["state"] for each in studies} == {"finished"}
    assert len(studies) == 1 + 2 + 2


def test_one_that_was_ended_after_its_verdict_gives_it_once(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good")
    opened: list[int] = []
    first = run(laboratory, f"study:{study}", None, opened)
    reruns = api.page_reproductions(laboratory.settings).items
    laboratory.script.kernels.clear()

    again = run(laboratory, f"study:{study}", opened[-1], opened)

    assert again == first
    assert laboratory.script.kernels == []
    assert api.page_reproductions(laboratory.settings).items == reruns


def test_a_trial_that_was_cut_off_is_tried_again(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = laboratory.only_trial(laboratory.run())
    opened: list[int] = []

    def pull(*_: object) -> TrialReport:
        raise Pulled

    with monkeypatch.context() as patch:
        patch.setattr(ScriptedWorker, "run_trial", pull)
        with pytest.raises(Pulled):
            run(laboratory, str(trial), None, opened)

    assert run(laboratory, str(trial), opened[0], opened)["rerun_study_ids"] == opened[:1]
    trials = api.page_trials(str(opened[0]), laboratory.settings).items
    assert [each["outcome"] for each in trials] == ["interrupted", "ok"]
