"""``tuner profile``: importing profilers' files, and runs under scripted profilers."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from command import Command
from places import OPERATORS
from profiler_files import FAKE
from profiler_files import ncu
from profiler_files import rocprof

from tuner import api
from tuner.api import profiling
from tuner.domain.profile import ProfilerName
from tuner.errors import BudgetExhausted
from tuner.errors import EnvironmentProblem
from tuner.errors import MissingDependency
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.settings import Settings
from tuner.store import migrate
from tuner.worker import profiler as profiler_module

EXTRA = ("--operators", str(OPERATORS))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    """A database with a study of two good kernels and one that is wrong."""
    folder = tmp_path_factory.mktemp("measured")
    command = Command(folder)
    study = command.planted_study("second-good", "wrong")
    where = {"TUNER_DB": str(folder / "results.db"), "TUNER_CACHE_DIR": str(cache_dir)}
    answer = command("run", study, *EXTRA, **where)
    assert answer.code == 0, answer.err
    return folder / "results.db"


@pytest.fixture
def database(measured: Path, tmp_path: Path) -> Path:
    """That database, for one test."""
    return Path(shutil.copy(measured, tmp_path / "results.db"))


@pytest.fixture
def trial_of(tuner: Command, database: Path) -> Callable[[str], str]:
    """Return what gives the id of an implementation's trial."""

    def find(implementation: str) -> str:
        query = (
            "SELECT t.id FROM tuner_trial t JOIN tuner_implementation i "
            "ON i.id = t.implementation_id WHERE i.name = ?"
        )
        with closing(sqlite3.connect(database)) as connection:
            return str(connection.execute(query, (implementation,)).fetchone()[0])

    return find


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the head of PATH with scripted profilers; the CPU counts as NVIDIA's device."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ProfilerName:
        path = folder / name.value
        path.write_text(FAKE.format(python=sys.executable))
        path.chmod(0o755)
    (folder / "prints").write_text("==PROF== Connected to process 7")
    (folder / "runs").touch()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(profiling.PROFILER_OF_KIND, "cpu", ProfilerName.NCU)
    return folder


def settings() -> Settings:
    return Settings(operators=(OPERATORS,))


def stored(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        count: int = connection.execute("SELECT count(*) FROM tuner_profile").fetchone()[0]
        return count


def set_medians(database: Path, **medians_us: float) -> None:
    """Give confirmed trials event times that are known."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for trial_id, value in medians_us.items():
            connection.execute(
                "UPDATE tuner_trial SET median_us = ?1, low_us = ?1, high_us = ?1 WHERE id = ?2",
                (value, int(trial_id.removeprefix("trial_"))),
            )


def test_both_formats_are_imported_listed_and_sound(
    tuner: Command, tmp_path: Path, trial_of: Callable[[str], str]
) -> None:
    trial = trial_of("good")
    (tmp_path / "kernel_trace.csv").write_text(rocprof(9140, 8680, 7080))
    (tmp_path / "ncu.csv").write_text(ncu(10_196, 9_000))

    amd = tuner("profile", trial, "--from", "kernel_trace.csv", "--format", "json")
    nvidia = tuner("profile", trial, "--from", "ncu.csv", "--format", "json")

    assert amd.code == nvidia.code == 0, amd.err + nvidia.err
    assert amd.json["schema"] == "tuner.profile/1"
    found: dict[str, Any] = amd.json["profile"]
    assert found["profiler"] == "rocprofv3"
    assert found["kernel_samples_us"] == [9.14, 8.68, 7.08]
    assert found["kernel_median_us"] == 8.68
    assert (found["dispatches"], found["copy_dispatches"], found["other_dispatches"]) == (3, 1, 0)
    assert (found["grid"], found["block"]) == ([6, 1, 1], [64, 1, 1])
    assert (found["registers"], found["scalar_registers"]) == (24, 16)
    assert found["shared_dynamic_bytes"] is None
    assert found["environment_key"] is None
    assert found["extra"] == {"Agent_Id": "Agent 4"}
    assert nvidia.json["profile"]["shared_dynamic_bytes"] == 1024
    assert nvidia.json["profile"]["scratch_bytes"] is None
    assert nvidia.json["profile"]["copy_dispatches"] is None

    listed = tuner("profile", trial, "--list", "--format", "json")
    assert [row["profiler"] for row in listed.json["rows"]] == ["rocprofv3", "ncu"]
    assert listed.json["rows"][0]["file_sha256"] == found["file_sha256"]
    header, first, _ = csv.reader(
        tuner("profile", trial, "--list", "--format", "csv").out.splitlines()
    )
    row = dict(zip(header, first, strict=True))
    assert (row["grid_x"], row["block_x"], row["shared_dynamic_bytes"]) == ("6", "64", "")
    assert json.loads(row["extra"]) == found["extra"]
    check = tuner("db", "check")
    assert check.code == 0, check.err


def test_what_is_not_given_is_unavailable_and_both_times_stand_side_by_side(
    tuner: Command, tmp_path: Path, database: Path, trial_of: Callable[[str], str]
) -> None:
    trial = trial_of("good")
    set_medians(database, **{f"trial_{trial}": 10.25})
    (tmp_path / "ncu.csv").write_text(ncu(9_000))

    answer = tuner("profile", trial, "--from", "ncu.csv")

    assert answer.code == 0, answer.err
    lines = {line.partition("  ")[0]: line.rpartition("  ")[2] for line in answer.out.splitlines()}
    assert lines["scratch a thread, bytes"] == "unavailable"
    assert lines["scalar registers a wave"] == "unavailable"
    assert lines["dynamic shared memory, bytes"] == "1024"
    assert lines["event time, us (confirmed)"] == "10.25"
    assert lines["profiler time, us"].startswith("9 (median of 1")


def test_the_same_file_is_stored_once_for_a_trial(
    tmp_path: Path, database: Path, trial_of: Callable[[str], str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(rocprof(9140))

    first = api.import_profile(int(trial_of("good")), path, settings=settings())
    again = api.import_profile(int(trial_of("good")), path, settings=settings())

    assert first["notes"] == []
    assert "imported for this trial before" in again["notes"][0]
    assert again["profile"] == first["profile"]
    assert stored(database) == 1


def test_a_different_ranking_is_warned_of(
    tuner: Command, tmp_path: Path, database: Path, trial_of: Callable[[str], str]
) -> None:
    one, other = trial_of("good"), trial_of("second-good")
    set_medians(database, **{f"trial_{one}": 15.8, f"trial_{other}": 26.28})
    (tmp_path / "one.csv").write_text(rocprof(8700, 8680))
    (tmp_path / "other.csv").write_text(rocprof(7080, 7090, kernel="planted_second_good"))

    alone = tuner("profile", one, "--from", "one.csv")
    both = tuner("profile", other, "--from", "other.csv")

    assert "warning" not in alone.err
    assert both.code == 0
    (line,) = [line for line in both.err.splitlines() if line.startswith("warning: ")]
    assert f"by event trial {one}" in line
    assert f"faster than trial {other}" in line
    assert "by rocprofv3 it is slower (8.69 us, 7.085 us)" in line
    assert "profiled trials of this workload" in both.out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no dispatch"),
        (b"\xff\xfe\x00", "not a text in UTF-8"),
        (b"a,b,c\n1,2,3\n", "holds no dispatch"),
        (rocprof(9140, kernel="someone_elses").encode(), "no dispatch of kernel 'planted_good'"),
        (rocprof(9140, vgpr="x").encode(), "bad.csv:3: VGPR_Count is 'x'"),
        (rocprof(9140).encode()[:-30], "cells under a header"),
        (rocprof(-1).encode(), "is not after"),
        (ncu(9).replace('"ns"', '"parsec"').encode(), "no known unit"),
    ],
)  # fmt: skip
def test_a_malformed_file_gives_one_line_and_stores_nothing(
    tmp_path: Path, database: Path, trial_of: Callable[[str], str], content: bytes, says: str
) -> None:
    (tmp_path / "bad.csv").write_bytes(content)

    with pytest.raises(UsageError) as caught:
        api.import_profile(int(trial_of("good")), tmp_path / "bad.csv", settings=settings())

    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert stored(database) == 0


def test_bad_words(tuner: Command, database: Path, trial_of: Callable[[str], str]) -> None:
    good = trial_of("good")
    for words, code, says in (
        ((good, "--device", "cpu", *EXTRA), 3, "there is no vendor profiler for the CPU"),
        ((good, "--from", "x.csv", "--device", "cpu"), 2, "exclude each other"),
    ):
        answer = tuner("profile", *words)
        assert answer.code == code, answer.err
        assert says in answer.err.splitlines()[0]
        assert answer.out == ""
    assert stored(database) == 0


def test_trials_and_files_that_are_not_there_or_not_valid(
    tmp_path: Path, database: Path, trial_of: Callable[[str], str]
) -> None:
    good, wrong = int(trial_of("good")), int(trial_of("wrong"))
    for trial, path, kind, says in (
        (999, tmp_path / "x.csv", NotFound, "no trial 999"),
        (good, tmp_path / "x.csv", NotFound, "no file"),
        (good, tmp_path, UsageError, "can't be read"),
        (wrong, tmp_path / "x.csv", UsageError, f"trial {wrong} is wrong_result"),
    ):
        with pytest.raises(kind, match=says):
            api.import_profile(trial, path, settings=settings())
    with pytest.raises(NotFound, match="no trial 999"):
        api.list_profiles(999, settings())
    with pytest.raises(UsageError, match="0 launches"):
        api.profile_trial(good, launches=0, settings=settings())
    assert stored(database) == 0


@pytest.mark.parametrize("name", list(ProfilerName))
def test_a_run_under_a_profiler_really_runs_the_kernel_and_is_stored(
    name: ProfilerName,
    fake: Path,
    database: Path,
    trial_of: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(profiling.PROFILER_OF_KIND, "cpu", name)
    # A check and a warm-up before, three launches, a check after.
    write = ncu if name is ProfilerName.NCU else rocprof
    (fake / "trace").write_text(write(900, 800, 30, 10, 20, 700))
    trial = int(trial_of("good"))

    answer = api.profile_trial(trial, device="cpu", launches=3, settings=settings())

    found = answer["profile"]
    assert found["kernel_samples_us"] == [0.03, 0.01, 0.02]
    assert found["kernel_median_us"] == 0.02
    assert (found["dispatches"], found["excluded_dispatches"]) == (6, 3)
    assert found["origin"] == "run"
    assert found["profiler_version"] == "2025.3.1.0"
    assert len(found["environment_key"]) == 64
    assert answer["warnings"] == []
    assert api.list_profiles(trial, settings()) == [found]
    asked = (fake / "called").read_text().splitlines()[0]
    if name is ProfilerName.NCU:
        assert "--clock-control none" in asked
        assert "--cache-control none" in asked  # the trial was timed with a hot cache
    else:
        assert asked.startswith("--kernel-trace --output-format csv -d ")
    assert migrate.check(str(database)) == []


def test_a_kernel_that_is_wrong_by_now_is_not_profiled(
    fake: Path, database: Path, trial_of: Callable[[str], str]
) -> None:
    trial = int(trial_of("good"))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE tuner_source SET files = replace(files, '2.0f * x[i]', '3.0f * x[i]')"
        )
    (fake / "trace").write_text(ncu(*[10] * 8))

    with pytest.raises(TunerError, match="was valid and is wrong_result now"):
        api.profile_trial(trial, device="cpu", settings=settings())

    assert stored(database) == 0


def test_a_profiler_that_fails_says_why_and_stores_nothing(
    fake: Path, database: Path, trial_of: Callable[[str], str]
) -> None:
    trial = int(trial_of("good"))

    def fails(kind: type[TunerError], says: str) -> str:
        with pytest.raises(kind, match=says) as caught:
            api.profile_trial(trial, device="cpu", launches=3, settings=settings())
        return caught.value.hint

    fails(EnvironmentProblem, "ncu wrote no profile")
    (fake / "trace").write_text(ncu(10, 20))
    fails(EnvironmentProblem, "2 dispatches of 'planted_good' of 6 launches")
    (fake / "trace").write_text("==ERROR== No kernels were profiled.\n")
    assert "==ERROR== No kernels" in fails(EnvironmentProblem, "holds no dispatch")
    (fake / "runs").unlink()
    (fake / "prints").write_text("==ERROR== The process crashed\nbye")
    assert "==ERROR== The process crashed" in fails(EnvironmentProblem, "ended before the kernel")
    (fake / "trace").write_text("==ERROR== ERR_NVGPUCTRPERM - no permission to access counters\n")
    assert "root" in fails(EnvironmentProblem, "performance counters")
    assert stored(database) == 0


def test_a_profiler_that_hangs_is_killed_with_all_it_started(
    fake: Path, database: Path, trial_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = int(trial_of("good"))
    (fake / "ncu").write_text(f"#!/bin/sh\nsleep 300 & echo $! > {fake}/pid\nsleep 300\n")
    monkeypatch.setattr(profiler_module, "PROFILE_TIMEOUT_S", 1.0)

    with pytest.raises(BudgetExhausted, match="did not end within 1 s"):
        api.profile_trial(trial, device="cpu", settings=settings())

    pid = int((fake / "pid").read_text())
    with contextlib.suppress(psutil.NoSuchProcess):  # gone, or a zombie nobody has waited for
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert stored(database) == 0


def test_a_missing_profiler_names_the_remedy(
    fake: Path, trial_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = int(trial_of("good"))
    (fake / "ncu").unlink()
    monkeypatch.setattr(profiler_module, "TOOLS", _tools_off_path())
    if shutil.which("ncu"):
        pytest.skip("this machine has ncu on PATH")

    with pytest.raises(MissingDependency, match="ncu is not installed") as caught:
        api.profile_trial(trial, device="cpu", settings=settings())

    assert "put ncu on PATH" in caught.value.hint
    with pytest.raises(UsageError, match="rocprofv3 does not profile cpu"):
        api.profile_trial(trial, device="cpu", profiler="rocprofv3", settings=settings())


def _tools_off_path() -> dict[ProfilerName, profiler_module.Tool]:
    return {name: replace(tool, folders=()) for name, tool in profiler_module.TOOLS.items()}
