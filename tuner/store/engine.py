"""Engines of SQLite files: how they are opened. All SQL that only SQLite knows is here.

SQLite: WAL, ``synchronous=FULL`` (a commit survives a power loss), ``BEGIN IMMEDIATE`` for
writers, a busy timeout, foreign keys on. Readers open the file read-only and never checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Literal
from typing import TypeAlias
from urllib.parse import quote

from sqlalchemy import Connection
from sqlalchemy import create_engine
from sqlalchemy import Engine
from sqlalchemy import event
from sqlalchemy.pool import QueuePool

from tuner.errors import DatabaseProblem
from tuner.store.locking import DatabaseFileLock
from tuner.store.schema import create_schema

Mode: TypeAlias = Literal["read", "write", "migrate", "create"]

BUSY_TIMEOUT_S = 30.0


def sqlite_connection(path: Path, mode: Mode) -> sqlite3.Connection:
    """Open an SQLite file through the driver, with implicit transactions off.

    ``migrate`` leaves foreign keys off: a table that is rebuilt is dropped for a moment, and
    SQLite would take its rows' dependents along; the upgrade checks all keys at its end.

    Raises:
        sqlite3.Error: It can't be opened.
    """
    flags = {"read": "mode=ro", "write": "mode=rw", "migrate": "mode=rw", "create": "mode=rwc"}
    query = flags[mode]
    if mode == "read" and _is_on_read_only_medium(path):
        query += "&immutable=1"  # WAL would need to create files beside the database
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{query}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    pragmas = ["trusted_schema=OFF", "cell_size_check=ON"]
    pragmas.append(f"foreign_keys={'OFF' if mode == 'migrate' else 'ON'}")
    if mode == "read":
        pragmas += ["query_only=ON", "wal_autocheckpoint=0"]
    else:
        pragmas.append("synchronous=FULL")
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def sqlite_engine(path: Path, mode: Mode) -> Engine:
    """Return an engine for an SQLite file. Writers have one connection, readers up to five."""
    is_reader = mode == "read"
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite_connection(path, mode),
        poolclass=QueuePool,
        pool_size=5 if is_reader else 1,
        max_overflow=10 if is_reader else 0,
        pool_timeout=BUSY_TIMEOUT_S,
    )
    # A deferred BEGIN that writes later can't wait for its turn: it would fail at once with
    # "database is locked" where another process wrote in between.
    begin = "BEGIN" if is_reader else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def sqlite_reader(path: Path) -> Engine:
    """Return an engine for reading, after rolling back what a killed writer left half done.

    With the write-ahead log a reader does that by itself; with the rollback journal the file has
    to be written.

    Raises:
        DatabaseProblem: The lock can't be had.
        sqlite3.Error: The journal can't be played back.
    """
    journal = path.with_name(path.name + "-journal")
    if journal.exists():
        with (
            DatabaseFileLock(path).held(),
            contextlib.closing(sqlite_connection(path, "write")) as connection,
        ):
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return sqlite_engine(path, "read")


def create_sqlite_file(path: Path, network: str) -> None:
    """Make a database beside its name and rename it when it is whole. The lock must be held.

    So a kill or a full disk at any moment leaves no half-made database under that name.
    """
    temporary = path.with_name(path.name + ".new")
    remove_database(temporary)  # what a killed process left; the lock says that it is gone
    engine = sqlite_engine(temporary, "create")
    try:
        with engine.connect() as connection:
            set_journal_mode(connection, network)
        with engine.begin() as connection:
            create_schema(connection)
        engine.dispose()
        temporary.rename(path)
        sync_folder(path.parent)
    finally:
        engine.dispose()
        remove_database(temporary)


def set_journal_mode(connection: Connection, network: str) -> None:
    """Set WAL, or the rollback journal on a network file system. The lock must be held.

    Raises:
        DatabaseProblem: SQLite keeps another mode, which it says only in its answer.
    """
    wanted = "delete" if network else "wal"
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    if journal_mode(driver) == wanted:
        return
    answer = str(driver.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0])
    if answer != wanted:
        raise DatabaseProblem(f"SQLite keeps journal mode {answer} instead of {wanted}")


def journal_mode(driver: sqlite3.Connection) -> str:
    """Return ``wal``, ``delete``, ..."""
    return str(driver.execute("PRAGMA journal_mode").fetchone()[0])


def sqlite_version(connection: Connection) -> str:
    """Return SQLite's name and version, with the journal mode."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return f"SQLite {sqlite3.sqlite_version}, journal mode {journal_mode(driver)}"


def integrity_problems(connection: Connection) -> list[str]:
    """Return what SQLite finds wrong with pages, indexes, constraints and foreign keys."""
    found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(100)")]
    problems = [f"integrity: {text}" for text in found if text != "ok"]
    return problems + foreign_key_problems(connection)


def foreign_key_problems(connection: Connection) -> list[str]:
    """Return rows that refer to rows which do not exist."""
    return [
        f"foreign key: {row[0]} row {row[1]} refers to a missing row of {row[2]}"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]


def copy_database(source: Path, target: Path) -> None:
    """Copy a database while others write, as one consistent snapshot (SQLite's online backup)."""
    with (
        contextlib.closing(sqlite_connection(source, "read")) as reader,
        contextlib.closing(sqlite_connection(target, "create")) as writer,
    ):
        reader.backup(writer)


def _is_on_read_only_medium(path: Path) -> bool:
    """Tell whether nothing beside the file can be written, so that nobody can change it."""
    has_log = path.with_name(path.name + "-wal").exists()
    return not has_log and not os.access(path.parent, os.W_OK)


def remove_database(path: Path) -> None:
    """Remove a database that nobody has open, with what may lie beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
