"""What readers are told of a run whose sentinel drifted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from scripted_device import Laboratory
from typer.testing import CliRunner

from tuner import api
from tuner.cli.app import app
from tuner.domain.controls import copy_bytes_for
from tuner.domain.controls import MAX_SENTINEL_DRIFT
from tuner.domain.controls import RunControls
from tuner.report.controls import notes_of
from tuner.store import open_store
from tuner.store.controls import study_controls


def runs_of(laboratory: Laboratory, study_id: int) -> list[RunControls]:
    with (
        open_store(laboratory.settings.db, create=False, writable=False) as store,
        store.session() as session,
    ):
        return study_controls(session, study_id)


def notes(laboratory: Laboratory) -> tuple[str, ...]:
    answer = api.best("planted", "6x40", architecture="sm_90", settings=laboratory.settings)
    return answer.notes


def test_a_drifted_run_is_named_wherever_its_times_are(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    laboratory.change(drift=0.05)
    study_id = laboratory.run(blocks=(64, 128))

    (run,) = runs_of(laboratory, study_id)
    assert run.is_marked
    assert run.drift == pytest.approx(0.05 * (run.sentinel_count - 1))
    assert run.drift > MAX_SENTINEL_DRIFT
    (note,) = notes(laboratory)
    assert note.startswith(f"the sentinel of 6x40 (trial {run.sentinel_id}) took 10 to ")
    assert "measure again when it is quiet" in note
    trial = api.show_trial(run.sentinel_id, laboratory.settings)
    assert trial["notes"] == [note]
    (shown,) = trial["controls"]
    assert (shown["drift"], shown["is_marked"]) == (run.drift, True)
    api.write_report(str(study_id), tmp_path / "out", settings=laboratory.settings)
    for name in ("report.md", "report.html"):
        text = (tmp_path / "out" / name).read_text()
        assert "the sentinel of 6x40" in text
        assert f"{run.drift:.2%}" in text
    for name in ("trials.csv", "best.csv"):
        with (tmp_path / "out" / name).open() as file:
            found = {float(row["sentinel_drift"]) for row in csv.DictReader(file)}
        assert found == {run.drift}, name
    view = api.study_view(study_id, laboratory.settings)
    assert view.marks == (note,)
    assert len(view.controls.rows) == 1


@pytest.mark.parametrize("drift", [0.05, 0.0])
def test_the_command_ends_with_a_line_on_a_marked_run(laboratory: Laboratory, drift: float) -> None:
    laboratory.change(drift=drift)
    laboratory.run()
    study, db = str(laboratory.folder / "scripted.toml"), str(laboratory.settings.db)
    operators = str(laboratory.folder / "operators")
    laboratory.change(rounds=0)
    words = ["run", study, "--fresh", "--db", db, "--operators", operators]

    table = CliRunner().invoke(app, words)
    as_json = CliRunner().invoke(app, [*words, "--format", "json"])
    nothing = CliRunner().invoke(app, [word for word in words if word != "--fresh"])

    lines = [line for line in table.stderr.splitlines() if line.startswith("run marked: ")]
    assert len(lines) == (drift > 0)
    assert all("the sentinel of 6x40" in line and "--fresh" in line for line in lines)
    assert len(json.loads(as_json.stdout)["marks"]) == (drift > 0)
    assert "run marked" not in nothing.stderr  # this run measured nothing
    assert nothing.exit_code == 0


def test_a_steady_run_is_not_marked(laboratory: Laboratory, tmp_path: Path) -> None:
    # So little that however many rounds there are, it stays below.
    laboratory.change(drift=0.0001)
    study_id = laboratory.run()

    (run,) = runs_of(laboratory, study_id)
    assert run.drift is not None
    assert 0.0 < run.drift <= MAX_SENTINEL_DRIFT
    assert notes(laboratory) == ()
    assert api.show_trial(run.sentinel_id, laboratory.settings)["notes"] == []
    assert api.study_view(study_id, laboratory.settings).marks == ()
    api.write_report(str(study_id), tmp_path / "out", settings=laboratory.settings)
    assert "drifted" not in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize("drift", [0.05, 0.0])
def test_a_rerun_is_judged_beside_its_own_controls(laboratory: Laboratory, drift: float) -> None:
    study_id = laboratory.run()
    laboratory.change(drift=drift)

    report = laboratory.reproduce(f"study:{study_id}")

    (run,) = runs_of(laboratory, report.study_ids[0])
    assert run.sentinel_count == 2  # before the fresh processes and after them
    assert run.drift == pytest.approx(drift)
    marked = [note for note in report.notes if note.startswith("the sentinel of 6x40")]
    assert len(marked) == (drift > 0)


def test_only_the_run_that_measured_a_trial_speaks_of_it(laboratory: Laboratory) -> None:
    laboratory.change(drift=0.05)
    laboratory.run()
    laboratory.change(drift=0.0)
    laboratory.run()  # afresh, on a quiet device: its times are the answer now
    assert notes(laboratory) == ()


def test_a_time_that_is_mostly_launching_says_so(laboratory: Laboratory) -> None:
    laboratory.change(null_us=6.0)
    laboratory.run()
    (note,) = notes(laboratory)
    assert note.startswith("a kernel that does nothing takes 6 us, ")
    (run,) = runs_of(laboratory, 1)
    assert notes_of([run], 12.0) == []  # half of it, no more
    assert notes_of([run, run], 11.9) == [run.floor_text(11.9)]
    assert notes_of([run], None) == []


@pytest.mark.parametrize(
    ("workload_bytes", "copied"), [(0, 32), (1, 32), (32, 32), (33, 64), (3 * 13 * 8 + 52, 384)]
)
def test_a_copy_moves_whole_words(workload_bytes: int, copied: int) -> None:
    assert copy_bytes_for(workload_bytes) == copied
