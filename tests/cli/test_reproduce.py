"""``tuner reproduce`` and ``tuner show --export`` as users call them, on the real CPU device."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import Command
from places import OPERATORS

# A CPU that others use moves by more than any threshold: what is tested here is everything but
# the verdict on times, which tests/report does on a scripted device.
ON_TIME = ("same", "faster", "slower", "ambiguous")
EVIDENCE = """
schema = 1
name = "elsewhere-2026"
source = "a test"
operator = "planted"
shape = "6x40"
dtype = "float32"
unit = "ms"
timer = "event"
statistic = "median_of_process_medians"
[environment]
architecture = "gfx1201"
[protocol]
warmup = 1
samples = 4
processes = 3
launches_per_sample = 1
[[recorded]]
implementation = "slow"
config = { block = 64 }
median = "1.504860"
low = "1.501600"
high = "1.510040"
rerun = { implementation = "second-good", config = { BLOCK = 64 } }
[[recorded]]
implementation = "quick"
config = { block = 64 }
median = "0.0584400"
low = "0.058041"
high = "0.0590205"
rerun = { implementation = "good", config = { BLOCK = 64 } }
faster_than = ["slow"]
"""


@pytest.fixture
def operators(tmp_path: Path) -> Path:
    """A copy of the planted operator that a test may edit."""
    target = tmp_path / "operators"
    shutil.copytree(
        OPERATORS / "planted", target / "planted", ignore=shutil.ignore_patterns("__pycache__")
    )
    kernel = target / "planted" / "planted.hip"
    kernel.write_text('#include "twice.h"\n' + kernel.read_text())
    (target / "planted" / "twice.h").write_text("// twice\n")
    return target


def test_a_study_a_trial_and_a_folder_are_reproduced(tuner: Command, operators: Path) -> None:
    extra = ("--operators", str(operators))
    assert tuner("run", tuner.planted_study("second-good", "wrong"), *extra).code == 0
    ask = ("best", "planted", "--shape", "6x40", "--device", "cpu", *extra, "--format", "json")
    before = tuner(*ask).json
    (operators / "planted" / "twice.h").write_text("// thrice\n")

    more = {"CUDA_VISIBLE_DEVICES": "7"}  # of the context: says nothing against a comparison
    study = tuner("reproduce", "planted", *extra, "--format", "json", **more)

    assert study.json["verdict"] in ON_TIME, study.err
    assert study.code == (1 if study.json["verdict"] == "slower" else 0)
    assert [each["outcome"] for each in study.json["results"]] == ["ok", "ok"]
    assert [each["max_abs_error"] for each in study.json["results"]] == [0.0, 0.0]
    assert study.json["source_changes"][0]["files"] == ["twice.h"]
    assert "differs: env.CUDA_VISIBLE_DEVICES: " in study.err
    assert "ranking: 6x40" in study.err

    # A rerun says something of the record; it does not become the answer.
    (operators / "planted" / "twice.h").write_text("// twice\n")
    assert tuner(*ask).json == before
    (operators / "planted" / "twice.h").write_text("// thrice\n")

    trial = tuner("reproduce", "1", *extra, "--diff")
    assert "source of good changed: twice.h" in trial.err
    assert "+// thrice" in trial.err
    assert "verdict: " in trial.err
    assert "rerun stored as study" in trial.err

    shown = tuner("show", "1")
    assert shown.out.index("claim") < shown.out.index("processes and samples")
    assert shown.out.index("\nvalidation") < shown.out.index("\nenvironment")
    assert "  options: -" in shown.out
    assert "\nreproductions" in shown.out

    export = tuner("show", "1", "--export", "folder", *extra)
    assert export.code == 0, export.err
    again = tuner("reproduce", "./folder", "--db", "other.db", "--format", "csv")
    assert again.code in (0, 1), again.err
    assert again.out.splitlines()[0].startswith("original,implementation,config,shape")

    header = tuner.folder / "folder" / "operators" / "planted" / "twice.h"
    header.write_text("// thrice\n")
    refused = tuner("reproduce", "./folder", "--db", "other.db")
    assert refused.code == 2
    assert "twice.h: changed since it was exported" in refused.err

    studies = len(tuner("studies", "--format", "json").json["rows"])
    for words, code, text in (
        (("reproduce", "3"), 2, "trial 3 has no samples to compare with (wrong_result)"),
        (("reproduce", "nothing"), 4, "no trial, study or evidence 'nothing'"),
        (("reproduce", "1", "--shape", "3xx"), 2, "shape '3xx' is not understood"),
    ):
        answer = tuner(*words, *extra)
        assert answer.code == code, (words, answer.err)
        assert text in answer.err.splitlines()[0], answer.err
        assert answer.out == ""
    assert len(tuner("studies", "--format", "json").json["rows"]) == studies


def test_evidence_is_run_at_another_shape_and_never_compared(tuner: Command) -> None:
    path = tuner.write_study("elsewhere.toml", EVIDENCE)
    assert tuner("import", path).code == 0

    answer = tuner(
        "reproduce", "elsewhere-2026", "--device", "cpu", "--shape", "3x8",
        "--operators", str(OPERATORS),
    )  # fmt: skip

    assert answer.code == 3, answer.err
    for figure in ("1.504860", "1.501600", "1.510040", "0.0584400", "0.058041", "0.0590205"):
        assert figure in answer.out
    assert answer.out.count("not_comparable") == 2
    assert "shape 3x8 is run instead of the recorded 6x40" in answer.err
    assert "quick is 25.8 times as fast as slow: here at 3x8" in answer.err
    assert "architecture: gfx1201 -> x86_64" in answer.err
