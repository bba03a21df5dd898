"""Where a report goes: over nothing but an older report of the same study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stored_studies import StudyMaker

from tuner import api
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.bundle import staged
from tuner.settings import Settings
from tuner.store import Store


def test_an_older_report_is_replaced_and_nothing_else(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    first = api.write_report("sweep", out, settings=settings)
    again = api.write_report("sweep", out, settings=settings)
    assert first.files == again.files

    (out / "report.md").write_text("edited by hand")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(UsageError, match=r"report\.md was changed"):
        api.write_report("sweep", out, settings=settings)

    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert before["notes.txt"] == b"mine"


@pytest.mark.parametrize("foreign", ["best.csv", "report.json", "trials.csv.json"])
def test_files_of_others_are_left_alone(
    foreign: str, sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / foreign).write_text("mine")

    with pytest.raises(UsageError, match=foreign):
        api.write_report("sweep", out, formats=["csv"], settings=settings)

    assert [path.name for path in out.iterdir()] == [foreign]
    assert (out / foreign).read_text() == "mine"


def test_the_report_of_another_study_is_left_alone(
    sweep: StudyMaker, store: Store, settings: Settings, tmp_path: Path
) -> None:
    StudyMaker(store, name="other")
    api.write_report("other", tmp_path / "out", settings=settings)

    with pytest.raises(UsageError, match="holds the report of study 'other'"):
        api.write_report("sweep", tmp_path / "out", settings=settings)


def test_a_link_in_the_way_is_not_followed(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/best.csv").symlink_to(canary)

    with pytest.raises(UsageError, match="not a plain file"):
        api.write_report("sweep", tmp_path / "out", settings=settings)

    assert canary.read_text() == "alive"


def test_a_report_that_can_not_be_made_leaves_nothing(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(NotFound, match="no study"):
        api.write_report("absent", tmp_path / "out", settings=settings)
    with pytest.raises(NotFound, match="no trial 999"):
        api.write_report("sweep", tmp_path / "out", trials=[999], settings=settings)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="can't write"):
        api.write_report("sweep", tmp_path / "file", settings=settings)

    assert not (tmp_path / "out").exists()


def test_a_report_stopped_between_two_files_can_be_made_again(tmp_path: Path) -> None:
    def write(text: str) -> None:
        with staged(tmp_path / "out", "study", {}) as staging:
            for name in ("a.csv", "b.csv"):
                (staging / name).write_text(text)

    write("old")
    (tmp_path / "out/b.csv").rename(tmp_path / "aside")
    write("new")
    (tmp_path / "aside").replace(tmp_path / "out/b.csv")  # as if it had stopped before b.csv
    manifest = json.loads((tmp_path / "out/report.json").read_text("utf-8"))
    assert len(manifest["files"]["a.csv"]) == 2

    with pytest.raises(UsageError, match=r"b\.csv was changed"):
        write("newer")  # here b.csv came from elsewhere

    (tmp_path / "out/a.csv").write_text("old")  # as if it had stopped before a.csv
    (tmp_path / "out/b.csv").write_text("new")
    write("newest")
    assert (tmp_path / "out/a.csv").read_text() == "newest"
