"""Folders that others can rerun: whole, checked, and refused when they were changed."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import pytest
from scripted_device import Laboratory

from tuner import api
from tuner.domain.identity import bytes_hash
from tuner.domain.outcome import Outcome
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.provenance import MANIFEST
from tuner.report.provenance import read_folder


@pytest.fixture
def folder(laboratory: Laboratory) -> Path:
    """The folder of a trial."""
    trial = laboratory.only_trial(laboratory.run(launches="7"))
    target = laboratory.folder / "export"
    api.export_trial(trial, target, laboratory.settings)
    return target


def rehash(folder: Path, name: str) -> None:
    """Put the SHA-256 of a changed file into the manifest."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = bytes_hash((folder / name).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_a_folder_holds_everything_with_its_hash(laboratory: Laboratory, folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())

    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {
        MANIFEST
    }
    assert set(manifest["files"]) == written
    for name, digest in manifest["files"].items():
        assert bytes_hash((folder / name).read_bytes()) == digest
    assert {"operators/planted/twice.h", "operators/planted/reference.py", "study.toml"} < written

    detail = api.show_trial(1, laboratory.settings)
    samples = [
        (each["stage"], each["position"], number, time_us)
        for each in detail["processes"]
        for number, time_us in enumerate(each["report"]["samples_us"])
    ]
    with (folder / "samples.csv").open(newline="") as file:
        rows = [
            (row["stage"], int(row["process"]), int(row["sample"]), float(row["time_us"]))
            for row in csv.DictReader(file)
        ]
    assert rows == samples  # bit-equal

    study = tomllib.loads((folder / "study.toml").read_text())
    assert study["space"] == {"good": {"BLOCK": [64]}}
    assert study["protocol"]["launches_per_sample"] == 7


def test_a_folder_of_an_operator_of_several_files_runs(laboratory: Laboratory) -> None:
    operator = laboratory.folder / "operators" / "planted"
    declaration = (operator / "operator.py").read_text()
    (operator / "parts").mkdir()
    (operator / "parts" / "faults.py").write_text(declaration)
    (operator / "operator.py").write_text("from .parts.faults import OPERATOR\n")
    trial = laboratory.only_trial(laboratory.run(launches="7"))
    target = laboratory.folder / "export"
    api.export_trial(trial, target, laboratory.settings)
    elsewhere = laboratory.settings.model_copy(
        update={"db": str(laboratory.folder / "other.db"), "operators": ()}
    )

    report = api.reproduce(str(target), settings=elsewhere)

    assert report.judgement.verdict == "same"
    assert (target / "operators" / "planted" / "parts" / "faults.py").read_text() == declaration


def test_a_folder_reads_back_as_the_trial(laboratory: Laboratory, folder: Path) -> None:
    detail = api.show_trial(1, laboratory.settings)

    original = read_folder(folder).original

    assert original.median_us == detail["summary"]["median_us"]
    assert original.source is not None
    assert dict(original.source.files) == detail["source"]["files"]
    assert dict(original.environment.identity) == detail["environment"]["identity"]
    assert original.protocol.as_plain() == detail["protocol"]
    assert original.geometry is not None
    assert original.geometry.grid == (6, 1, 1)


def test_a_folder_is_rerun_in_another_database_and_without_the_operator(
    laboratory: Laboratory, folder: Path
) -> None:
    elsewhere = laboratory.settings.model_copy(
        update={"db": str(laboratory.folder / "other.db"), "operators": ()}
    )

    report = api.reproduce(str(folder), settings=elsewhere)

    assert report.judgement.verdict == "same"
    assert report.kind == "folder"
    assert report.original_id == bytes_hash((folder / MANIFEST).read_bytes())
    assert [each["study"] for each in api.page_studies(elsewhere).items] == ["scripted-rerun"]


def test_a_folder_is_a_study_that_runs(laboratory: Laboratory, folder: Path) -> None:
    elsewhere = laboratory.settings.model_copy(
        update={"db": str(laboratory.folder / "other.db"), "operators": (folder / "operators",)}
    )

    result = api.run_study(folder / "study.toml", settings=elsewhere)

    assert result.finished
    assert [answer.best.config for answer in result.best] == [{"BLOCK": 64}]


@pytest.mark.parametrize(
    "name",
    ["operators/planted/twice.h", "samples.csv", "study.toml", "environment.json", "trial.json"],
)
def test_a_changed_file_is_named_and_nothing_is_run(
    laboratory: Laboratory, folder: Path, name: str
) -> None:
    with (folder / name).open("a") as file:
        file.write(" ")

    with pytest.raises(UsageError, match=f"{name}: changed since it was exported"):
        laboratory.reproduce(folder)

    assert laboratory.script.kernels == []
    assert len(api.page_studies(laboratory.settings).items) == 1


def test_a_missing_file_is_named(laboratory: Laboratory, folder: Path) -> None:
    (folder / "samples.csv").unlink()

    with pytest.raises(UsageError, match=r"samples\.csv: missing"):
        laboratory.reproduce(folder)


def test_a_manifest_that_leads_out_of_the_folder_is_refused(
    laboratory: Laboratory, folder: Path
) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"]["../secret"] = "0" * 64
    (folder / MANIFEST).write_text(json.dumps(manifest))

    with pytest.raises(UsageError, match="leads out of the folder"):
        laboratory.reproduce(folder)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("trial.json", '"tuner.provenance.trial/1"', '"tuner.provenance.trial/9"'),
        ("trial.json", '"protocol"', '"prototype"'),
        ("trial.json", '"warmup": 1', '"warm": 1'),
        ("environment.json", '"identity": {', '"identity": 7, "x": {'),
        ("samples.csv", "confirm", "somewhere"),
        ("samples.csv", "time_us", "time"),
    ],
)
def test_a_folder_of_another_make_is_refused_in_one_line(
    laboratory: Laboratory, folder: Path, name: str, old: str, new: str
) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    rehash(folder, name)

    with pytest.raises(UsageError, match="not what `tuner show --export` writes"):
        laboratory.reproduce(folder)


def test_a_folder_is_not_written_over(laboratory: Laboratory, folder: Path) -> None:
    with pytest.raises(UsageError, match="not an empty folder"):
        api.export_trial(1, folder, laboratory.settings)
    with pytest.raises(NotFound, match="no trial 99"):
        api.export_trial(99, laboratory.folder / "new", laboratory.settings)

    laboratory.change(outcomes={"planted_good": Outcome.COMPILE_ERROR})
    failed = laboratory.only_trial(laboratory.run(shape="7x40"))
    with pytest.raises(UsageError, match="no samples"):
        api.export_trial(failed, laboratory.folder / "new", laboratory.settings)
    assert not (laboratory.folder / "new").exists()


def test_the_stored_source_is_exported_not_todays(laboratory: Laboratory) -> None:
    trial = laboratory.only_trial(laboratory.run())
    (laboratory.operator / "twice.h").write_text("// thrice\n")

    api.export_trial(trial, laboratory.folder / "export", laboratory.settings)

    exported = laboratory.folder / "export" / "operators" / "planted" / "twice.h"
    assert exported.read_text() == "// twice\n"


def test_a_trial_says_what_it_claims(laboratory: Laboratory) -> None:
    laboratory.run("second-good", blocks=(32, 64))

    claims = {
        (row["implementation"], row["config"]["BLOCK"]): api.show_trial(
            row["trial_id"], laboratory.settings
        )["claim"]
        for row in api.page_trials("scripted", laboratory.settings).items
    }

    assert claims["good", 32]["standing"] == "best"
    assert claims["second-good", 64]["standing"] == "slower"
    assert claims["second-good", 64]["slower"] == pytest.approx(2.01, rel=0.01)
    assert {each["compared"] for each in claims.values()} == {3}
