"""``tuner import``, ``tuner evidence`` and the round trip of bundles, as users run them."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest
from command import Answer
from command import Command
from import_samples import CACHE
from import_samples import FILES
from import_samples import LOG
from import_samples import RECORDED

from tuner.cli.app import main
from tuner.store import open_store
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = ROOT / "studies" / "rx9070xt_rmsnorm.toml"
# Chapter 13 of the Hello GPU book, 2026-07-19.
AS_WRITTEN = [
    ["hip-serial", "1.504860", "1.501600", "1.510040"],
    ["hip-block", "0.058440", "0.058041", "0.0590205"],
    ["triton-t0", "0.033360", "0.033100", "0.033740"],
    ["triton-t1", "0.030081", "0.030041", "0.031160"],
]


class InProcess:
    """The command without a process of its own: most of what that takes is starting Python."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str) -> Answer:
        self._monkeypatch.setattr("sys.argv", ["tuner", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = self._capsys.readouterr()
        assert "internal error" not in err
        return Answer(int(caught.value.code or 0), out, err)


@pytest.fixture
def tuner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """The command in the test's own folder."""
    return InProcess(tmp_path, monkeypatch, capsys)


def write(tuner: InProcess, name: str, text: str) -> str:
    (tuner.folder / name).write_text(text, encoding="utf-8")
    return name


def cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def make_database(path: Path, *blocks: int) -> None:
    with open_store(str(path), create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        for block in blocks:
            trial_id = run_trial(recorder, study_id, block, 10.0 + block)
            confirm(recorder, trial_id, (10.0 + block, 10.5 + block), (10.25 + block,))


def exports(tuner: InProcess, database: str) -> list[str]:
    answers = [tuner("export", what, "--db", database) for what in ("trials", "samples", "best")]
    assert [answer.code for answer in answers] == [0, 0, 0]
    return [answer.out for answer in answers]


# --- the shipped evidence


def test_the_shipped_evidence_is_imported_with_one_command_as_it_was_written(
    tuner: InProcess,
) -> None:
    assert Command(tuner.folder)("import", "rx9070xt_rmsnorm").code == 0
    rows = cells(tuner("evidence", "rx9070xt-2026-07-19", "--format", "csv").out)
    keys = ("implementation", "median", "low", "high")
    assert [[row[key] for key in keys] for row in rows] == AS_WRITTEN
    assert {row["origin"] for row in rows} == {"imported"}
    assert {row["shape"] for row in rows} == {"1024x4096"}

    shown = tuner("evidence", "rx9070xt-2026-07-19")
    assert "hip-block is 25.8 times as fast as hip-serial" in shown.err
    for row in AS_WRITTEN:
        assert all(figure in shown.out for figure in row)

    found = tuner("evidence", "rx9070xt-2026-07-19", "--format", "json").json
    assert found["rows"][1]["median_us"] == 58.44
    assert found["rows"][3]["extra"]["rerun"] == {
        "implementation": "triton-row",
        "config": {"BLOCK_SIZE": 4096, "num_warps": 8},
    }
    environment = found["rows"][0]["environment"]
    assert environment["architecture"] == "gfx1201"
    assert "driver" not in environment  # what is not stated stays unknown


def test_evidence_never_looks_like_something_measured(tuner: InProcess) -> None:
    tuner("import", str(SHIPPED))
    assert exports(tuner, "results.db") == [
        text.splitlines()[0] + "\n" for text in exports(tuner, "results.db")
    ]
    best = tuner("best", "rmsnorm", "--shape", "1024x4096", "--arch", "gfx1201")
    assert best.code == 4
    assert tuner("studies", "--format", "json").json["rows"] == []
    assert tuner("db", "check").code == 0


def test_the_shipped_evidence_names_kernels_and_configs_that_exist(tuner: InProcess) -> None:
    from tuner.operator import load_operator
    from tuner.study.recorded import parse_recorded

    operator = load_operator(ROOT / "kernels" / "rmsnorm")
    _, records = parse_recorded(SHIPPED.read_text("utf-8"), "it")
    for record in records:
        assert record.rerun is not None
        name, config = record.rerun
        parameters = operator.implementation(name).parameters({"rows": 1024, "cols": 4096})
        assert config.keys() == parameters.keys()
        assert all(value in parameters[key] for key, value in config.items())


def test_the_evidence_schema_is_published_and_true() -> None:
    import json
    import tomllib

    from tuner.study.recorded import evidence_schema

    published = (ROOT / "studies" / "evidence.schema.json").read_text("utf-8")
    assert published == json.dumps(evidence_schema(), indent=2) + "\n"
    for text in (SHIPPED.read_text("utf-8"), RECORDED):
        jsonschema.validate(tomllib.loads(text), evidence_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            tomllib.loads(RECORDED.replace('"1504.860"', "1504")), evidence_schema()
        )


def test_running_evidence_says_to_import_it(tuner: InProcess) -> None:
    answer = tuner("run", str(SHIPPED))
    assert answer.code == 2
    assert "records evidence, it is not a study" in answer.err
    assert "tuner import" in answer.err
    assert not (tuner.folder / "results.db").exists()


# --- files of others


def test_files_of_all_formats_are_imported_once(tuner: InProcess) -> None:
    files = [write(tuner, f"{kind}.data", text) for kind, text in FILES.items()]
    first = tuner("import", *files)
    assert first.code == 0, first.err
    again = tuner("import", *files, "--name", "other")
    assert again.code == 0
    assert again.err.count("imported before") == len(files)
    rows = tuner("evidence", "--format", "json").json["rows"]
    assert {row["formats"][0]: row["records"] for row in rows} == {
        "log": 3,
        "summary-csv": 2,
        "samples-csv": 2,
        "profile-csv": 2,
        "kernel-tuner-t4": 2,
        "kernel-tuner-cache": 3,
        "recorded": 3,
    }
    assert tuner("db", "check").code == 0


def test_a_bad_line_is_named_and_nothing_of_its_file_is_stored(tuner: InProcess) -> None:
    bad = write(tuner, "run.log", LOG.replace("median_ms=0.030081", "median_ms=fast"))
    answer = tuner("import", bad)
    assert answer.code == 2
    assert answer.err.startswith("error: run.log:5: 'fast' is not a time")
    assert not (tuner.folder / "results.db").exists()

    good = write(tuner, "good.log", LOG)
    assert tuner("import", good, bad, "--name", "mine").code == 2
    assert [row["records"] for row in tuner("evidence", "--format", "json").json["rows"]] == [3]

    partial = tuner("import", bad, "--partial", "--name", "mine")
    assert partial.code == 0
    assert "warning: left out: run.log:5" in partial.err
    (row,) = tuner("evidence", "--format", "json").json["rows"]
    assert row["records"] == 5
    assert row["files"] == ["good.log", "run.log"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("missing.log",), 4, "no such file: missing.log"),
        (("folder",), 2, "is a folder"),
        (("empty",), 2, "not a format this program knows"),
        (("trials.csv",), 2, "not a format this program knows"),
        (("good.log", "--format", "xml"), 2, "no import format 'xml'"),
        (("good.log", "--name", "1"), 2, "can't name evidence"),
        (("good.log", "--format", "summary-csv"), 2, "good.log:1: column"),
        (("empty", "--format", "log"), 2, "no record in it"),
        (("bytes.csv",), 2, "bytes.csv:2: not UTF-8"),
    ],
)
def test_what_can_not_be_imported_is_refused_in_one_line(
    tuner: InProcess, words: tuple[str, ...], code: int, says: str
) -> None:
    (tuner.folder / "folder").mkdir()
    write(tuner, "empty", "")
    write(tuner, "trials.csv", "trial_id,study_id\n")
    write(tuner, "good.log", LOG)
    (tuner.folder / "bytes.csv").write_bytes(FILES["summary-csv"].encode().replace(b"h1", b"\xff"))
    answer = tuner("import", *words)
    assert (answer.code, answer.out) == (code, "")
    assert says in answer.err.splitlines()[0]
    assert not (tuner.folder / "results.db").exists()


def test_a_changed_file_does_not_mix_with_the_set_of_the_old_one(tuner: InProcess) -> None:
    assert tuner("import", write(tuner, "a.toml", RECORDED)).code == 0
    changed = write(tuner, "b.toml", RECORDED.replace("1504.860", "1505.000"))
    answer = tuner("import", changed)
    assert answer.code == 2
    assert "stored already, from another file" in answer.err
    assert tuner("import", changed, "--name", "newer").code == 0


def test_an_open_cache_file_that_a_kill_cut_off_is_stored_with_partial(tuner: InProcess) -> None:
    name = write(tuner, "cache.json", CACHE[:-30])
    refused = tuner("import", name)
    assert refused.code == 2
    assert "cache.json: entry 3: the last entry is cut off" in refused.err
    assert tuner("import", name, "--partial").code == 0


# --- bundles


def test_export_import_export_gives_equal_bytes(tuner: InProcess) -> None:
    make_database(tuner.folder / "a.db", 64, 128)
    tuner("import", write(tuner, "run.log", LOG), "--db", "a.db")
    assert tuner("export", "bundle", "--db", "a.db", "--output", "a.bundle").code == 0
    merged = tuner("import", "a.bundle", "--db", "b.db")
    assert merged.code == 0, merged.err
    assert exports(tuner, "a.db") == exports(tuner, "b.db")
    assert tuner("db", "check", "--db", "b.db").code == 0
    tuner("export", "bundle", "--db", "b.db", "--output", "b.bundle")
    a, b = ((tuner.folder / name).read_bytes() for name in ("a.bundle", "b.bundle"))
    assert a == b
    again = tuner("import", "a.bundle", "--db", "b.db")
    assert "nothing added" in again.err
    assert exports(tuner, "a.db") == exports(tuner, "b.db")


def test_a_bundle_of_one_study_holds_no_other(tuner: InProcess) -> None:
    make_database(tuner.folder / "a.db", 64)
    with open_store(str(tuner.folder / "a.db"), create=False, writable=True) as store:
        recorder = store.recorder()
        other = recorder.open_study(make_definition("other"), fresh=False).study_id
        run_trial(recorder, other, 32, 5.0)
    answer = tuner("export", "bundle", "--study", "nightly", "--db", "a.db", "-o", "a.bundle")
    assert answer.code == 0
    assert tuner("import", "a.bundle", "--db", "b.db").code == 0
    one = tuner("export", "trials", "--study", "nightly", "--db", "a.db").out
    assert tuner("export", "trials", "--db", "b.db").out == one


def test_another_database_is_merged_directly_and_left_alone(tuner: InProcess) -> None:
    make_database(tuner.folder / "a.db", 64)
    before = (tuner.folder / "a.db").read_bytes()
    assert tuner("import", "a.db", "--db", "b.db").code == 0
    assert exports(tuner, "a.db") == exports(tuner, "b.db")
    assert (tuner.folder / "a.db").read_bytes() == before
    answer = tuner("import", "a.db", "--db", "a.db")
    assert answer.code == 2
    assert "is the database itself" in answer.err


def test_a_database_of_an_older_schema_is_merged_through_a_copy(tuner: InProcess) -> None:
    old = ROOT / "tests" / "golden" / "revision_0001.sqlite3"
    before = old.read_bytes()
    answer = tuner("import", str(old), "--db", "b.db")
    assert answer.code == 0, answer.err
    assert tuner("db", "check", "--db", "b.db").code == 0
    assert old.read_bytes() == before
    assert not list(old.parent.glob("*.bak"))


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        (b'"quick_median_us":74.0', b'"quick_median_us":73.0', 2, "was changed or damaged"),
        (b'"samples_us":[74.0', b'"samples_us":[73.0', 2, "was changed or damaged"),
        (b'{"rows":', b'{"rows":9', 2, "lines are missing or changed"),
        (b"tuner.bundle/1", b"tuner.bundle/2", 3, "has format 'tuner.bundle/2'"),
        (b'"revision":"', b'"revision":"9', 3, "has schema '9"),
        (b'{"table":"tuner_study"', b'{"table":"tuner_other"', 2, "unknown table"),
        (b'"generation":0', b'"generation":"0"', 2, "generation can't hold"),
    ],
)
def test_a_damaged_or_newer_bundle_is_refused(
    tuner: InProcess, old: bytes, new: bytes, code: int, says: str
) -> None:
    make_database(tuner.folder / "a.db", 64)
    tuner("export", "bundle", "--db", "a.db", "--output", "a.bundle")
    path = tuner.folder / "a.bundle"
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    answer = tuner("import", "a.bundle", "--db", "b.db")
    assert answer.code == code, answer.err
    assert says in answer.err.splitlines()[0]
    assert not (tuner.folder / "b.db").exists()


def test_a_bundle_that_was_cut_off_is_refused(tuner: InProcess) -> None:
    make_database(tuner.folder / "a.db", 64)
    tuner("export", "bundle", "--db", "a.db", "--output", "a.bundle")
    lines = (tuner.folder / "a.bundle").read_bytes().splitlines(keepends=True)
    (tuner.folder / "a.bundle").write_bytes(b"".join(lines[:-1]))
    answer = tuner("import", "a.bundle", "--db", "b.db")
    assert answer.code == 2
    assert "cut off" in answer.err


def test_damage_in_another_database_is_not_taken_over(tuner: InProcess) -> None:
    make_database(tuner.folder / "a.db", 64)
    with closing(sqlite3.connect(tuner.folder / "a.db")) as connection, connection:
        connection.execute("UPDATE tuner_sample SET time_us = 1.0 WHERE position = 0")
    answer = tuner("import", "a.db", "--db", "b.db")
    assert answer.code == 2
    assert "tuner_process was changed or damaged" in answer.err
    assert not (tuner.folder / "b.db").exists()
