"""Imported records, reproductions, and merging databases: nothing doubled, nothing half stored."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from import_samples import FILES

from tuner.api.evidence import list_evidence
from tuner.api.evidence import show_evidence
from tuner.api.importing import import_file
from tuner.domain.evidence import EvidenceFile
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Reproduction
from tuner.domain.outcome import Outcome
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.settings import Settings
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store import schema
from tuner.store import Store
from tuner.store.bundle import bundle_lines
from tuner.store.bundle import iter_rows
from tuner.store.checksums import row_checksum
from tuner.store.controls import study_controls
from tuner.store.evidence import add_evidence
from tuner.store.evidence import find_record
from tuner.store.evidence import find_records
from tuner.store.merge import merge
from tuner.store.merge_values import MergeReport
from tuner.store.reproductions import add_reproduction
from tuner.store.reproductions import list_reproductions
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import measure_controls
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

RECORD = EvidenceRecord(
    line=3,
    operator="vector_add",
    environment={"architecture": "gfx1201"},
    times=RecordedTimes("ms", median="0.058440", low="0.058041", high="0.0590205"),
    extra={"unknown": [1, "two"]},
)
FILE = EvidenceFile("ab" * 32, "run.log", "log", 10)
FUZZED_FILES = 2_100


def open_new(path: Path) -> Store:
    return open_store(str(path), create=True, writable=True)


def merge_into(target: Path, source: Path) -> MergeReport:
    with (
        open_store(str(source), create=False, writable=False) as other,
        open_new(target) as store,
        other.session() as session,
        store.transaction() as connection,
    ):
        return merge(connection, iter_rows(session))


def dump(path: Path) -> list[str]:
    """All rows that a merge brings along, ids and checksums included."""
    own = tuple(f'INSERT INTO "tuner_{name}"' for name in ("device", "job", "lease"))
    with closing(sqlite3.connect(path)) as connection:
        lines = [line for line in connection.iterdump() if line.startswith("INSERT")]
    return sorted(line for line in lines if not line.startswith(own))


def content(path: Path) -> list[str]:
    """Everything measured, without ids, in a fixed order."""
    ids = ("trial_id", "study_id", "reused_from")
    with open_store(str(path), create=False, writable=False) as store, store.session() as session:
        rows = [*queries.iter_trials(session), *queries.iter_samples(session)]
    return sorted(json.dumps({k: v for k, v in row.items() if k not in ids}) for row in rows)


def fill(path: Path, *blocks: int, name: str = "nightly") -> None:
    """Add confirmed trials to the newest study of a name, or to a new one."""
    with open_new(path) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(name), fresh=False).study_id
        for block in blocks:
            confirm(recorder, run_trial(recorder, study_id, block, 1.0 + block), (2.0 + block,))


# --- records and reproductions


def test_a_record_is_read_back_as_it_was_stored(store: Store) -> None:
    failed = EvidenceRecord(line=4, outcome=Outcome.WRONG_RESULT, message="postcheck=FAIL")
    with store.transaction() as connection:
        added = add_evidence(connection, "set", FILE, [RECORD, failed], may_extend=False)
    assert (added.added, added.is_known) == (2, False)
    with store.session() as session:
        first, second = find_records(session, "set")
        assert find_record(session, first.id) == first
    assert first.record == RECORD
    assert second.record == failed
    assert first.file == FILE
    assert first.record.times.range_us == (58.041, 59.0205)


def test_the_same_bytes_are_stored_once_and_sets_do_not_mix(store: Store) -> None:
    other = EvidenceFile("cd" * 32, "run.log", "log", 10)
    with store.transaction() as connection:
        add_evidence(connection, "set", FILE, [RECORD], may_extend=False)
        again = add_evidence(connection, "else", FILE, [RECORD], may_extend=True)
        assert (again.evidence, again.added, again.is_known) == ("set", 0, True)
        with pytest.raises(UsageError, match="stored already, from another file"):
            add_evidence(connection, "set", other, [RECORD], may_extend=False)
        assert add_evidence(connection, "set", other, [RECORD], may_extend=True).added == 1


@pytest.mark.parametrize("name", ["", "1", "nobody"])
def test_evidence_that_is_not_there_is_not_found(store: Store, name: str) -> None:
    with store.session() as session, pytest.raises(NotFound, match="no evidence"):
        find_records(session, name)


def test_check_finds_a_figure_that_does_not_follow_from_its_text(
    database: Path, store: Store
) -> None:
    with store.transaction() as connection:
        add_evidence(connection, "set", FILE, [RECORD], may_extend=False)
    assert migrate.check(str(database)) == []
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM tuner_record").fetchone())
        row["median_us"] = 58.5
        stamp = row_checksum("tuner_record", row)
        connection.execute("UPDATE tuner_record SET median_us = 58.5, checksum = ?", [stamp])
    (problem,) = migrate.check(str(database))
    assert "median_us of record 1 do not follow from its texts" in problem


def test_a_zero_error_with_a_sign_does_not_look_like_damage(database: Path, store: Store) -> None:
    record = EvidenceRecord(line=1, times=RECORD.times, max_abs_error=-0.0)
    with store.transaction() as connection:
        add_evidence(connection, "set", FILE, [record], may_extend=False)
    assert migrate.check(str(database)) == []


def test_reproductions_are_listed_by_what_they_repeated(database: Path, store: Store) -> None:
    fill(database, 64)
    slower = Reproduction("trial", "1", "slower", 1, 1, 1.25, 1.2, 1.3, 0.03, ({"name": "x"},))
    other = Reproduction("record", "1", "not_comparable")
    with store.transaction() as connection:
        assert [add_reproduction(connection, each) for each in (slower, other)] == [1, 2]
    with store.session() as session:
        found = list_reproductions(session, original_kind="trial", original_id="1")
        assert len(list_reproductions(session)) == 2
    assert [(each.id, each.reproduction.ratio_high) for each in found] == [(1, 1.3)]
    assert list(found[0].reproduction.differences) == [{"name": "x"}]
    assert migrate.check(str(database)) == []


# --- merging


def test_a_merge_into_an_empty_database_keeps_every_row_and_id(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    golden = Path(__file__).parent.parent / "golden" / f"revision_{schema.head()}.sqlite3"
    shutil.copy(golden, a)  # which holds every kind of row
    merge_into(b, a)
    assert dump(b) == dump(a)
    before = dump(b)
    assert merge_into(b, a).added == {}
    assert dump(b) == before


def test_databases_with_a_shared_part_merge_to_the_same_in_either_order(folder: Path) -> None:
    a, b, ab, ba = (folder / f"{name}.db" for name in ("a", "b", "ab", "ba"))
    fill(a, 32, 64)
    shutil.copy(a, b)  # after which both go on
    fill(a, 128)
    fill(b, 256, 512)
    fill(b, 64, name="other")
    for target, sources in ((ab, (a, b)), (ba, (b, a))):
        for source in sources:
            merge_into(target, source)
    assert content(ab) == content(ba)
    assert set(content(ab)) == {*content(a), *content(b)}
    before = dump(ab)
    for source in (a, b, ba):
        report = merge_into(ab, source)
        assert (report.added, report.advanced, report.left_out) == ({}, 0, [])
    assert dump(ab) == before
    assert migrate.check(str(ab)) == []


def test_two_measurements_of_one_point_are_both_kept(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    fill(a, 32)
    shutil.copy(a, b)
    fill(a, 64)
    fill(b, 64)
    merge_into(a, b)
    with open_new(a) as store, store.session() as session:
        points = [
            (each.config["BLOCK"], each.attempt)
            for each in queries.list_trials(session, study_id=1)
        ]
    assert points == [(32, 0), (64, 0), (64, 1)]
    before = dump(a)
    merge_into(a, b)
    assert dump(a) == before


def test_an_independent_run_of_the_same_study_stays_a_study_of_its_own(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    fill(a, 32)
    fill(b, 32)
    merge_into(a, b)
    with open_new(a) as store, store.session() as session:
        studies = queries.list_studies(session)
    assert [each.generation for each in studies] == [0, 1]


def test_a_study_that_went_on_elsewhere_is_brought_further(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    with open_new(a) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        open_trial = run_trial(recorder, study_id, 32, 5.0)
        running = recorder.start_trial(study_id, make_point(64), GEOMETRY)
        migrate.backup(str(a), b)
        recorder.finish_trial(running, make_report((7.0,)), bytes_moved=1)
        confirm(recorder, open_trial, (5.0, 5.5), (5.25,))
        recorder.finish_study(study_id)
    fill(b)  # opened and left: the trial that ran is interrupted there
    report = merge_into(b, a)
    assert report.advanced == 3
    assert content(b) == content(a)
    assert migrate.check(str(b)) == []
    with open_new(b) as store, store.session() as session:
        assert queries.find_study(session, "nightly").state == "finished"
    before = dump(a)
    merge_into(a, b)  # the other way there is nothing to take
    assert dump(a) == before


def test_times_confirmed_in_both_are_not_mixed(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    with open_new(a) as store:
        recorder = store.recorder()
        trial = run_trial(
            recorder, recorder.open_study(make_definition(), fresh=False).study_id, 32, 5.0
        )
        migrate.backup(str(a), b)
        confirm(recorder, trial, (5.0,), (6.0,))
    with open_new(b) as store:
        recorder = store.recorder()
        recorder.open_study(make_definition(), fresh=False)
        recorder.record_confirmation(0, [(trial, make_report((9.0,)))], required=2)
    report = merge_into(b, a)
    assert "was gone on with in both" in report.left_out[0]
    assert migrate.check(str(b)) == []


def test_a_study_that_is_being_run_here_is_left_alone(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    fill(a, 32)
    shutil.copy(a, b)
    fill(a, 64)
    with open_new(b) as store:
        store.recorder().open_study(make_definition(), fresh=False)
        before = content(b)
        report = merge_into(b, a)
        assert "is being run here" in report.left_out[0]
        assert content(b) == before


def test_controls_of_runs_here_and_there_stand_side_by_side(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    fill(b, 16)  # so that ids differ
    fill(a, 64)
    began = datetime(2026, 12, 2, tzinfo=UTC)
    measure_controls_in(a, 1, 10.0, 10.5, started_at=began)
    merge_into(b, a)  # as the second study
    measure_controls_in(a, 1, 10.0, started_at=began + timedelta(hours=1))
    report = merge_into(b, a)
    assert report.added == {"control": 3}
    with open_new(b) as store, store.session() as session:
        assert study_controls(session, 1) == []
        runs = study_controls(session, 2)
        sentinels = [queries.trial_detail(session, each.sentinel_id).summary for each in runs]
    assert [(each.sentinel_high_us, each.sentinel_count) for each in runs] == [(10.5, 2), (10.0, 1)]
    assert {each.config["BLOCK"] for each in sentinels} == {64}
    assert migrate.check(str(b)) == []
    before = dump(b)
    assert merge_into(b, a).added == {}
    assert dump(b) == before


def measure_controls_in(path: Path, study_id: int, *times_us: float, started_at: datetime) -> None:
    with open_new(path) as store:
        recorder = store.recorder()
        assert recorder.open_study(make_definition(), fresh=False).study_id == study_id
        measure_controls(recorder, study_id, 1, *times_us, started_at=started_at)


def test_check_finds_a_median_that_is_not_that_of_the_samples(folder: Path) -> None:
    path = folder / "a.db"
    fill(path, 64)
    measure_controls_in(path, 1, 10.0, started_at=datetime(2026, 12, 2, tzinfo=UTC))
    assert migrate.check(str(path)) == []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        row = dict(connection.execute("SELECT * FROM tuner_control WHERE id = 3").fetchone())
        row["median_us"] = 9.5
        for name in ("run_started_at", "recorded_at"):
            row[name] = datetime.fromisoformat(row[name]).replace(tzinfo=UTC)
        stamp = row_checksum("tuner_control", row)
        connection.execute(
            "UPDATE tuner_control SET median_us = 9.5, checksum = ? WHERE id = 3", [stamp]
        )
    (problem,) = migrate.check(str(path))
    assert "median of control 3 is not that of its samples" in problem


def test_evidence_and_reproductions_are_merged_too(folder: Path) -> None:
    a, b = folder / "a.db", folder / "b.db"
    fill(b, 16, 32)
    fill(a, 64)
    with open_new(a) as store, store.transaction() as connection:
        add_evidence(connection, "set", FILE, [RECORD], may_extend=False)
        add_reproduction(connection, Reproduction("trial", "1", "same", 1, 1, 1.0))
    merge_into(b, a)
    with open_new(b) as store, store.session() as session:
        assert find_records(session, "set")[0].record == RECORD
        (found,) = list_reproductions(session)
        rerun = queries.trial_detail(session, found.reproduction.rerun_trial_id or 0)
    assert found.reproduction.original_id == str(found.reproduction.rerun_trial_id) == "3"
    assert rerun.summary.config == {"BLOCK": 64}
    assert merge_into(b, a).added == {}


# --- fuzz


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(db=str(folder / "fuzz.db"), cache_dir=folder)


@pytest.fixture
def bundle(folder: Path) -> bytes:
    path = folder / "source.db"
    fill(path, 64)
    with open_new(path) as store:
        with store.transaction() as connection:
            add_evidence(connection, "set", FILE, [RECORD], may_extend=False)
        with store.session() as session:
            return "".join(bundle_lines(iter_rows(session), None)).encode()


def test_spoilt_files_end_in_an_error_or_in_whole_records(
    folder: Path, settings: Settings, bundle: bytes
) -> None:
    chance = random.Random(20260719)
    samples = {kind: text.encode() for kind, text in FILES.items()} | {"bundle": bundle}
    spoil: list[Callable[[bytes, random.Random], bytes]] = [
        flip, cut, drop, double, swap_number, put_junk,
    ]  # fmt: skip
    path = folder / "spoilt"
    seen = {"stored": 0, "refused": 0}
    messages: set[str] = set()
    counts = count_rows(folder / "fuzz.db")
    for number in range(FUZZED_FILES):
        kind = list(samples)[number % len(samples)]
        spoilt = samples[kind]
        if kind == "bundle" and number % 3 == 0:
            spoilt = with_sound_checksums(bundle, chance)
        for _ in range(chance.randint(1, 3)):
            spoilt = chance.choice(spoil)(spoilt, chance)
        path.write_bytes(spoilt)
        try:
            result = import_file(
                path,
                format_name=kind if number % 2 else None,
                partial=number % 5 == 0,
                settings=settings,
            )
        except TunerError as error:
            seen["refused"] += 1
            messages.add(error.message)
            assert count_rows(folder / "fuzz.db") == counts, (kind, spoilt)
        else:
            seen["stored"] += 1
            now = count_rows(folder / "fuzz.db")
            added = result.added.get("records", result.added.get("record", 0))
            assert now["tuner_record"] == counts.get("tuner_record", 0) + added
            counts = now
    assert min(seen.values()) > FUZZED_FILES // 20, seen
    assert not [each for each in messages if "\n" in each or len(each) > 600]
    assert migrate.check(settings.db) == []
    read_everything(settings)


def read_everything(settings: Settings) -> None:
    """Read back what got in: it must not be what breaks a later command."""
    for row in list_evidence(settings):
        json.dumps(show_evidence(row["evidence"], settings), allow_nan=False).encode("ascii")
    with open_new(Path(settings.db)) as store, store.session() as session:
        trials = list(queries.iter_trials(session))
        assert trials
        for row in trials:
            queries.trial_detail(session, row["trial_id"])
        queries.list_studies(session)
        assert list(queries.iter_samples(session))


def count_rows(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    tables = ("tuner_evidence_file", "tuner_record", "tuner_study", "tuner_trial", "tuner_process")
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in tables
        }


def flip(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) or 1)
    return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)] if chance.random() < 0.3 else content


def drop(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def double(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"".join(lines)


def swap_number(content: bytes, chance: random.Random) -> bytes:
    values = ("NaN", "-0", "0", "-1", "1e999", "1e-999", "9" * 25, "9" * 5000, '""', "true", "NA")
    places = [place for place, byte in enumerate(content) if chr(byte).isdigit()] or [0]
    place = chance.choice(places)
    return content[:place] + chance.choice(values).encode() + content[place + 1 :]


def put_junk(content: bytes, chance: random.Random) -> bytes:
    junk = (b"\x00", b"\xff", b'"', b"'", b"\\", b"{", b"]", b"[" * 3000, b"a." * 3000, b",", b"\r",
            b"\\ud800", "\u202e".encode(), b" RESULT a=b\n", b"=1", b"\n")  # fmt: skip
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.choice(junk) + content[place:]


def with_sound_checksums(bundle: bytes, chance: random.Random) -> bytes:
    """Return a bundle with a value that makes no sense and checksums that say it does."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in bundle.splitlines()]
    line = chance.choice(lines[1:-1])
    name = chance.choice(list(line["row"]))
    line["row"][name] = chance.choice(
        [None, 0, -1, 2**63, 1.5, "", "x", "[]", "{}", "null", "\ud800", "\x00", True, [], {}]
    )
    line["row"]["checksum"] = (
        row_checksum(line["table"], line["row"], line.get("samples_us", ()))
        if "\ud800" not in line["row"].values()
        else "0" * 16
    )
    texts = [json.dumps(each, separators=(",", ":")) + "\n" for each in lines[:-1]]
    digest = hashlib.sha256("".join(texts).encode()).hexdigest()
    return "".join([*texts, json.dumps({**lines[-1], "sha256": digest}) + "\n"]).encode()
