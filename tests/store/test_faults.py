"""A full disk, readers beside a writer, and damage that only the checksums see."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from tuner.errors import DatabaseProblem
from tuner.errors import TunerError
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store import store as store_module
from tuner.store.check import find_problems
from tuner.store.models import Base
from tuner.store.models import TrialRow
from tuner.store.table import update_row
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_source

FLIPS = 150


def fill(store: Store, trials: int = 3) -> int:
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    for block in range(trials):
        trial_id = run_trial(recorder, study_id, block, block + 10.0, block + 10.5)
        confirm(recorder, trial_id, (block + 10.0, block + 10.5, block + 10.25), (block + 9.5,))
    return study_id


def contents(path: Path) -> list[tuple[object, ...]]:
    """Return every value of every row, as the program reads them."""
    with open_store(str(path), create=False, writable=False) as store, store.session() as session:
        return [
            (table.name, *row)
            for table in Base.metadata.sorted_tables
            for row in session.execute(select(table).order_by(*table.primary_key.columns))
        ]


def test_a_full_disk_ends_with_a_clear_error_and_loses_nothing(store: Store) -> None:
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    with store.transaction() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 4}")
    acknowledged: list[int] = []

    def run_until_full() -> None:
        for block in range(1000):
            acknowledged.extend([run_trial(recorder, study_id, block, *([1.5] * 50))])

    with pytest.raises(DatabaseProblem, match="disk full") as caught:
        run_until_full()
    assert "free some space" in caught.value.hint
    assert acknowledged
    assert [
        trial.trial_id for trial in recorder.stored_trials(study_id) if trial.outcome == "ok"
    ] == acknowledged
    with store.transaction() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    assert run_trial(recorder, study_id, 2000, 1.5)  # it works again once there is space


def test_a_readers_snapshot_stands_still_and_stops_no_writer(store: Store) -> None:
    study_id = fill(store, trials=1)
    recorder = store.recorder()
    with store.session() as session:
        rows = queries.iter_trials(session)
        first = next(rows)
        for block in range(100, 110):
            run_trial(recorder, study_id, block, 5.0)
        assert [first, *rows] == [first]
        assert len(queries.list_trials(session, study_id)) == 1
    with store.session() as session:
        assert len(queries.list_trials(session, study_id)) == 11


def test_a_reader_sees_what_a_killed_writer_left_in_its_log(store: Store, folder: Path) -> None:
    fill(store)
    copy = folder / "copy.db"
    for suffix in ("", "-wal"):  # without -shm: its owner is gone, the log must be recovered
        source = folder / f"results.db{suffix}"
        (folder / f"copy.db{suffix}").write_bytes(source.read_bytes())
    before = copy.read_bytes()
    assert migrate.check(str(copy)) == []
    assert migrate.info(str(copy)).counts["trial"] == 3
    # Moving the log into the file is for writers, who hold the lock.
    assert copy.read_bytes() == before
    assert (folder / "copy.db-wal").read_bytes() == (folder / "results.db-wal").read_bytes()


def test_a_reader_sees_no_half_transaction_of_a_killed_writer(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rollback journal, the file holds half of it and the journal must be played back."""
    monkeypatch.setattr(store_module, "network_file_system", lambda _path: "nfs4")
    with open_store(str(database), create=True, writable=True) as store:
        fill(store)
    code = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size=1')\n"  # so that changed pages reach the file at once
        "c.execute('BEGIN IMMEDIATE')\n"
        "c.execute('UPDATE tuner_trial SET log = hex(randomblob(20000))')\n"
        "c.execute('UPDATE tuner_sample SET time_us = 1.0')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(database)], check=False)
    assert database.with_name("results.db-journal").stat().st_size > 0
    with open_store(str(database), create=False, writable=False) as store, store.session() as each:
        assert {row["message"] for row in queries.iter_trials(each)} == {""}
    assert migrate.check(str(database)) == []


def test_a_flipped_bit_is_found_or_changed_nothing(database: Path) -> None:
    with open_store(str(database), create=True, writable=True) as store:
        fill(store)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    sound, before = database.read_bytes(), contents(database)
    assert migrate.check(str(database)) == []
    used = [position for position, byte in enumerate(sound) if byte]  # most of it is free space
    chance = random.Random(7)
    found = 0
    for _ in range(FLIPS):
        position, bit = chance.choice(used), chance.randrange(8)
        damaged = bytearray(sound)
        damaged[position] ^= 1 << bit
        database.write_bytes(damaged)
        try:
            problems = migrate.check(str(database))
        except TunerError as error:
            problems = [str(error)]
        if problems:
            found += 1
        else:
            assert contents(database) == before, f"bit {bit} of byte {position} went unseen"
        assert database.read_bytes() == bytes(damaged)
    assert found > FLIPS / 2  # else nothing was tried


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE tuner_trial SET config = '{\"BLOCK\":65}' WHERE id = 2", "tuner_trial id 2"),
        ("UPDATE tuner_trial SET median_us = median_us + 0.001 WHERE id = 1", "tuner_trial id 1"),
        (  # not the middle one, so that the median still follows
            "UPDATE tuner_sample SET time_us = 9.5 WHERE process_id = 2 AND position = 0",
            "checksum: tuner_process id 2",
        ),
        ("DELETE FROM tuner_sample WHERE process_id = 3 AND position = 0", "process id 3"),
        ("UPDATE tuner_source SET files = '{}'", "tuner_source"),
        ("UPDATE tuner_environment SET identity = '{}'", "tuner_environment"),
        ("UPDATE tuner_validation SET passed = 0 WHERE id = 1", "tuner_validation id 1"),
        ("UPDATE tuner_study SET planned = 99", "tuner_study"),
        ("DELETE FROM tuner_protocol", "foreign key"),
        ("DROP INDEX ix_tuner_trial_study_id_outcome_id", "schema: indexes of tuner_trial"),
        ("DROP TABLE tuner_validation", "table tuner_validation is missing"),
    ],
)
def test_check_names_what_was_changed_behind_its_back(
    database: Path, statement: str, text: str
) -> None:
    with open_store(str(database), create=True, writable=True) as store:
        fill(store)
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute(statement).rowcount != 0
    problems = migrate.check(str(database))
    assert any(text in problem for problem in problems), problems


def test_check_finds_a_median_that_does_not_follow_from_its_samples(store: Store) -> None:
    """Even one with a good checksum, as a fault of this program would write it."""
    fill(store, trials=1)
    with store.transaction() as connection:
        update_row(connection, TrialRow, 1, {"low_us": 0.5})
    with store.session() as session:
        assert find_problems(session.connection()) == [
            "derived: low_us of trial 1 do not follow from samples"
        ]


def test_a_source_too_long_for_one_page_comes_back_whole(store: Store) -> None:
    text = "// é\n" + "x" * 100_000
    definition = make_definition(sources={"block": make_source("block", text)})
    recorder = store.recorder()
    study_id = recorder.open_study(definition, fresh=False).study_id
    trial_id = run_trial(recorder, study_id, 64, 1.0)
    with store.session() as session:
        source = queries.trial_detail(session, trial_id).source
    assert source.files == {"block.hip": text}
