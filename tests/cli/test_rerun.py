"""Running a finished study again: what is stored is shown, and no process is started for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command
from places import OPERATORS

from tuner import api
from tuner.settings import Settings
from tuner.worker import remembered


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
