"""``tuner run`` end to end: outcomes, resume, interruption, reuse."""

from __future__ import annotations

import io
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from command import Command
from places import OPERATORS

SMALL_STUDY = """
schema = 1
name = "small"
operator = "rmsnorm"
device = "cpu"
shapes = ["3x13", "5x64"]
[space.hip-serial]
BLOCK = [64, 2048, 96]
[space.hip-block]
BLOCK = [32, 64]
[space.triton-row]
num_warps = [1]
[protocol]
warmup = 1
samples = 6
processes = 2
target_sample_us = 50.0
[quick]
warmup = 1
samples = 3
"""
EXTRA = ("--operators", str(OPERATORS))


def trials(tuner: Command, study: str) -> list[dict[str, Any]]:
    answer = tuner("trials", study, "--format", "json")
    assert answer.code == 0, answer.err
    rows: list[dict[str, Any]] = answer.json["rows"]
    return rows


def test_a_study_runs_is_answered_and_exported(tuner: Command) -> None:
    study = tuner.write_study("small.toml", SMALL_STUDY)

    run = tuner("run", study)

    assert run.code == 0, run.err
    assert "next:" in run.err
    rows = trials(tuner, "small")
    outcomes = [row["outcome"] for row in rows]
    assert outcomes.count("ok") == 2 * (1 + 2 + 1)
    assert outcomes.count("skipped") == 2 * 2
    reasons = " ".join(row["message"] for row in rows if row["outcome"] == "skipped")
    assert "threads_per_block" in reasons
    assert "96 is not a power of two" in reasons

    best = tuner("best", "rmsnorm", "--shape", "5x64", "--device", "cpu", "--format", "json")
    assert best.code == 0, best.err
    assert best.json["schema"] == "tuner.best/1"
    assert best.json["match"] == "exact"
    assert len(best.json["best"]["process_medians_us"]) == 2
    shown = tuner("show", str(best.json["best"]["trial_id"]), "--format", "json")
    (run_controls,) = shown.json["controls"]
    assert run_controls["failures"] == []
    assert run_controls["null_us"] > 0
    assert run_controls["copy_us"] > 0
    assert run_controls["sentinel_count"] >= 2
    never = tuner("best", "rmsnorm", "--shape", "7x64", "--device", "cpu")
    assert never.code == 4
    assert never.err.splitlines()[0] == "error: rmsnorm 7x64 float32 was never tuned"

    again = tuner("run", study)
    assert again.code == 0
    assert "nothing to add" in again.err
    assert len(trials(tuner, "small")) == len(rows)


def test_the_csv_has_every_trial_and_reads_back_bit_equal(tuner: Command, tmp_path: Path) -> None:
    tuner("run", tuner.planted_study("wrong", "broken-source"), *EXTRA)

    exported = tuner("export", "trials", "--format", "csv", "--study", "planted")

    assert exported.code == 0, exported.err
    frame = pd.read_csv(io.StringIO(exported.out), float_precision="round_trip")
    with sqlite3.connect(tmp_path / "results.db") as connection:
        stored = pd.read_sql("SELECT * FROM tuner_trial ORDER BY id", connection)
    assert list(frame["outcome"]) == list(stored["outcome"])
    assert sorted(frame["outcome"]) == ["compile_error", "ok", "wrong_result"]
    for column in ("median_us", "quick_median_us", "build_s", "max_abs_error"):
        pd.testing.assert_series_equal(frame[column], stored[column], check_exact=True)
    assert {"median_us", "build_s", "bandwidth_gb_s", "code_bytes"} <= set(frame.columns)


def test_every_planted_fault_is_a_row_and_the_study_goes_on(tuner: Command) -> None:
    faults = {
        "wrong": "wrong_result",
        "half": "non_finite",
        "nan": "non_finite",
        "hang": "timeout",
        "abort": "crash",
        "segfault": "crash",
        "print": "ok",
        "eleven-times": "unstable_result",
        "changes-input": "wrong_result",
        "broken-source": "compile_error",
    }

    run = tuner("run", tuner.planted_study(*faults), *EXTRA)

    assert run.code == 0, run.err
    found = {row["implementation"]: row for row in trials(tuner, "planted")}
    assert {name: found[name]["outcome"] for name in faults} == faults
    assert all(found[name]["message"] for name in faults if name != "print")
    best = tuner("best", "planted", "--shape", "6x40", "--device", "cpu", *EXTRA, "--format", "csv")
    assert best.code == 0, best.err
    assert {line.split(",")[1] for line in best.out.splitlines()[1:]} <= {"good", "print"}


def test_a_study_without_a_valid_config_has_no_best(tuner: Command) -> None:
    text = tuner.planted_study("wrong", "nan")
    path = Path(text)
    path.write_text(path.read_text().replace("[space.good]\nBLOCK = [64]\n", ""))

    run = tuner("run", text, *EXTRA)

    assert run.code == 1
    assert "no valid config" in run.err
    assert tuner("best", "planted", "--shape", "6x40", "--device", "cpu", *EXTRA).code == 4


def test_kill_and_run_again_loses_and_doubles_nothing(tuner: Command) -> None:
    study = tuner.write_study("small.toml", SMALL_STUDY)
    for pause_s in (1.5, 2.5, 4.0):
        process = tuner.start("run", study)
        time.sleep(pause_s)
        process.kill()
        process.communicate()

    run = tuner("run", study)

    assert run.code == 0, run.err
    rows = trials(tuner, "small")
    finished = [
        (row["shape"], row["implementation"], str(row["config"]))
        for row in rows
        if row["outcome"] != "interrupted"
    ]
    assert len(finished) == len(set(finished)) == 12
    assert not any(row["outcome"] == "running" for row in rows)
    assert tuner("db", "check").code == 0
    assert not [each for each in psutil.process_iter(["cmdline"]) if _is_worker_of(each, tuner)]


def _is_worker_of(process: psutil.Process, tuner: Command) -> bool:
    try:
        return "tuner.worker.child" in (process.info["cmdline"] or []) and process.cwd() == str(
            tuner.folder
        )
    except psutil.Error:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_soon_and_keeps_what_is_done(
    tuner: Command, number: signal.Signals, code: int
) -> None:
    assert tuner("run", tuner.planted_study(name="before.toml"), *EXTRA).code == 0
    study = tuner.planted_study("hang")  # another study, which takes the good kernel's trial over
    path = Path(study)
    path.write_text(path.read_text().replace("run_timeout_s = 3.0", "run_timeout_s = 100.0"))
    process = tuner.start("run", study, *EXTRA)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # the good kernel is done and the hanging one runs
        listed = tuner("trials", "planted", "--format", "json")
        if listed.code == 0 and len(listed.json["rows"]) == 2:
            break
        time.sleep(0.3)

    process.send_signal(number)
    begun = time.monotonic()
    _, err = process.communicate(timeout=20)

    assert time.monotonic() - begun < 5.0
    assert process.returncode == code, err
    assert "Traceback" not in err
    outcomes = {row["implementation"]: row["outcome"] for row in trials(tuner, "planted")}
    assert outcomes == {"good": "ok", "hang": "interrupted"}


def test_a_budget_stops_and_the_next_run_goes_on(tuner: Command) -> None:
    study = tuner.write_study("small.toml", SMALL_STUDY)

    first = tuner("run", study, "--budget", "3", "--format", "json")
    second = tuner("run", study, "--format", "json")

    assert first.code == 0, first.err
    assert not first.json["finished"]
    assert first.json["counts"]["ok"] == 3
    assert second.json["finished"]
    assert second.json["study_id"] == first.json["study_id"]
    assert second.json["counts"] == {"ok": 8, "skipped": 4}


def test_a_changed_file_is_a_new_study_that_measures_only_what_is_new(tuner: Command) -> None:
    tuner("run", tuner.write_study("small.toml", SMALL_STUDY))
    wider = SMALL_STUDY.replace("[32, 64]", "[32, 64, 128]")

    run = tuner("run", tuner.write_study("small.toml", wider), "--format", "json")

    assert run.code == 0, run.err
    assert run.json["counts"] == {"ok": 10, "skipped": 4}
    exported = tuner("export", "trials", "--study", str(run.json["study_id"]))
    frame = pd.read_csv(io.StringIO(exported.out))
    measured = frame[(frame["outcome"] == "ok") & frame["reused_from"].isna()]
    assert list(measured["config"]) == ['{"BLOCK":128}'] * 2


def test_without_a_compiler_hip_is_skipped_with_the_reason_and_the_rest_runs(
    tuner: Command,
) -> None:
    study = tuner.write_study("small.toml", SMALL_STUDY)

    run = tuner("run", study, TUNER_CPU_COMPILER="no-such-compiler")

    assert run.code == 0, run.err
    rows = trials(tuner, "small")
    ran = {row["implementation"] for row in rows if row["outcome"] == "ok"}
    assert ran == {"triton-row"}
    skipped = [row["message"] for row in rows if row["outcome"] == "skipped"]
    assert len(skipped) == 10
    assert all("language: hip: " in message for message in skipped)


def test_fresh_measures_again(tuner: Command) -> None:
    study = tuner.planted_study()
    first = tuner("run", study, *EXTRA, "--format", "json")

    second = tuner("run", study, *EXTRA, "--fresh", "--format", "json")

    assert second.code == 0, second.err
    assert second.json["study_id"] != first.json["study_id"]
    frame = pd.read_csv(io.StringIO(tuner("export", "trials").out))
    assert list(frame["reused_from"].isna()) == [True, True]
