"""Comparisons: what a driver, compiler, kernel or protocol changed."""

from __future__ import annotations

import json

import pytest
from scripted_device import IDENTITY
from scripted_device import Laboratory
from stored_studies import StudyMaker

from tuner import api
from tuner.domain.outcome import Outcome
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.service.wording import HTTP_WORDS
from tuner.settings import Settings
from tuner.store import Store


def test_a_new_driver_is_the_subject_and_the_loss_is_told(laboratory: Laboratory) -> None:
    old = laboratory.run("second-good")
    laboratory.change(factor={"planted_good": 1.1}, identity={**IDENTITY, "driver": "590.0"})
    new = laboratory.run("second-good")

    found = api.compare(str(old), str(new), settings=laboratory.settings)

    assert [str(each) for each in found.environment if each.is_identity] == [
        "driver: 580.1 -> 590.0"
    ]
    (each,) = found.workloads
    assert each.judgement.verdict == "slower"
    assert each.judgement.ratio == pytest.approx(1.1, rel=0.01)
    assert each.judgement.low is not None
    assert each.judgement.low > 1.05
    assert each.winner == "same"
    assert found.counts() == {"slower": 1, "winners changed": 0}


def test_a_winner_that_was_overtaken_has_changed(laboratory: Laboratory) -> None:
    old = laboratory.run("second-good")
    laboratory.change(factor={"planted_second_good": 0.25})
    new = laboratory.run("second-good")

    (each,) = api.compare(str(old), str(new), settings=laboratory.settings).workloads

    assert each.left is not None
    assert each.right is not None
    assert (each.left.implementation, each.right.implementation) == ("good", "second-good")
    assert each.winner == "changed"
    assert each.judgement.verdict == "faster"


def test_winners_that_tie_have_not_changed(laboratory: Laboratory) -> None:
    laboratory.change(base_us={"planted_good": 10.0, "planted_second_good": 10.001}, between=0.002)
    old = laboratory.run("second-good")
    laboratory.change(base_us={"planted_good": 10.001, "planted_second_good": 10.0})
    new = laboratory.run("second-good")

    (each,) = api.compare(str(old), str(new), settings=laboratory.settings).workloads

    assert each.winner in ("same", "tied")
    assert each.judgement.verdict == "same"


def test_another_protocol_or_device_is_shown_but_not_compared(laboratory: Laboratory) -> None:
    old = laboratory.run()
    protocol = laboratory.run(launches="9")
    laboratory.change(identity={**IDENTITY, "pci_device_id": "10de:0000"})
    device = laboratory.run()

    by_protocol = api.compare(str(old), str(protocol), settings=laboratory.settings)
    by_device = api.compare(str(old), str(device), settings=laboratory.settings)

    for found, reason in (
        (by_protocol, "protocol: launches_per_sample: 10 -> 9"),
        (by_device, "device: pci_device_id: 10de:2335 -> 10de:0000"),
    ):
        (each,) = found.workloads
        assert each.judgement.verdict == "not_comparable"
        assert each.judgement.ratio is not None
        assert reason in each.judgement.reasons
    assert by_protocol.protocol == ("launches_per_sample: 10 -> 9",)


def test_sources_and_environments_are_named_by_prefix(laboratory: Laboratory) -> None:
    old = laboratory.run()
    (laboratory.operator / "twice.h").write_text("// thrice\n")
    laboratory.change(factor={"planted_good": 0.9}, identity={**IDENTITY, "driver": "590.0"})
    new = laboratory.run()
    trials = [
        api.show_trial(laboratory.only_trial(each), laboratory.settings) for each in (old, new)
    ]
    hashes = [trial["source"]["source_hash"] for trial in trials]
    keys = [
        row["environment_key"]
        for row in api.history(settings=laboratory.settings).to_dict("records")
    ]

    by_source = api.compare(
        *(f"source:{each[:10]}" for each in hashes), settings=laboratory.settings
    )
    by_environment = api.compare(
        *(f"env:{each[:10]}" for each in keys), settings=laboratory.settings
    )

    for found in (by_source, by_environment):
        (each,) = found.workloads
        assert each.judgement.verdict == "faster"
        assert found.sources == (f"good: {hashes[0][:12]} -> {hashes[1][:12]}",)
        assert json.dumps(found.as_plain(), allow_nan=False)


def test_what_only_one_side_has_is_listed(laboratory: Laboratory) -> None:
    old, new = laboratory.run(shape="6x40"), laboratory.run(shape="7x40")

    found = api.compare(str(old), str(new), settings=laboratory.settings)

    assert [each.winner for each in found.workloads] == ["only in A", "only in B"]
    assert {each.judgement.verdict for each in found.workloads} == {"not_comparable"}


def test_a_study_against_itself_is_the_same(laboratory: Laboratory) -> None:
    study = str(laboratory.run())

    (each,) = api.compare(study, study, settings=laboratory.settings).workloads

    assert (each.judgement.verdict, each.judgement.ratio) == ("same", 1.0)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nothing", NotFound),
        ("env:ffffff", NotFound),
        ("source:ffffff", NotFound),
        ("env:12", UsageError),
        ("source:xyzw", UsageError),
    ],
)
def test_what_is_not_there_is_said(
    laboratory: Laboratory, name: str, error: type[Exception]
) -> None:
    study = str(laboratory.run())

    with pytest.raises(error):
        api.compare(study, name, settings=laboratory.settings)


def test_a_finished_study_without_a_valid_trial_is_not_to_be_finished(
    laboratory: Laboratory,
) -> None:
    study = str(laboratory.run())
    laboratory.change(outcomes={"planted_good": Outcome.OUT_OF_MEMORY})
    failed = laboratory.run()
    (name,) = {each["study"] for each in api.page_studies(laboratory.settings).items}

    for compare in (
        lambda: api.compare(study, str(failed), settings=laboratory.settings),
        lambda: laboratory.reproduce(f"study:{failed}"),
    ):
        with pytest.raises(UsageError, match="has no valid trial") as caught:
            compare()
        assert (
            caught.value.hint == f"it is finished: `tuner trials {failed}` says what became of each"
        )
    assert name in caught.value.message


def test_what_to_do_about_a_study_without_a_confirmed_trial(
    settings: Settings, store: Store
) -> None:
    study = StudyMaker(store, name="sweep", planned=2)
    study.measured("block", (1024, 64), {"WIDTH": 64})
    number = str(study.study_id)

    def told() -> tuple[str, str]:
        with pytest.raises(UsageError) as caught:
            api.compare(number, number, settings=settings)
        return caught.value.message, caught.value.hint_in(HTTP_WORDS)

    without = f"'{number}' has no confirmed trial to compare"
    assert told() == (without, "study sweep is running: wait until it is finished")
    study.recorder.release()
    resume = f"POST /api/v1/studies/{number}/resume"
    assert told() == (without, f"study sweep is stopped; finish it: {resume}")
    StudyMaker(store, name="sweep", planned=2).recorder.finish_study(study.study_id)
    assert told() == (
        without,
        f"it is finished: GET /api/v1/studies/{number}/trials says what became of each",
    )
