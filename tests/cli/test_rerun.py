"""Running a finished study again: what is stored is shown, and no process is started for it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import Command
from places import OPERATORS

from tuner import api
from tuner.settings import Settings
from tuner.store import open_store
from tuner.study.spec import Budget
from tuner.worker import remembered

EXTRA = ("--operators", str(OPERATORS))


@pytest.fixture
def settings(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    """Settings with a cache of the test's own."""
    return make_settings(cache_dir=tmp_path / "cache", operators=(OPERATORS,))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands of all processes that are started from here on."""
    commands: list[list[str]] = []
    popen = subprocess.Popen

    def note(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        commands.append(command)
        return popen(command, **options)

    monkeypatch.setattr("tuner.worker.process.subprocess.Popen", note)
    return commands


def test_no_process_is_started_where_everything_is_stored(
    tuner: Command, settings: Settings, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tuner.planted_study("wrong")
    first = api.run_study(study, settings=settings)
    assert len(started) >= 3  # worker, builder, confirming workers
    started.clear()

    again = api.run_study(study, settings=settings)

    assert started == []
    assert again.finished
    assert (again.study_id, again.counts, again.best) == (
        first.study_id,
        first.counts,
        first.best,
    )

    monkeypatch.setattr(remembered, "MAX_AGE_S", 0.0)
    asked = api.run_study(study, settings=settings)
    assert started  # the device is asked, and says the same
    assert (asked.study_id, asked.best) == (first.study_id, first.best)


@pytest.mark.parametrize("change", ["fresh", "another shape", "another database"])
def test_processes_are_started_where_something_is_missing(
    tuner: Command, settings: Settings, started: list[list[str]], change: str
) -> None:
    study = tuner.planted_study()
    first = api.run_study(study, settings=settings)
    started.clear()

    if change == "fresh":
        again = api.run_study(study, settings=settings, fresh=True)
    elif change == "another shape":
        again = api.run_study(study, settings=settings, shapes=["7x40"])
    else:
        again = api.run_study(study, settings=settings.model_copy(update={"db": "other.db"}))
        assert again.database.endswith("other.db")

    assert started
    assert again.best[0].best.trial_id
    assert (again.study_id, again.database) != (first.study_id, first.database)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the databases that are opened from here on."""
    names: list[str] = []

    def note(url: str, **options: Any) -> Any:
        names.append(url)
        return open_store(url, **options)

    monkeypatch.setattr("tuner.store.open_store", note, raising=False)
    return names


def test_what_a_finished_study_left_behind_is_kept_until_the_database_changes(
    tuner: Command, settings: Settings, opened: list[str], tmp_path: Path
) -> None:
    study = tuner.planted_study("wrong")
    first = api.run_study(study, settings=settings)
    assert opened
    opened.clear()
    told: list[Any] = []

    again = api.run_study(study, settings=settings, listener=told.append)

    assert opened == []
    assert again == replace(first, controls=(), elapsed_s=again.elapsed_s)
    assert [(each.study_id, each.state) for each in told] == [(first.study_id, "finished")]

    with sqlite3.connect(tmp_path / "results.db") as other:
        other.execute("UPDATE tuner_study SET name = name")
    other.close()
    changed = api.run_study(study, settings=settings)
    assert opened
    assert changed == replace(again, elapsed_s=changed.elapsed_s)


def test_another_source_of_the_operator_is_no_finished_study(
    tuner: Command, settings: Settings, opened: list[str], tmp_path: Path
) -> None:
    shutil.copytree(OPERATORS / "planted", tmp_path / "own" / "planted")
    own = settings.model_copy(update={"operators": (tmp_path / "own",)})
    study = tuner.planted_study()
    first = api.run_study(study, settings=own)
    opened.clear()
    source = tmp_path / "own" / "planted" / "planted.hip"
    source.write_text(source.read_text() + "\n// changed\n")
    assert api.run_study(study, settings=own).study_id != first.study_id
    assert opened


def test_an_unfinished_study_is_not_kept(
    tuner: Command, settings: Settings, opened: list[str]
) -> None:
    study = tuner.planted_study("wrong")
    first = api.run_study(study, settings=settings, budget=Budget(trials=1))
    assert not first.finished
    opened.clear()
    assert api.run_study(study, settings=settings).finished
    assert opened


@pytest.mark.parametrize("text", ["", "{}", '{"state": 1, "result": {}}'])
def test_a_damaged_file_is_read_from_the_database_again(
    tuner: Command, settings: Settings, opened: list[str], text: str
) -> None:
    study = tuner.planted_study()
    first = api.run_study(study, settings=settings)
    (kept,) = (settings.cache_dir / "runs").iterdir()
    state = json.loads(kept.read_text())["state"]
    kept.write_text(text.replace("1", json.dumps(state)))
    opened.clear()
    assert api.run_study(study, settings=settings).best == first.best
    assert opened


def test_a_rerun_loads_no_database_and_no_search(tuner: Command) -> None:
    study = tuner.planted_study()
    assert tuner("run", study, *EXTRA).code == 0
    unwanted = ["sqlalchemy", "numpy", "optuna", "pandas", "rich", "tuner.study.runner"]
    code = (
        f"import sys; sys.argv = {['tuner', 'run', study, *EXTRA, '--format', 'json']!r}\n"
        "import tuner.cli.app\n"
        "try: tuner.cli.app.main()\n"
        f"finally: print([n for n in {unwanted} if n in sys.modules], file=sys.stderr)\n"
    )
    environment = {**os.environ, "NO_COLOR": "1"}  # as before: another one asks the device again
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert "nothing to add" in done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
