"""What is opened, what is refused, and that what is refused is left byte for byte."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tuner.errors import DatabaseProblem
from tuner.errors import NotFound
from tuner.errors import SchemaMismatch
from tuner.errors import UsageError
from tuner.store import open_store
from tuner.store import schema
from tuner.store import Store
from tuner.store import store as store_module
from tuner.store.location import locate
from tuner.store.location import network_file_system
from tuner.testing.store_values import make_definition

WAYS = pytest.mark.parametrize(
    ("create", "writable"), [(False, False), (False, True), (True, True)], ids=str
)


def make_database(path: Path) -> None:
    with open_store(str(path), create=True, writable=True) as store:
        store.recorder().open_study(make_definition(), fresh=False)


def run_sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def assert_refused(
    path: Path, error: type[DatabaseProblem], text: str, *, create: bool, writable: bool
) -> DatabaseProblem:
    before = path.read_bytes()
    with pytest.raises(error, match=text) as caught:
        open_store(str(path), create=create, writable=writable)
    assert path.read_bytes() == before
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 3
    return caught.value


@pytest.mark.parametrize("writable", [False, True])
def test_a_mistyped_path_is_not_created(database: Path, writable: bool) -> None:
    with pytest.raises(NotFound, match="no such database") as caught:
        open_store(str(database), create=False, writable=writable)
    assert caught.value.exit_code == 4
    assert list(database.parent.iterdir()) == []


def test_create_makes_the_folder_that_nobody_has_named(folder: Path) -> None:
    path = folder / "a" / "b" / "results.db"
    with pytest.raises(UsageError, match="there is no folder") as caught:
        open_store(str(path), create=True, writable=True)
    assert f"mkdir -p {path.parent}" in caught.value.hint
    assert list(folder.iterdir()) == []
    with open_store(str(path), create=True, writable=True, make_folder=True):
        assert path.exists()


def test_create_makes_a_database_in_wal_mode(folder: Path) -> None:
    path = folder / "results é?#%.db"
    make_database(path)
    with open_store(f"sqlite:///{path}", create=False, writable=True) as store:
        info = store.info()
    assert info.state == "current"
    assert info.counts["study"] == 1
    assert info.system.endswith("journal mode wal")
    assert store.warning == ""
    names = {each.name for each in path.parent.iterdir()}
    assert names == {path.name, f"{path.name}.lock"}


def test_a_writer_asks_for_durable_commits_and_foreign_keys(store: Store) -> None:
    with store.transaction() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


def test_a_transaction_has_the_write_lock_from_its_start(store: Store, database: Path) -> None:
    other = sqlite3.connect(database, timeout=0.0)
    locked = pytest.raises(sqlite3.OperationalError, match="locked")
    with closing(other), store.transaction(), locked:
        other.execute("BEGIN IMMEDIATE")


def test_a_reader_can_neither_write_nor_checkpoint(store: Store) -> None:
    with store.session() as session:
        connection = session.connection()
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == 0
        assert connection.exec_driver_sql("PRAGMA query_only").scalar() == 1
    with pytest.raises(DatabaseProblem, match="can't be written"), store.session() as session:
        session.connection().exec_driver_sql("DELETE FROM tuner_study")


def test_a_store_for_reading_does_not_write(database: Path) -> None:
    make_database(database)
    store = open_store(str(database), create=False, writable=False)
    with store, pytest.raises(UsageError, match="opened for reading"):
        store.recorder()


@WAYS
def test_a_newer_schema_is_refused(database: Path, create: bool, writable: bool) -> None:
    make_database(database)
    run_sql(database, "UPDATE tuner_alembic_version SET version_num = '0042'")
    error = assert_refused(
        database,
        SchemaMismatch,
        f"schema 0042.*knows {schema.head()}",
        create=create,
        writable=writable,
    )
    assert "newer version of tuner" in error.hint


@WAYS
def test_an_older_schema_is_refused_with_the_command(
    database: Path, create: bool, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(database)
    made = schema.head()
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, "0042"))
    error = assert_refused(
        database, SchemaMismatch, f"{made}.*needs 0042", create=create, writable=writable
    )
    assert f"tuner db upgrade --db {database}" in error.hint


@WAYS
@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE studies (id INTEGER)", "CREATE TABLE alembic_version (version_num TEXT)"],
        ["CREATE TABLE x (id INTEGER)", "DROP TABLE x"],
    ],
    ids=["other program", "no tables"],
)
def test_a_foreign_database_is_refused(
    database: Path, statements: list[str], create: bool, writable: bool
) -> None:
    run_sql(database, *statements)
    assert_refused(database, SchemaMismatch, "not one of tuner", create=create, writable=writable)


@WAYS
@pytest.mark.parametrize("stamps", [[], ["0001", "0002"]], ids=["none", "two"])
def test_a_damaged_stamp_is_refused(
    database: Path, stamps: list[str], create: bool, writable: bool
) -> None:
    make_database(database)
    run_sql(
        database,
        "DELETE FROM tuner_alembic_version",
        *(f"INSERT INTO tuner_alembic_version VALUES ('{each}')" for each in stamps),
    )
    assert_refused(
        database, SchemaMismatch, "revisions instead of one", create=create, writable=writable
    )


@WAYS
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "empty"),
        (b"trial,median_us\n1,2.5\n", "not an SQLite database"),
        (b"SQLite format 3\x00" + b"\xff" * 5000, "database"),
        (b"SQLite", "not an SQLite database"),
    ],
    ids=["0 bytes", "text", "garbage after the magic", "short"],
)
def test_what_is_no_database_is_refused(
    database: Path, content: bytes, text: str, create: bool, writable: bool
) -> None:
    database.write_bytes(content)
    assert_refused(database, DatabaseProblem, text, create=create, writable=writable)


@WAYS
def test_a_truncated_database_is_refused_or_found_damaged(
    database: Path, create: bool, writable: bool
) -> None:
    make_database(database)
    database.write_bytes(database.read_bytes()[:4096])
    assert_refused(database, DatabaseProblem, "damaged", create=create, writable=writable)


@WAYS
def test_a_folder_and_a_pipe_are_refused(folder: Path, create: bool, writable: bool) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for path, text in ((folder, "is a directory"), (pipe, "not a regular file")):
        with pytest.raises(DatabaseProblem, match=text):
            open_store(str(path), create=create, writable=writable)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(database: Path) -> None:
    make_database(database)
    database.chmod(0)
    with pytest.raises(DatabaseProblem, match="can't be read"):
        open_store(str(database), create=False, writable=False)


def test_a_file_that_can_not_be_read_is_refused(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(database)

    normal = Path.open

    def refuse(path: Path, *args: str, **more: str) -> object:
        if path == database:
            raise PermissionError(13, "Permission denied")
        return normal(path, *args, **more)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DatabaseProblem, match="can't be read: Permission denied"):
        open_store(str(database), create=False, writable=False)


def test_a_killed_creation_leaves_nothing_that_disturbs(database: Path) -> None:
    database.with_name("results.db.new").write_bytes(b"half a database")
    make_database(database)
    assert not database.with_name("results.db.new").exists()


def test_a_network_file_system_gets_no_wal_and_a_warning(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(database)  # with WAL, and then moved to a server
    monkeypatch.setattr(store_module, "network_file_system", lambda _path: "nfs4")
    with open_store(str(database), create=False, writable=True) as store:
        assert "nfs4" in store.warning
        assert store.info().system.endswith("journal mode delete")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/results.db", ""),
        ("/data/share/results.db", "nfs4"),
        ("/data/share2/results.db", ""),
        ("/data/share/local/results.db", ""),
        ("/with space/results.db", "fuse.sshfs"),
    ],
)
def test_network_file_systems_are_told_by_the_mounts(folder: Path, path: str, kind: str) -> None:
    mounts = folder / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\n"
        "server:/share /data/share nfs4 rw,vers=4.2 0 0\n"
        "/dev/vdb /data/share/local xfs rw 0 0\n"
        "me@host: /with\\040space fuse.sshfs rw 0 0\n"
    )
    assert network_file_system(Path(path), mounts) == kind


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("results.db", "", "results.db"),
        ("/tmp/results.db", "", "/tmp/results.db"),
        ("sqlite:///results.db", "", "results.db"),
        ("sqlite:////tmp/results.db", "", "/tmp/results.db"),
        ("postgresql://me:pw@host/db", "postgresql+psycopg://me:pw@host/db", None),
        ("postgres://host/db", "postgresql+psycopg://host/db", None),
        ("postgresql+psycopg://host/db", "postgresql+psycopg://host/db", None),
    ],
)
def test_a_database_is_named_by_path_or_url(text: str, url: str, path: str | None) -> None:
    found = locate(text)
    assert (found.url, found.path) == (url, None if path is None else Path(path))
    assert "pw" not in str(found)


@pytest.mark.parametrize(
    "text",
    ["", "sqlite://", "sqlite:///", "sqlite:///:memory:", ":memory:", "mysql://host/db", "a\x00b"],
)
def test_what_names_no_database_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        locate(text)


def test_a_database_on_a_read_only_medium_can_be_read(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(database)
    normal = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and normal(path, mode))
    with open_store(str(database), create=False, writable=False) as store:
        assert store.info().counts["study"] == 1
    assert not database.with_name("results.db-shm").exists()  # nothing was written beside it
