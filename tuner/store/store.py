"""Opens a results database and hands out what reads and writes it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from tuner.errors import DatabaseProblem
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.store import engine as engines
from tuner.store import queries
from tuner.store import server
from tuner.store.info import DatabaseInfo
from tuner.store.info import describe
from tuner.store.location import locate
from tuner.store.location import Location
from tuner.store.location import network_file_system
from tuner.store.location import require_database_file
from tuner.store.locking import DatabaseFileLock
from tuner.store.locking import NoLock
from tuner.store.locking import WriteLock
from tuner.store.problems import translated
from tuner.store.schema import require_current
from tuner.store.streams import streams_of
from tuner.store.writer import StudyRecorder


class Store:
    """An open results database. A context manager; made by ``open_store``.

    Attributes:
        location: Where it is.
        warning: What the user should know of how it is opened, or "".
        queries: The functions that take a session of this store.
    """

    def __init__(
        self,
        location: Location,
        reader: Engine,
        writer: Engine | None,
        lock: WriteLock,
        warning: str = "",
    ) -> None:
        self.location = location
        self.warning = warning
        self.queries = queries
        self._reader = reader
        self._writer = writer
        self._lock = lock
        self._recorder: StudyRecorder | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Return a session that reads one snapshot, for the functions of ``queries``.

        Raises:
            DatabaseProblem: The database can't be read.
        """
        with (
            translated(str(self.location)),
            Session(self._reader) as session,
            streams_of(session),
        ):
            yield session

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Return a connection whose changes are on disk when the context is left.

        Raises:
            DatabaseProblem: The database can't be written, or another process keeps it locked.
        """
        if self._writer is None:
            raise UsageError(f"database {self.location} was opened for reading")
        with (
            translated(str(self.location)),
            self._lock.held(),
            self._writer.begin() as connection,
        ):
            yield connection

    def recorder(self) -> StudyRecorder:
        """Return what stores studies; the same one each time.

        Raises:
            UsageError: The store was opened for reading.
        """
        if self._writer is None:
            raise UsageError(f"database {self.location} was opened for reading")
        if self._recorder is None:
            self._recorder = StudyRecorder(self.transaction, self.session)
        return self._recorder

    def info(self) -> DatabaseInfo:
        """Return size, schema revision and row counts."""
        with translated(str(self.location)), self._reader.connect() as connection:
            return describe(connection, self.location, self.warning)

    def close(self) -> None:
        """Give up studies that are driven from here, and close all connections."""
        if self._recorder is not None:
            # What is not given up, the next process finds out by itself: nobody renews it.
            with contextlib.suppress(TunerError):
                self._recorder.release()
        self._reader.dispose()
        if self._writer is None:
            return
        with contextlib.ExitStack() as stack:
            # The last connection to close makes a checkpoint, which must not meet a writer.
            with contextlib.suppress(DatabaseProblem):
                stack.enter_context(self._lock.held())
            self._writer.dispose()


def open_store(url: str, *, create: bool, writable: bool, make_folder: bool = False) -> Store:
    """Open a results database.

    Args:
        url: A file path, ``sqlite:///path`` or ``postgresql://...``.
        create: Create it where there is none.
        writable: Whether ``recorder()`` will be used.
        make_folder: Create the folder of a file too: nobody has named it, so it is no slip.

    Raises:
        NotFound: There is no such database, and none was to be created.
        SchemaMismatch: Its schema is older, newer or foreign.
        DatabaseProblem: It can't be opened, read or created.
        UsageError: ``url`` names no database, or one in a folder that does not exist.
        MissingDependency: The server's driver is not installed.
    """
    location = locate(url)
    if location.path is None:
        return _open_server(location, create=create, writable=writable)
    if create and make_folder:
        _make_folder(location.path)
    return _open_file(location, location.path, create=create, writable=writable)


def _open_file(location: Location, name: Path, *, create: bool, writable: bool) -> Store:
    path = Path(os.path.realpath(name))  # two names of one file share its lock
    network = network_file_system(path)
    lock = DatabaseFileLock(path)
    if create and not path.exists():
        _create_file(path, lock, network)
    require_database_file(name)
    with translated(str(location)):
        reader = engines.sqlite_reader(path)
    writer = None
    try:
        with translated(str(location)), reader.connect() as connection:
            require_current(connection, str(location))
        if writable:
            reader.dispose()  # leaving WAL needs the file to oneself
            writer = engines.sqlite_engine(path, "write")
            with translated(str(location)), lock.held(), writer.connect() as connection:
                engines.set_journal_mode(connection, network)
    except TunerError:
        reader.dispose()
        if writer is not None:
            writer.dispose()
        raise
    warning = ""
    if network:
        warning = (
            f"database {location} is on a network file system ({network}): write-ahead log "
            "refused, using the slower rollback journal"
        )
    return Store(location, reader, writer, lock, warning)


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_created(path, error) from error


def _create_file(path: Path, lock: DatabaseFileLock, network: str) -> None:
    if not path.parent.exists():
        raise UsageError(
            f"database {path} can't be created: there is no folder {path.parent}",
            hint=f"check the path; if it is meant: mkdir -p {path.parent}",
        )
    try:
        with translated(str(path)), lock.held():
            if not path.exists():
                engines.create_sqlite_file(path, network)
    except OSError as error:
        raise _not_created(path, error) from error


def _not_created(path: Path, error: OSError) -> DatabaseProblem:
    return DatabaseProblem(
        f"database {path} can't be created: {error.strerror}",
        hint="check the permissions of its folder and the free space",
    )


def _open_server(location: Location, *, create: bool, writable: bool) -> Store:
    reader = server.server_engine(location, "read")
    writer = server.server_engine(location, "write") if create or writable else None
    try:
        with translated(str(location)):
            if create and writer is not None:
                with writer.begin() as connection:
                    server.create_server_schema(connection, str(location))
            with reader.connect() as connection:
                require_current(connection, str(location))
    except TunerError:
        reader.dispose()
        if writer is not None:
            writer.dispose()
        raise
    return Store(location, reader, writer if writable else None, NoLock())
