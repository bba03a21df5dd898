"""Copies a whole database to another place or system, and checks every row of the copy.

All of it is one snapshot of the source and one transaction of the target: a copy is whole and
checked, or there is none. Ids stay as they are, so that what names a trial finds it there too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import insert
from sqlalchemy import RowMapping
from sqlalchemy import select
from sqlalchemy import Table

from tuner.errors import DatabaseProblem
from tuner.errors import UsageError
from tuner.store import engine as engines
from tuner.store import server
from tuner.store.check import checksum_problems
from tuner.store.leases import is_driven
from tuner.store.location import locate
from tuner.store.location import Location
from tuner.store.location import network_file_system
from tuner.store.models import Base
from tuner.store.models import StudyRow
from tuner.store.problems import translated
from tuner.store.schema import require_current
from tuner.store.store import open_store
from tuner.store.table import table_of

CHUNK_ROWS = 1000
_NOTHING = "nothing was stored"

# Is told a table, how many of its rows were copied, and how many there are.
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied.

    Attributes:
        source: Without user and password.
        target: Likewise.
        rows: Number of rows by table.
        driven: Names of studies that a process was driving; what it stores later is not in the
            copy.
    """

    source: str
    target: str
    rows: Mapping[str, int]
    driven: tuple[str, ...]


def copy_store(source: str, target: str, progress: Progress) -> CopyReport:
    """Copy all rows of a database to a new file, or to an empty database of a server.

    Args:
        source: Path or URL.
        target: Path or URL.
        progress: Is told how far it is.

    Raises:
        NotFound: There is no such source.
        SchemaMismatch: Source or target has another revision.
        UsageError: The target exists, or holds rows.
        DatabaseProblem: One of the two failed, or a row does not fit its checksum.
    """
    place = locate(target)
    if place.path is not None and os.path.lexists(place.path):
        raise UsageError(
            f"{place} exists; it is left alone", hint="give another name, or merge: `tuner import`"
        )
    with open_store(source, create=False, writable=False) as store:
        name = str(store.location)
        writing = _new_file(place, place.path) if place.path else _empty_server(place)
        with writing as connection:
            with store.session() as session:
                original = _Side(name, session.connection())
                driven = _driven(original)
                counts = _copy_tables(original, connection, progress)
                server.go_on_counting(connection, Base.metadata.sorted_tables)
                _require_equal(original, _Side(str(place), connection))
            # The source has ended: a server cuts off who is idle in a transaction for so long.
            _require_sound(connection, name)
    return CopyReport(name, str(place), counts, driven)


@contextmanager
def _new_file(place: Location, target: Path) -> Iterator[Connection]:
    """Give a transaction in a new file, which gets its name when it is whole and on disk."""
    folder = Path(os.path.realpath(target.parent))
    partial = folder / f"{target.name}.{os.getpid()}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with translated(str(place)), ExitStack() as stack:
            stack.callback(engines.remove_database, partial)
            network = network_file_system(partial)
            engines.create_sqlite_file(partial, network)
            engine = engines.sqlite_engine(partial, "write")
            stack.callback(engine.dispose)
            with engine.begin() as connection:
                yield connection
            engine.dispose()  # moves the log into the file
            os.link(partial, target)  # unlike a rename, it never replaces what came up meanwhile
            engines.sync_folder(folder)
    except OSError as error:
        raise DatabaseProblem(
            f"database {place} can't be written: {error.strerror}",
            hint="check the permissions of its folder and the free space",
        ) from error


@contextmanager
def _empty_server(place: Location) -> Iterator[Connection]:
    """Give a transaction in a server's database that holds no rows, and keep others out of it."""
    engine = server.server_engine(place, "migrate")
    try:
        with translated(str(place)), engine.begin() as connection:
            server.create_server_schema(connection, str(place))
            require_current(connection, str(place))
            server.lock_tables(connection)
            full = [
                table.name.removeprefix("tuner_")
                for table in Base.metadata.sorted_tables
                if connection.execute(select(*table.primary_key.columns).limit(1)).first()
            ]
            if full:
                raise UsageError(
                    f"database {place} is not empty: it holds rows of {', '.join(full)}",
                    hint="give an empty database, or merge: `tuner export bundle`, `tuner import`",
                )
            yield connection
    finally:
        engine.dispose()


@dataclass(frozen=True, slots=True)
class _Side:
    """A database that is read: errors name it, and not the other one."""

    name: str
    connection: Connection

    def chunks(self, table: Table) -> Iterator[Sequence[RowMapping]]:
        """Yield the rows of a table in the order of their keys, some at a time."""
        query = select(table).order_by(*table.primary_key.columns)
        streamed = query.execution_options(yield_per=CHUNK_ROWS)
        try:
            with translated(self.name):
                yield from self.connection.execute(streamed).mappings().partitions(CHUNK_ROWS)
        except (ValueError, TypeError) as error:  # a date or a number that can't be
            raise DatabaseProblem(
                f"database {self.name}: a row of {table.name} is damaged",
                hint=f"{_NOTHING}; `tuner db check --db {self.name}` says more",
            ) from error

    def rows(self, table: Table) -> Iterator[RowMapping]:
        """Yield the rows of a table in the order of their keys."""
        return chain.from_iterable(self.chunks(table))


def _driven(source: _Side) -> tuple[str, ...]:
    return tuple(
        study["name"]
        for study in source.rows(table_of(StudyRow))
        if is_driven(source.connection, dict(study))
    )


def _copy_tables(source: _Side, target: Connection, progress: Progress) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in Base.metadata.sorted_tables:  # each after those that it refers to
        name = table.name.removeprefix("tuner_")
        total = source.connection.scalar(select(func.count()).select_from(table)) or 0
        counts[name] = 0
        progress(name, 0, total)
        for chunk in source.chunks(table):
            _insert(target, table, chunk)
            counts[name] += len(chunk)
            progress(name, counts[name], total)
    return counts


def _insert(target: Connection, table: Table, chunk: Sequence[RowMapping]) -> None:
    if target.dialect.name == "postgresql":
        server.insert_by_copy(target, table, chunk)
    else:
        target.execute(insert(table), [dict(row) for row in chunk])


def _require_equal(source: _Side, target: _Side) -> None:
    """Check that the target gives back every row of the source.

    Raises:
        DatabaseProblem: One is missing or differs.
    """
    for table in Base.metadata.sorted_tables:
        pairs = zip_longest(source.rows(table), target.rows(table))
        for number, (theirs, ours) in enumerate(pairs, 1):
            if theirs != ours:
                raise DatabaseProblem(
                    f"row {number} of {table.name} differs between {source.name} and {target.name}",
                    hint=f"{_NOTHING}; please report this",
                )


def _require_sound(copy: Connection, source: str) -> None:
    """Check that every row of a copy fits its checksum.

    Raises:
        DatabaseProblem: One was damaged before it was copied.
    """
    problem = next(checksum_problems(copy), None)
    if problem is not None:
        raise DatabaseProblem(
            f"database {source}: {problem}",
            hint=f"{_NOTHING}; `tuner db check --db {source}` says more",
        )
