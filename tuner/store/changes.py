"""Tells whether a database has changed since a moment: what makes a kept answer safe to give.

Asking costs one look at the file's header (SQLite) or one round trip (PostgreSQL). The marks of
two moments are equal only if no transaction of any process was committed between them; a mark
may differ without a change that matters here.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tuner.store.engine import journal_mode
from tuner.store.engine import sqlite_connection
from tuner.store.location import Location
from tuner.store.problems import translated
from tuner.store.server import server_engine

# A snapshot lists the transactions that are not over: equal lists see equal rows. The server's
# start sets apart two servers, of which one was restored from the other's backup.
_SNAPSHOT = text("SELECT pg_postmaster_start_time()::text || ' ' || pg_current_snapshot()::text")


class Changes(Protocol):
    """Watches one database. Only one thread at a time may call its methods.

    Attributes:
        tells_at_once: ``mark`` waits for no network and no other process.
    """

    tells_at_once: bool

    def is_there(self) -> bool:
        """Tell whether the database is still the one that was opened, not another of its name."""
        ...

    def mark(self) -> object:
        """Return a value that is equal to an earlier one only if nothing has changed since.

        Raises:
            DatabaseProblem: The database can't be read.
        """
        ...

    def close(self) -> None:
        """Give up the connection."""
        ...


def watch_changes(location: Location) -> Changes:
    """Return what watches a database that exists.

    Raises:
        DatabaseProblem: It can't be opened.
        MissingDependency: The server's driver is not installed.
    """
    if location.path is None:
        return _ServerChanges(location)
    return _FileChanges(location, location.path)


class _FileChanges:
    """``PRAGMA data_version``: differs after any other connection's commit, of this process too."""

    def __init__(self, location: Location, path: Path) -> None:
        self._location = location
        self._path = path
        # Looked at before it is opened: where another file takes the name in between, it counts
        # as gone at once, and is opened again.
        self._identity = _identity(path)
        with translated(str(location)):
            self._connection = sqlite_connection(Path(os.path.realpath(path)), "read")
            # With the rollback journal, of files on a network, a reader waits for the writer.
            self.tells_at_once = journal_mode(self._connection) == "wal"

    def is_there(self) -> bool:
        return self._identity is not None and _identity(self._path) == self._identity

    def mark(self) -> object:
        with translated(str(self._location)):
            return self._connection.execute("PRAGMA data_version").fetchone()[0]

    def close(self) -> None:
        self._connection.close()


class _ServerChanges:
    """``pg_current_snapshot``: which transactions are over. Other databases' count as well."""

    tells_at_once = False

    def __init__(self, location: Location) -> None:
        self._location = location
        self._engine = server_engine(location, "read")
        self._connection: Connection | None = None

    def is_there(self) -> bool:
        return True

    def mark(self) -> object:
        with translated(str(self._location)):
            try:
                return self._ask()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                self._give_up()
                return self._ask()  # the server was started anew

    def close(self) -> None:
        self._give_up()
        self._engine.dispose()

    def _ask(self) -> str:
        if self._connection is None:
            connection = self._engine.connect()
            self._connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        return str(self._connection.scalar(_SNAPSHOT))

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
