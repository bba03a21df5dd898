"""Copies between database systems: every row, or none."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sqlite3
import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from postgres import PostgresServer
from sqlalchemy import Connection
from sqlalchemy import insert
from sqlalchemy import make_url
from sqlalchemy import select

from tuner.errors import DatabaseProblem
from tuner.errors import NotFound
from tuner.errors import SchemaMismatch
from tuner.errors import UsageError
from tuner.store import copying
from tuner.store import migrate
from tuner.store import open_store
from tuner.store.bundle import bundle_lines
from tuner.store.bundle import iter_rows
from tuner.store.copying import copy_store
from tuner.store.models import Base
from tuner.store.models import ImplementationRow
from tuner.store.schema import head
from tuner.store.table import table_of
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition

GOLDEN = Path(__file__).parent.parent / "golden" / f"revision_{head()}.sqlite3"
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def golden(folder: Path) -> str:
    """A database that holds every kind of row."""
    path = folder / "golden.db"
    shutil.copy(GOLDEN, path)
    return str(path)


def ignore(_table: str, _done: int, _total: int) -> None:
    return None


def rows_of(url: str) -> list[tuple[object, ...]]:
    """Return every value of every row, as the program reads them."""
    with open_store(url, create=False, writable=False) as store, store.session() as session:
        return [
            (table.name, *row)
            for table in Base.metadata.sorted_tables
            for row in session.execute(select(table).order_by(*table.primary_key.columns))
        ]


def bundle_of(url: str) -> str:
    with open_store(url, create=False, writable=False) as store, store.session() as session:
        return "".join(bundle_lines(iter_rows(session), None))


def test_every_row_gets_to_a_server_and_back(
    golden: str, folder: Path, make_postgres: Callable[..., str]
) -> None:
    empty, prepared = make_postgres(empty=True), make_postgres()
    back = str(folder / "new folder" / "back.db")
    calls: list[tuple[str, int, int]] = []
    report = copy_store(golden, empty, lambda *each: calls.append(each))
    copy_store(empty, prepared, ignore)  # from one server's database to another
    copy_store(prepared, back, ignore)
    assert min(report.rows.values()) > 0, report.rows  # else a kind of row was not tried
    assert [(name, count) for name, count, total in calls if count == total] == [
        *report.rows.items()
    ]
    for url in (empty, prepared, back):
        assert migrate.check(url) == []
        assert rows_of(url) == rows_of(golden)
        assert bundle_of(url) == bundle_of(golden)
    names = {each.name for each in Path(back).parent.iterdir()}
    assert names <= {"back.db", "back.db-wal", "back.db-shm"}


def test_a_copy_can_be_gone_on_with(golden: str, postgres_url: str) -> None:
    copy_store(golden, postgres_url, ignore)
    with open_store(postgres_url, create=False, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition("after the copy"), fresh=False).study_id
        trial_id = run_trial(recorder, study_id, 64, 10.0)
    before = rows_of(golden)
    ids = {row[0]: max(each[1] for each in before if each[0] == row[0]) for row in before}
    assert study_id == ids["tuner_study"] + 1
    assert trial_id == ids["tuner_trial"] + 1
    assert migrate.check(postgres_url) == []


def test_what_is_there_is_left_alone(golden: str, folder: Path, postgres_url: str) -> None:
    taken = folder / "taken.db"
    taken.write_text("mine")
    with pytest.raises(UsageError, match="exists; it is left alone"):
        copy_store(golden, str(taken), ignore)
    assert taken.read_text() == "mine"
    with open_store(postgres_url, create=False, writable=True) as store:
        store.recorder().open_study(make_definition(), fresh=False)
    before = rows_of(postgres_url)
    with pytest.raises(UsageError, match=r"is not empty: it holds rows of .*study"):
        copy_store(golden, postgres_url, ignore)
    with pytest.raises(UsageError, match="is not empty"):
        copy_store(postgres_url, postgres_url, ignore)
    assert rows_of(postgres_url) == before


def test_what_can_not_be_copied_leaves_nothing(
    golden: str, folder: Path, postgres_url: str
) -> None:
    target = str(folder / "new.db")
    with pytest.raises(NotFound):
        copy_store(str(folder / "missing.db"), target, ignore)
    with closing(sqlite3.connect(golden)) as connection, connection:
        connection.execute("UPDATE tuner_alembic_version SET version_num = '0001'")
    for each in (target, postgres_url):
        with pytest.raises(SchemaMismatch, match="schema 0001"):
            copy_store(golden, each, ignore)
    with pytest.raises(DatabaseProblem, match="can't be written"):
        copy_store(postgres_url, "/dev/null/new.db", ignore)
    assert [each.name for each in folder.iterdir() if "new.db" in each.name] == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tuner_trial SET message = 'x' WHERE id = 1",
        "UPDATE tuner_sample SET time_us = 1.5 WHERE process_id = 1",
        "UPDATE tuner_study SET created_at = 'yesterday' WHERE id = 1",
        "UPDATE tuner_job SET message = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_damaged_row_ends_the_copy(
    golden: str, folder: Path, postgres: PostgresServer, make_postgres: Callable[..., str],
    damage: str,
) -> None:  # fmt: skip
    with closing(sqlite3.connect(golden)) as connection, connection:
        connection.execute(damage)
    empty = make_postgres(empty=True)
    for target in (empty, str(folder / "new.db")):
        with pytest.raises(DatabaseProblem, match=f"database {golden}: .*damaged"):
            copy_store(golden, target, ignore)
    assert [each.name for each in folder.iterdir() if "new.db" in each.name] == []
    found = postgres.run(
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'tuner%'", make_url(empty).database or ""
    )
    assert found == [(0,)]  # not even the tables


def test_a_row_that_gets_lost_on_the_way_is_missed(
    golden: str, postgres_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    normal = copying._insert

    def lossy(target, table, chunk):
        normal(target, table, chunk[:-1] if table.name == "tuner_validation" else chunk)

    monkeypatch.setattr(copying, "_insert", lossy)
    for target in (postgres_url, str(folder / "new.db")):
        with pytest.raises(DatabaseProblem, match="of tuner_validation differs between"):
            copy_store(golden, target, ignore)
    assert rows_of(postgres_url) == []
    assert not (folder / "new.db").exists()


@pytest.mark.parametrize("to_file", [True, False], ids=["file", "server"])
def test_a_killed_copy_leaves_nothing(
    golden: str, folder: Path, postgres_url: str, to_file: bool
) -> None:
    target = str(folder / "new.db") if to_file else postgres_url
    reader, writer = FORK.Pipe(duplex=False)

    def copy_until_samples() -> None:
        def stop(table: str, _done: int, _total: int) -> None:
            if table == "sample":
                writer.send(table)
                time.sleep(60)

        copy_store(golden, target, stop)

    process = FORK.Process(target=copy_until_samples)
    process.start()
    assert reader.recv() == "sample"
    process.kill()
    process.join()
    if to_file:
        assert not Path(target).exists()
    else:
        assert rows_of(postgres_url) == []
    copy_store(golden, target, ignore)  # and it can be had again
    assert rows_of(target) == rows_of(golden)


def test_nobody_writes_into_a_copy_that_is_being_made(golden: str, postgres_url: str) -> None:
    waiting = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-clock_timeout%3D200ms"
    refused: list[str] = []

    def write(table: str, _done: int, _total: int) -> None:
        if table == "trial" and not refused:
            store = open_store(waiting, create=True, writable=True)  # waits for nothing
            row = {"id": 999, "operator": "x", "name": "x", "language": "hip", "checksum": "x"}
            locked = pytest.raises(DatabaseProblem, match="locked")
            with store, locked as caught, store.transaction() as connection:
                connection.execute(insert(table_of(ImplementationRow)), row)
            refused.append(caught.value.message)

    copy_store(golden, postgres_url, write)
    assert len(refused) == 1
    assert rows_of(postgres_url) == rows_of(golden)


def test_a_study_that_is_being_run_is_named(folder: Path, postgres_url: str) -> None:
    source = str(folder / "source.db")
    with open_store(source, create=True, writable=True) as store:
        study_id = store.recorder().open_study(make_definition("under way"), fresh=False).study_id
        run_trial(store.recorder(), study_id, 64, 10.0)
        assert copy_store(source, postgres_url, ignore).driven == ("under way",)
        run_trial(store.recorder(), study_id, 128, 10.0)  # the source is not disturbed
    assert copy_store(source, str(folder / "later.db"), ignore).driven == ()
    assert json.loads(bundle_of(postgres_url).splitlines()[-1])["rows"] > 0


def test_a_source_that_is_cut_off_while_the_copy_is_checked_is_missed_by_nobody(
    postgres: PostgresServer, postgres_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server does to who is idle in a transaction for long."""
    normal = copying.checksum_problems

    def slow(connection: Connection) -> Iterator[str]:
        name = make_url(postgres_url).database
        postgres.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' "
            "AND state = 'idle in transaction'"
        )
        yield from normal(connection)

    with open_store(postgres_url, create=False, writable=True) as store:
        store.recorder().open_study(make_definition("under way"), fresh=False)
        monkeypatch.setattr(copying, "checksum_problems", slow)
        target = str(folder / "new.db")
        assert copy_store(postgres_url, target, ignore).driven == ("under way",)
    assert migrate.check(target) == []
