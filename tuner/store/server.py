"""Engines of PostgreSQL servers: how they are opened. All SQL that only PostgreSQL knows is here.

Writers work with READ COMMITTED and take locks by name where two could meet; readers see one
snapshot (REPEATABLE READ), as SQLite gives it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import closing
from contextlib import contextmanager
from itertools import islice
from typing import Any
from typing import NamedTuple
from typing import TYPE_CHECKING

from sqlalchemy import bindparam
from sqlalchemy import Connection
from sqlalchemy import create_engine
from sqlalchemy import Engine
from sqlalchemy import event
from sqlalchemy import func
from sqlalchemy import make_url
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import Table
from sqlalchemy import text
from sqlalchemy import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import DBAPIError

from tuner.errors import DatabaseProblem
from tuner.errors import MissingDependency
from tuner.errors import UsageError
from tuner.store.location import Location
from tuner.store.models import Base
from tuner.store.schema import create_schema
from tuner.store.schema import has_schema
from tuner.store.texts import storable_text

if TYPE_CHECKING:
    from tuner.store.engine import Mode

LOCK_TIMEOUT_S = 30
STATEMENT_TIMEOUT_S = 300
EXPORT_TIMEOUT_S = 6 * 3600  # of an export as a whole: as slow as who takes it
IDLE_TIMEOUT_S = {"read": 600, "write": 60}  # in a transaction; a frozen writer keeps locks
# A host that was switched off sends no word of it: found out after about 30 s.
_CONNECTION = {
    "application_name": "tuner",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
_SCHEMA_LOCK = "schema"
_UNFINISHED = text(
    "SELECT pg_snapshot_xmin(seen)::text, pg_snapshot_xmax(seen)::text, "
    "pg_postmaster_start_time()::text FROM pg_current_snapshot() AS seen"
)


def server_engine(location: Location, mode: Mode) -> Engine:
    """Return an engine for a database server. What its URL says goes before what is set here.

    Raises:
        UsageError: The URL is none, or it is open where its password ends.
        MissingDependency: The server's driver is not installed.
    """
    if location.is_ambiguous:
        # The server's answer would quote what was taken for its name.
        raise UsageError(
            f"database {location} has an @ or a ? too many",
            hint="in a password or a value, write @ as %40 and ? as %3F",
        )
    options: dict[str, object] = {}
    if mode == "read":
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    try:
        url = make_url(location.url)
        engine = create_engine(
            url,
            pool_pre_ping=True,  # after a restart of the server, old connections are replaced
            execution_options=options,
            connect_args=_connection_parameters(url, mode),
        )
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"database {location} needs the package {error.name}",
            hint="install it with: pip install 'tuner[postgres]'",
        ) from error
    except (ArgumentError, ValueError) as error:
        raise UsageError(
            f"database {location} is not a URL", hint="such as postgresql://user@host:5432/name"
        ) from error
    if mode != "read":
        event.listen(engine, "begin", _take_number)
    return engine


def _take_number(connection: Connection) -> None:
    """Give a transaction its number before it draws an id: ``answer_changes`` builds on that."""
    connection.exec_driver_sql("SELECT pg_current_xact_id()")


class Unfinished(NamedTuple):
    """Which transactions were under way at a moment.

    Attributes:
        oldest: All with a lower number have ended.
        following: None with this number or a higher one has begun.
        server_start: Numbers of a server that was started anew may be those of a backup.
    """

    oldest: int
    following: int
    server_start: str


def unfinished_transactions(connection: Connection) -> Unfinished:
    """Return the transactions under way, as the connection's snapshot has them.

    SQLite's writers take turns: 0 and 0.
    """
    if connection.dialect.name != "postgresql":
        return Unfinished(0, 0, "")
    oldest, following, server_start = connection.execute(_UNFINISHED).one()
    return Unfinished(int(oldest), int(following), server_start)


def create_server_schema(connection: Connection, database: str) -> None:
    """Create the schema unless it is there. Simultaneous first starts take turns.

    Raises:
        DatabaseProblem: It is not there, and the database can't hold any text.
    """
    if has_schema(connection):
        return  # without a turn, which a copy or an upgrade keeps to its end
    take_schema_turn(connection)
    if not has_schema(connection):
        _require_utf8(connection, database)
        create_schema(connection)


def take_turns(connection: Connection, name: str) -> None:
    """Wait until no other transaction holds a name, and hold it to the end of this one.

    SQLite's writers take turns anyway.
    """
    if connection.dialect.name == "postgresql":
        digest = hashlib.sha256(f"tuner:{name}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        connection.execute(select(func.pg_advisory_xact_lock(key)))


def take_schema_turn(connection: Connection) -> None:
    """Let nobody else create or upgrade the schema until the end of the transaction."""
    take_turns(connection, _SCHEMA_LOCK)


def lock_tables(connection: Connection) -> None:
    """Let nobody else write any table of this program until the end of the transaction."""
    names = ", ".join(table.name for table in Base.metadata.sorted_tables)
    connection.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE"))


def go_on_counting(connection: Connection, tables: Iterable[Table]) -> None:
    """Let the counters of tables go on behind the ids that were inserted by value."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        if "id" not in table.columns:
            continue
        last = connection.scalar(select(func.max(table.c.id)))
        if last is not None:
            counter = func.pg_get_serial_sequence(table.name, "id")
            connection.execute(select(func.setval(counter, last)))


def insert_by_copy(connection: Connection, table: Table, rows: Iterable[RowMapping]) -> None:
    """Insert rows of all columns, ids included, by COPY.

    22,689 rows took 0.5 s so and 1.7 s by INSERT (PostgreSQL 15.18, 2 cores, 2026-12-02).
    """
    columns = ", ".join(column.name for column in table.columns)
    statement = f"COPY {table.name} ({columns}) FROM STDIN"
    with _driver(connection) as driver, driver.cursor() as cursor, cursor.copy(statement) as to:
        for row in rows:
            to.write_row([storable_text(v) if isinstance(v, str) else v for v in row.values()])


def streamed_chunks(
    connection: Connection, query: Select[*tuple[Any, ...]], chunk_rows: int
) -> Generator[Sequence[Sequence[Any]]]:
    """Yield the rows of a query, some at a time, while the server goes on to make the next ones.

    One that reads from a cursor instead waits for the server, and the server for it. Until its
    query has ended a connection does nothing else, so that this one gets its own, which sees the
    snapshot of the one given. To close the generator cancels the query.

    The values are the driver's: of whole numbers, floats, booleans and texts those that
    SQLAlchemy would give.
    """
    from psycopg import capabilities

    size = chunk_rows if capabilities.has_stream_chunked() else 1  # by libpq 17 and later
    with _same_snapshot(connection) as second, _driver(second) as driver:
        found = query.compile(dialect=second.dialect)
        with (
            driver.cursor() as cursor,
            closing(cursor.stream(str(found), found.params, binary=True, size=size)) as rows,
        ):
            while chunk := list(islice(rows, chunk_rows)):
                yield chunk


@contextmanager
def _same_snapshot(connection: Connection) -> Iterator[Connection]:
    """Give a second connection that sees what a first one sees, for one long statement."""
    limit = f"{EXPORT_TIMEOUT_S}s"
    _set_local(connection, "idle_in_transaction_session_timeout", limit)
    snapshot = connection.scalar(select(func.pg_export_snapshot()))
    with connection.engine.connect() as second:
        adopt = text("SET TRANSACTION SNAPSHOT :snapshot")
        second.execute(adopt.bindparams(bindparam("snapshot", snapshot, literal_execute=True)))
        _set_local(second, "statement_timeout", limit)
        # Rows are asked for in the order of a key: to sort them all first, or to compile the
        # plan, takes seconds before the first one.
        _set_local(second, "enable_sort", "off")
        _set_local(second, "jit", "off")
        yield second


def _set_local(connection: Connection, name: str, value: str) -> None:
    """Set a parameter of the session to the end of its transaction."""
    connection.execute(select(func.set_config(name, value, True)))


@contextmanager
def _driver(connection: Connection) -> Iterator[Any]:
    """Give the driver's connection; what it raises is raised as SQLAlchemy would."""
    driver = connection.connection.driver_connection
    dialect = connection.dialect
    base = dialect.loaded_dbapi.Error
    try:
        yield driver
    except base as error:
        lost = dialect.is_disconnect(error, connection.connection, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, base, connection_invalidated=lost, dialect=dialect
        ) from error


def _require_utf8(connection: Connection, database: str) -> None:
    """Check that a server's database holds any text.

    Raises:
        DatabaseProblem: It was made with another encoding.
    """
    encoding = connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise DatabaseProblem(
            f"database {database} has the encoding {encoding}, tuner needs UTF8",
            hint="make one with: createdb --template template0 --encoding UTF8 NAME",
        )


def server_version(connection: Connection) -> str:
    """Return the server's name and version."""
    version = ".".join(str(part) for part in connection.dialect.server_version_info or ())
    return f"PostgreSQL {version}"


def size_bytes(connection: Connection) -> int:
    """Return the size of the database on the server's disk."""
    return int(connection.scalar(select(func.pg_database_size(func.current_database()))) or 0)


def _connection_parameters(url: URL, mode: Mode) -> dict[str, str]:
    """Return libpq's parameters that the URL does not set, and timeouts for the session."""
    settings = {"lock_timeout": f"{LOCK_TIMEOUT_S}s", "timezone": "UTC"}
    if mode in IDLE_TIMEOUT_S:
        settings["idle_in_transaction_session_timeout"] = f"{IDLE_TIMEOUT_S[mode]}s"
        settings["statement_timeout"] = f"{STATEMENT_TIMEOUT_S}s"
    words = [f"-c {name}={value}" for name, value in settings.items()]
    given = url.query.get("options", "")
    words += [given] if isinstance(given, str) else given
    parameters = {name: value for name, value in _CONNECTION.items() if name not in url.query}
    return parameters | {"options": " ".join(words).strip()}
