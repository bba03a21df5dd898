"""The verdict of a study: a word and the ratio and interval it rests on, never one without."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from scripted_device import Laboratory

from tuner import api
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Protocol
from tuner.report.chain import chain_text
from tuner.report.reproduce import Entry
from tuner.report.reproduce import judge_times
from tuner.report.reproduce import Original
from tuner.report.reproduce import Rerun
from tuner.report.verdict import overall
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_point


def around(*medians_us: float) -> list[list[float]]:
    """Processes of five nearly equal samples around each median."""
    return [[us * (1.0 + 1e-4 * step) for step in (-2, -1, 0, 1, 2)] for us in medians_us]


def entry(original_us: list[list[float]], rerun_us: list[list[float]]) -> Entry:
    """A result beside its rerun, judged."""
    workload, environment = make_point().workload, make_environment()
    original = Original(
        "trial", "1", workload, "good", {}, tuple(map(tuple, original_us)), 10.0, environment,
        Protocol(),
    )  # fmt: skip
    rerun = Rerun(workload, {}, Outcome.OK, processes_us=tuple(map(tuple, rerun_us)))
    return Entry(original, rerun, judge_times(original_us, rerun_us, is_cpu=False))


def test_one_faster_result_does_not_make_a_study_faster(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good", blocks=(32, 64, 96))
    laboratory.change(factor={"planted_second_good": 0.955})

    report = laboratory.reproduce(f"study:{study}")

    verdicts = Counter(each.judgement.verdict for each in report.entries)
    assert verdicts == {"same": 3, "faster": 1}
    assert report.judgement.verdict == "same"
    assert report.judgement.reasons == ("1 of 4 results: faster",)


@pytest.mark.parametrize("factors", [(0.4, 1.0, 1.3), (1.0, 1.0, 1.1), (0.9, 0.9, 0.9), (1, 1, 1)])
@pytest.mark.parametrize("spread", [0.001, 0.3])
def test_a_verdict_on_times_is_what_its_interval_says(
    factors: tuple[float, ...], spread: float
) -> None:
    """Whatever the results are, faster and slower never stand beside an interval that holds 1."""
    before = around(*(10.0 * math.exp(spread * step) for step in (-1, 0, 1)))
    after = [[[us * factor for us in each] for each in before] for factor in factors]

    found = overall([entry(before, each) for each in after], is_cpu=False)

    assert found.low is not None
    assert found.high is not None
    assert found.threshold is not None
    limit = 1.0 + found.threshold
    assert (found.verdict == "slower") == (found.low > limit)
    assert (found.verdict == "faster") == (found.high < 1.0 / limit)
    assert (found.verdict == "same") == (found.low >= 1.0 / limit and found.high <= limit)


def test_a_verdict_of_two_looks_is_listed_once(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good", blocks=(32, 64))
    laboratory.change(factor={"planted_second_good": 1.1})

    first = laboratory.reproduce(f"study:{study}")
    second = laboratory.reproduce(f"study:{study}")

    everything = api.page_reproductions(laboratory.settings).items
    # Of each rerun: the study, and its three trials, one of which was measured twice.
    assert [each["original_kind"] for each in everything] == ["study", *["trial"] * 3] * 2
    studies = [
        (each["rerun_study_id"], each["again_study_id"])
        for each in everything
        if each["original_kind"] == "study"
    ]
    assert studies == [second.study_ids, first.study_ids]
    twice = [each["again_trial_id"] for each in everything if each["original_kind"] == "trial"]
    assert sum(each is not None for each in twice) == 2

    paged, cursor = [], None
    while True:
        page = api.page_reproductions(laboratory.settings, 1, cursor)
        paged += page.items
        if (cursor := page.following) is None:
            break
    assert paged == list(everything)


def test_a_reruns_own_study_shows_what_it_measured(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good")
    report = laboratory.reproduce(f"study:{study}")

    view = api.study_view(report.study_ids[0], laboratory.settings)

    (workload,) = view.workloads
    assert set(workload.smallest_median_us) == {"good", "second-good"}
    assert workload.answer is not None
    assert workload.answer["best"]["study_id"] == report.study_ids[0]
    trial_id = report.entries[0].rerun.trial_id
    assert trial_id is not None
    trial = api.show_trial(trial_id, laboratory.settings)
    assert (trial["claim"]["standing"], trial["claim"]["compared"]) == ("rerun", 2)
    assert "a rerun: makes no claim of its own" in chain_text(trial, with_source=False)
