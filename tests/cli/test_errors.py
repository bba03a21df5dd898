"""Bad input: one line that names the thing, the right exit code, nothing stored."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command

GOOD = """schema = 1
name = "x"
operator = "rmsnorm"
device = "cpu"
shapes = ["3x13"]
"""


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD + "colour = 1\n", 6, "colour"),
        (GOOD.replace('["3x13"]', '["0x4096"]'), 5, "0x4096"),
        (GOOD.replace('["3x13"]', "[3]"), 5, "shapes"),
        (GOOD.replace('["3x13"]', '["3x13x2"]'), 5, "dimensions"),
        (GOOD + "[protocol]\nsamples = true\n", 7, "samples"),
        (GOOD + "[space.hip-blok]\nBLOCK = [1]\n", 6, "hip-blok"),
        (GOOD + "[protocol]\ntarget_sample_us = nan\n", 7, "target_sample_us"),
        ("name = ", 1, "TOML"),
    ],
)
def test_a_bad_study_file_names_file_line_and_key(
    tuner: Command, tmp_path: Path, text: str, line: int, words: str
) -> None:
    study = tuner.write_study("bad.toml", text)

    answer = tuner("run", study)

    assert answer.code == 2
    first = answer.err.splitlines()[0]
    assert f"bad.toml:{line}" in first
    assert words in first
    assert not (tmp_path / "results.db").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("run", "no-such-study"), 4, "no study file"),
        (("run", "../../etc/passwd.toml"), 4, "no study file"),
        (("best", "rmsnorm", "--shape", "1x1"), 4, "no such database"),
        (("best", "norm", "--shape", "1x1"), 4, "no operator"),
        (("best", "rmsnorm", "--shape", "1x1", "--dtype", "int3"), 2, "int3"),
        (("best", "rmsnorm", "--shape", "-1x1"), 2, "-1x1"),
        (("best", "rmsnorm", "--shape", "9223372036854775808x1"), 2, "2^63-1"),
        (("best", "rmsnorm", "--shape", "1x1", "--scalar", "eps"), 2, "eps"),
        (("trials", "x", "--db", "typo.db"), 4, "typo.db"),
        (("show", "7"), 4, "no such database"),
        (("run", "quickstart", "--budget", "soon"), 2, "soon"),
        (("run", "quickstart", "--device", "cuda:7"), 3, "cuda"),
        (("run", "quickstart", "--device", "tpu:0"), 2, "tpu"),
        (("compile", "rmsnorm", "--arch", "z80"), 2, "z80"),
        (("export", "trials", "--format", "parquet"), 4, "no such database"),
        (("studies", "--db", "/proc/version"), 3, "/proc/version"),
    ],
)
def test_bad_words_give_one_line_and_the_exit_code(
    tuner: Command, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    answer = tuner(*words)

    assert answer.code == code, answer.err
    assert says in answer.err
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert lines[0].startswith(("error:", "Usage:"))
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    "words",
    [
        ("db", "copy", "nosuch.db", "x.db"),
        ("db", "copy", "text.db", "x.db"),
        ("db", "copy", "foreign.db", "x.db"),
        ("import", "foreign.db"),
    ],
)
def test_no_hint_names_an_option_that_the_command_has_not(
    tuner: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "text.db").write_text("no database", encoding="ascii")
    with contextlib.closing(sqlite3.connect(tmp_path / "foreign.db")) as connection:
        connection.execute("CREATE TABLE other (id INTEGER)")

    answer = tuner(*words)

    assert answer.code != 0
    (hint,) = (line for line in answer.err.splitlines() if line.startswith("hint: "))
    assert "--db" not in re.sub("`.*?`", "", hint)
    assert not (tmp_path / "x.db").exists()


def test_a_wrong_setting_names_the_variable(tuner: Command) -> None:
    answer = tuner("devices", TUNER_CPU_WAVE_SIZE="48")

    assert answer.code == 2
    assert "TUNER_CPU_WAVE_SIZE" in answer.err


def test_help_needs_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, tuner.cli.app as app\n"
        "heavy = {'pandas', 'optuna', 'sqlalchemy', 'alembic', 'numpy', 'triton'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_output_goes_to_a_file_whole_or_not_at_all(tuner: Command, tmp_path: Path) -> None:
    target = tmp_path / "devices.csv"
    assert tuner("devices", "--format", "csv", "--output", str(target)).code == 0
    text = target.read_text()
    assert text.startswith("device_id,usable,")

    link = tmp_path / "link.csv"
    link.symlink_to(target)
    refused = tuner("operators", "--format", "csv", "--output", str(link))
    assert refused.code == 2
    assert target.read_text() == text


def test_the_module_is_the_command(tuner: Command) -> None:
    answer = tuner("--version")

    assert answer.code == 0
    assert answer.out.startswith("tuner ")


def test_a_compiler_that_is_not_there_makes_hip_unavailable_and_the_rest_runs(
    tuner: Command,
) -> None:
    answer = tuner("devices", "--format", "json", TUNER_CPU_COMPILER="no-such-compiler")

    assert answer.code == 0, answer.err
    cpu = next(row for row in answer.json["rows"] if row["device_id"] == "cpu")
    assert cpu["usable"]
    assert any("hip unavailable" in each for each in cpu["languages"])
    assert "triton" in cpu["languages"]
