"""Settings: what is named and is not there is refused by whatever command comes first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cli import app
from tuner.environ import process_environment
from tuner.errors import UsageError
from tuner.settings import load_settings

COMMANDS = [
    *("run quickstart", "best planted --shape 6x40", "operators", "compile planted --arch sm_90"),
    *("serve --no-work --port 0", "work", "dashboard", "reproduce 1", "show 1", "simulate planted"),
]


@pytest.mark.parametrize("name", ["operators", "studies"])
@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_a_folder_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()
    gone.touch()  # a file is no folder
    flags: dict[str, tuple[Path, ...]] = {}
    for folder, is_fine in ((there, True), (gone, False), (tmp_path / "none", False)):
        if source == "flag":
            flags = {name: (folder,)}
        elif source == "environment":
            monkeypatch.setenv(f"TUNER_{name.upper()}", json.dumps([str(folder)]))
        else:
            Path("tuner.toml").write_text(f'{name} = ["{folder}"]\n', encoding="utf-8")
        if is_fine:
            assert getattr(load_settings(**flags), name) == (folder,)
            continue
        with pytest.raises(UsageError, match=f"no folder {folder}") as caught:
            load_settings(**flags)
        assert f"TUNER_{name.upper()}" in caught.value.hint


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_that_takes_operators_refuses_one(tmp_path: Path, command: str) -> None:
    db = [] if command.startswith(("operators", "compile")) else ["--db", "x.db"]

    with pytest.raises(UsageError, match="no folder none for --operators"):
        app.app([*command.split(), "--operators", "none", *db], standalone_mode=False)

    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("command", ["serve", "work"])
def test_a_folder_of_studies_that_is_not_there_is_refused(tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tuner", command, "--db", "x.db", "--studies", "/nosuchdir"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, env=process_environment(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no folder /nosuchdir for --studies\nhint: ")
    assert not (tmp_path / "x.db").exists()
