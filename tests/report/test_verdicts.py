"""Reproductions: verdicts under realistic noise, and everything that differs is named."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from scripted_device import IDENTITY
from scripted_device import Laboratory
from stored_evidence import record
from stored_evidence import store_evidence

from tuner import api
from tuner.domain.evidence import StoredReproduction
from tuner.domain.outcome import Outcome
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.reproduce import exit_code
from tuner.report.reproduce import judge_times
from tuner.report.reproduce import threshold_for
from tuner.report.speedups import claims
from tuner.report.speedups import rankings
from tuner.store import open_store
from tuner.store.reproductions import list_reproductions

REPEATS = 20


def reproductions(laboratory: Laboratory, **which: Any) -> list[StoredReproduction]:
    """Return what was stored of the reruns."""
    with (
        open_store(laboratory.settings.db, create=False, writable=False) as store,
        store.session() as session,
    ):
        return list_reproductions(session, **which)


def three(*medians_us: float) -> list[list[float]]:
    """Processes of five nearly equal samples around each median."""
    return [[us * (1.0 + 1e-4 * step) for step in (-2, -1, 0, 1, 2)] for us in medians_us]


@pytest.mark.parametrize(
    ("rerun_us", "verdict"),
    [
        ((10.0, 10.01, 9.99), "same"),
        ((10.1, 10.11, 10.09), "same"),
        ((10.5, 10.51, 10.49), "slower"),
        ((9.5, 9.51, 9.49), "faster"),
        ((10.2, 10.21, 10.19), "ambiguous"),  # on the threshold
        ((10.0, 10.6, 9.4), "ambiguous"),  # too unsteady to tell
    ],
)
def test_the_interval_decides_against_the_threshold(
    rerun_us: tuple[float, ...], verdict: str
) -> None:
    judgement = judge_times(three(10.0, 10.01, 9.99), three(*rerun_us), is_cpu=False)

    assert judgement.verdict == verdict
    assert judgement.low is not None
    assert judgement.high is not None
    assert judgement.ratio is not None
    assert judgement.low <= judgement.ratio <= judgement.high
    assert judgement.threshold == 0.02


def test_the_threshold_grows_where_times_tell_less() -> None:
    usual = threshold_for(10.0, is_cpu=False, processes=3)

    assert threshold_for(0.857, is_cpu=False, processes=3) == pytest.approx(0.03 / 0.857)
    assert threshold_for(10.0, is_cpu=False, processes=1) > usual
    assert threshold_for(10.0, is_cpu=True, processes=3) > usual


def test_noise_is_not_called_a_change_and_five_percent_is(laboratory: Laboratory) -> None:
    # Processes of the H200's noisiest fifth of trials; most are ten times as steady.
    laboratory.change(within=0.0055, between=0.003, session=0.005)
    trial = laboratory.only_trial(laboratory.run(samples=50))

    alike = Counter(laboratory.reproduce(trial).judgement.verdict for _ in range(REPEATS))
    laboratory.change(factor={"planted_good": 1.05})
    slowed = Counter(laboratory.reproduce(trial).judgement.verdict for _ in range(REPEATS))

    assert alike["slower"] + alike["faster"] <= 1, alike
    assert alike["same"] >= REPEATS / 2, alike
    assert slowed["slower"] >= REPEATS - 1, slowed


def test_what_is_not_the_same_is_measured_in_a_second_session(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    laboratory.change(factor={"planted_good": 1.2})

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "slower"
    assert len(report.study_ids) == 2
    assert len(report.entries[0].rerun.processes_us) == 6
    assert report.judgement.ratio == pytest.approx(1.2, rel=0.01)
    (linked,) = reproductions(laboratory)  # one verdict, though two reruns are linked
    assert (linked.reproduction.rerun_study_id, linked.again_study_id) == report.study_ids
    rerun = report.entries[0].rerun
    assert (linked.reproduction.rerun_trial_id, linked.again_trial_id) == (
        rerun.trial_id,
        rerun.again_trial_id,
    )
    assert linked.reproduction.verdict == "slower"
    assert exit_code(report.judgement.verdict) == 1


def test_the_original_stays_as_it_was_and_the_rerun_is_linked(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    before = api.show_trial(trial, laboratory.settings)

    report = laboratory.reproduce(trial)

    after = api.show_trial(trial, laboratory.settings)
    assert len(after["reproductions"]) == 1
    for changing in ("claim", "reproductions"):
        del before[changing], after[changing]
    assert after == before
    rerun = report.entries[0].rerun
    stored = api.show_trial(rerun.trial_id or 0, laboratory.settings)
    assert stored["summary"]["confirmed"] is True
    assert stored["summary"]["study_id"] == rerun.study_id == report.study_ids[0]
    (link,) = reproductions(laboratory, original_kind="trial", original_id=str(trial))
    assert link.reproduction.verdict == "same"
    assert link.reproduction.rerun_trial_id == rerun.trial_id
    assert link.reproduction.ratio_low is not None


def test_a_rerun_that_computes_wrong_is_wrong_on_any_device(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    laboratory.change(
        outcomes={"planted_good": Outcome.WRONG_RESULT},
        identity={**IDENTITY, "compute_units": "64"},
    )

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "wrong"
    assert report.judgement.ratio is None
    assert "as the test says" in report.judgement.reasons[0]
    assert exit_code("wrong") == 1


def test_a_crash_is_wrong_here_and_not_comparable_elsewhere(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    laboratory.change(outcomes={"planted_good": Outcome.OUT_OF_RESOURCES})

    assert laboratory.reproduce(trial).judgement.verdict == "wrong"

    laboratory.change(identity={**IDENTITY, "architecture": "sm_75"})
    assert laboratory.reproduce(trial).judgement.verdict == "not_comparable"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("architecture", "sm_80"),
        ("compute_units", "114"),
        ("pci_device_id", "10de:2331"),
        ("pci_device_id", "unknown: the driver does not tell"),
    ],
)
def test_another_device_is_not_comparable(laboratory: Laboratory, field: str, value: str) -> None:
    trial = laboratory.only_trial(laboratory.run())
    laboratory.change(identity={**IDENTITY, field: value})

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "not_comparable"
    assert any(field in reason for reason in report.judgement.reasons)
    assert exit_code("not_comparable") == 3


@pytest.mark.parametrize("field", ["driver", "compiler", "triton"])
def test_another_toolchain_is_named_and_compared(laboratory: Laboratory, field: str) -> None:
    trial = laboratory.only_trial(laboratory.run())
    laboratory.change(identity={**IDENTITY, field: "9.9.9"})

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "same"
    assert [each.name for each in report.differences if each.is_identity] == [field]
    (link,) = reproductions(laboratory)
    assert link.reproduction.differences == [
        {"field": field, "recorded": IDENTITY[field], "here": "9.9.9", "identity": True}
    ]


def test_the_stored_source_is_run_and_an_edited_header_named(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    (laboratory.operator / "twice.h").write_text("// thrice\n")

    stored = laboratory.reproduce(trial)

    assert [each.files for each in stored.source_changes] == [("twice.h",)]
    assert "-// twice\n+// thrice\n" in stored.source_changes[0].diff
    assert {kernel.files["twice.h"] for kernel in laboratory.script.kernels} == {"// twice\n"}
    assert stored.judgement.verdict == "same"

    today = laboratory.reproduce(trial, current_source=True)

    assert today.used_current_source
    assert {kernel.files["twice.h"] for kernel in laboratory.script.kernels} == {"// thrice\n"}
    assert today.source_changes


def test_source_that_is_gone_does_not_stop_the_rerun(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    (laboratory.operator / "twice.h").unlink()

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "same"
    assert "can't be read" in report.source_changes[0].problem
    with pytest.raises(NotFound, match="today's source"):
        laboratory.reproduce(trial, current_source=True)


def test_another_compile_flag_is_named(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    laboratory.change(options=("--std=c++17", "-O1"))

    (change,) = laboratory.reproduce(trial).changes()

    assert "build options: nothing -> -O1" in change


def test_another_version_of_the_measuring_code_is_not_comparable(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = laboratory.only_trial(laboratory.run())
    monkeypatch.setattr("tuner.api.reproducing.MEASUREMENT_VERSION", 99)

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "not_comparable"
    assert "protocol: version: 1 -> 99" in report.judgement.reasons


def test_the_protocol_and_the_geometry_are_the_stored_ones(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run(launches="7"))
    operator = laboratory.operator / "operator.py"
    text = operator.read_text()
    changed = text.replace('(dims["rows"], 1, 1), int', '(dims["rows"], 2, 1), int')
    assert changed != text
    operator.write_text(changed)

    report = laboratory.reproduce(trial)

    full = [each for each in laboratory.script.samplings if each.samples == 20]
    assert len(full) == 3
    assert {(each.warmup, each.launches_per_sample, each.input_seed) for each in full} == {
        (1, 7, 20260719)
    }
    assert {kernel.geometry.grid for kernel in laboratory.script.kernels} == {(6, 1, 1)}
    assert (
        "good BLOCK=64: launch geometry: stored grid 6x1x1, 64 threads, 0 shared bytes; that was "
        "run, and not today's grid 6x2x1, 64 threads, 0 shared bytes"
    ) in report.changes()


def test_launches_that_were_chosen_may_differ_and_are_named(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run(launches="auto"))
    laboratory.change(launches=80)

    report = laboratory.reproduce(trial)

    assert report.judgement.verdict == "same"
    assert any("launches a sample (chosen): 100 -> 80" in each for each in report.changes())


def test_a_study_is_rerun_interleaved_and_its_ranking_compared(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good", blocks=(32, 64))
    laboratory.change(factor={"planted_second_good": 0.25})

    report = laboratory.reproduce(f"study:{study}")

    assert laboratory.script.interleaved[:3] == [3, 3, 3]
    verdicts = {each.original.implementation: each.judgement.verdict for each in report.entries}
    assert verdicts == {"good": "same", "second-good": "faster"}
    assert report.judgement.verdict == "faster"
    (ranking,) = rankings(report.entries)
    assert ranking.recorded == ("good", "second-good")
    assert ranking.rerun == ("second-good", "good")
    assert ranking.swapped == (("good", "second-good"),)
    texts = [str(each) for each in claims(report.entries)]
    assert any(
        "good BLOCK=32 is 2.01 times as fast as second-good: here 0.50" in each for each in texts
    )
    assert any("good BLOCK=32 is 1" in each and "good BLOCK=64: here 1" in each for each in texts)


def test_a_study_of_steady_results_is_the_same(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good", blocks=(32, 64))

    report = laboratory.reproduce(f"study:{study}")

    assert report.judgement.verdict == "same"
    assert report.judgement.low is not None
    assert {each.judgement.verdict for each in report.entries} == {"same"}


def test_one_slower_result_makes_a_study_slower(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good", blocks=(32, 64))
    laboratory.change(factor={"planted_second_good": 1.1})

    report = laboratory.reproduce(study_name(study))

    assert report.judgement.verdict == "slower"
    assert report.judgement.reasons[0] == "1 of 3 results: slower"
    (slower,) = (each for each in report.entries if each.judgement.verdict == "slower")
    assert report.judgement.ratio == slower.judgement.ratio
    assert report.judgement.low == slower.judgement.low
    assert (
        "second-good BLOCK=64 at 6x40, the slowest; the mean of all is 1.0"
        in (report.judgement.reasons[-1])
    )


def study_name(study: int) -> str:
    """Name a study by its id."""
    return f"study:{study}"


def test_another_shape_is_run_and_not_compared(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())

    report = laboratory.reproduce(trial, shape="3x8")

    entry = report.entries[0]
    assert entry.rerun.workload.shape_text == "3x8"
    assert entry.judgement.verdict == "not_comparable"
    assert entry.judgement.ratio is None
    assert {kernel.geometry.grid for kernel in laboratory.script.kernels} == {(3, 1, 1)}
    assert any("shape 3x8 is run instead" in note for note in report.notes)
    with pytest.raises(UsageError):
        laboratory.reproduce(trial, shape="3x8x9")


def test_what_has_no_samples_is_refused(laboratory: Laboratory) -> None:
    laboratory.change(outcomes={"planted_good": Outcome.COMPILE_ERROR})
    study = laboratory.run()

    with pytest.raises(UsageError, match="no samples"):
        laboratory.reproduce(laboratory.only_trial(study))
    with pytest.raises(UsageError, match="no valid trial"):
        laboratory.reproduce(study_name(study))
    with pytest.raises(NotFound, match="no trial, study or evidence"):
        laboratory.reproduce("nothing")
    assert len(api.page_studies(laboratory.settings).items) == 1


def test_evidence_is_shown_as_written_beside_the_rerun(laboratory: Laboratory) -> None:
    uniform = {"warmup": 10, "samples": 50, "processes": 3, "launches_per_sample": 1,
               "input_case": "uniform"}  # fmt: skip
    store_evidence(
        laboratory,
        record(1, "slow", "1.504860", range_ms=("1.501600", "1.510040"), protocol=uniform,
               extra={"rerun": {"implementation": "second-good", "config": {"BLOCK": 64}}}),
        record(2, "good", "0.0584400", range_ms=("0.058041", "0.0590205"), protocol=uniform,
               extra={"faster_than": ["slow"]}),
        record(3, "good", "0.03", protocol={**uniform, "input_case": "normal"}),
        record(4, "unheard-of", "0.03"),
    )  # fmt: skip

    report = laboratory.reproduce("table")

    rows = report.rows()
    written = [(row["recorded"], row["recorded_low"], row["recorded_high"]) for row in rows]
    assert written == [
        ("1.504860", "1.501600", "1.510040"),
        ("0.0584400", "0.058041", "0.0590205"),
        ("0.03", None, None),
    ]
    assert [row["verdict"] for row in rows] == ["not_comparable"] * 3
    assert all(row["ratio"] is not None for row in rows)
    assert report.entries[0].original.processes_us == ((1501.6,), (1504.86,), (1510.04,))
    assert [str(each) for each in claims(report.entries)] == [
        "6x40: good is 25.8 times as fast as slow: here 2"
    ]
    assert len(report.study_ids) == 2  # one for each kind of input
    full = {
        (each.input_case, each.warmup, each.samples, each.launches_per_sample, each.submission)
        for each in laboratory.script.samplings
        if each.samples == 50
    }
    assert full == {("uniform", 10, 50, 1, "stream"), ("normal", 10, 50, 1, "stream")}
    assert any("unheard-of" in note for note in report.notes)
    assert len(reproductions(laboratory, original_kind="record")) == 3


def test_the_json_is_strict_and_complete(laboratory: Laboratory) -> None:
    study = laboratory.run("second-good")

    plain = laboratory.reproduce(study_name(study)).as_plain()

    text = json.dumps(plain, allow_nan=False)
    assert plain["schema"] == "tuner.reproduce/1"
    assert len(plain["results"][0]["rerun_processes_us"]) == 3
    assert '"claims"' in text
    assert '"rankings"' in text


def test_a_trial_that_was_never_confirmed_is_compared_by_its_quick_stage(
    laboratory: Laboratory,
) -> None:
    laboratory.run(blocks=(32, 64))
    text = (laboratory.folder / "scripted.toml").read_text()
    (laboratory.folder / "one.toml").write_text(text.replace("finalists = 4", "finalists = 1"))
    one = api.run_study(laboratory.folder / "one.toml", fresh=True, settings=laboratory.settings)
    rows = api.page_trials(str(one.study_id), laboratory.settings).items
    (quick,) = [row["trial_id"] for row in rows if not row["confirmed"]]

    report = laboratory.reproduce(quick)

    assert report.judgement.verdict == "same"
    assert report.judgement.threshold == 0.06
    assert [len(each) for each in report.entries[0].rerun.processes_us] == [5]
    assert any("never confirmed" in note for note in report.notes)
