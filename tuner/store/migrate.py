"""Housekeeping: upgrade with a backup, backup, information and check. Alembic is loaded late."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy import Engine

from tuner.errors import DatabaseProblem
from tuner.errors import UsageError
from tuner.store import engine as engines
from tuner.store import server
from tuner.store.check import find_problems
from tuner.store.info import DatabaseInfo
from tuner.store.info import describe
from tuner.store.location import locate
from tuner.store.location import Location
from tuner.store.location import require_database_file
from tuner.store.locking import DatabaseFileLock
from tuner.store.problems import translated
from tuner.store.schema import head
from tuner.store.schema import read_revision
from tuner.store.schema import require_current
from tuner.store.schema import require_known


def info(url: str) -> DatabaseInfo:
    """Return what a database is, of whatever revision.

    Raises:
        NotFound: There is no such database.
        SchemaMismatch: It is not one of this program.
        DatabaseProblem: It can't be read.
    """
    with _reading(locate(url)) as (location, connection):
        return describe(connection, location)


def check(url: str) -> list[str]:
    """Return everything that is wrong with a database, one line each; empty where it is sound.

    Looks at pages, indexes and constraints, at references between rows, at the checksum of
    every row, at derived values against their samples, and at the schema itself.

    Raises:
        NotFound: There is no such database.
        SchemaMismatch: It is older, newer or foreign.
        DatabaseProblem: It can't be read at all.
    """
    with _reading(locate(url)) as (location, connection):
        require_current(connection, str(location))
        return find_problems(connection)


def backup(url: str, target: Path) -> None:
    """Copy a database while it may be in use; the copy appears under its name when it is whole.

    Raises:
        UsageError: The target exists, or the database is on a server.
        NotFound: There is no such database.
        DatabaseProblem: It can't be read, or the copy can't be written.
    """
    location = locate(url)
    path = _file_of(
        location,
        hint=f"use pg_dump, or `tuner db copy {location} {target}` for a file to read with tuner",
    )
    with _reading(location) as (_, connection):
        read_revision(connection, str(location))
    _copy(path, target)


def upgrade(url: str, scripts: Path | None = None) -> list[str]:
    """Bring a database to the head revision, in one transaction; a file, after a backup beside it.

    Args:
        url: The database.
        scripts: Folder of migrations; None for the program's own.

    Returns:
        What was done, in lines for the user.

    Raises:
        NotFound: There is no such database.
        SchemaMismatch: It is newer or foreign. It is left as it was.
        DatabaseProblem: The upgrade failed. The database is as it was.
    """
    location = locate(url)
    scripts = scripts or _own_scripts()
    if location.path is None:
        engine = server.server_engine(location, "migrate")
        try:
            return _migrate(location, engine, scripts, lambda: None)
        finally:
            engine.dispose()
    require_database_file(location.path)
    path = Path(os.path.realpath(location.path))
    _require_our_file(location)
    engine = engines.sqlite_engine(path, "migrate")
    with translated(str(location)), DatabaseFileLock(path).held():
        try:
            return _migrate(location, engine, scripts, lambda: _backup_beside(path))
        finally:
            engine.dispose()


def _migrate(
    location: Location, engine: Engine, scripts: Path, make_backup: Callable[[], Path | None]
) -> list[str]:
    database = str(location)
    with translated(database), engine.connect() as connection:
        before = read_revision(connection, database)
        require_known(before, database)
    if before == head():
        return [f"database {database} has schema {before} already; nothing to do"]
    copy = make_backup()
    with translated(database), engine.begin() as connection:
        server.take_schema_turn(connection)
        run_migrations(connection, scripts)
        if location.path is not None:
            problems = engines.foreign_key_problems(connection)
            if problems:
                raise DatabaseProblem(
                    f"upgrade of {database} would break references: {problems[0]}",
                    hint="the database is as it was; please report this",
                )
        require_current(connection, database)
    done = f"database {database}: schema {before} upgraded to {head()}"
    return [done] if copy is None else [done, f"backup of the old one: {copy}"]


def run_migrations(connection: Connection, scripts: Path, revision: str = "head") -> None:
    """Run Alembic's upgrade or, to an earlier revision, downgrade in the begun transaction."""
    from alembic.config import Config

    from alembic import command

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["connection"] = connection
    if revision == "head":
        command.upgrade(config, "head")
    else:
        command.downgrade(config, revision)


def _own_scripts() -> Path:
    from tuner.resources import alembic_dir

    return alembic_dir()


@contextmanager
def _reading(location: Location) -> Iterator[tuple[Location, Connection]]:
    if location.path is None:
        engine = server.server_engine(location, "read")
    else:
        require_database_file(location.path)
        with translated(str(location)):
            engine = engines.sqlite_reader(Path(os.path.realpath(location.path)))
    try:
        with translated(str(location)), engine.connect() as connection:
            yield location, connection
    finally:
        engine.dispose()


def _require_our_file(location: Location) -> None:
    """Check revision by a read-only connection, so that a foreign file is not even locked."""
    with _reading(location) as (_, connection):
        require_known(read_revision(connection, str(location)), str(location))


def _file_of(location: Location, hint: str) -> Path:
    if location.path is None:
        raise UsageError(f"database {location} is on a server", hint=hint)
    require_database_file(location.path)
    return Path(os.path.realpath(location.path))


def _backup_beside(path: Path) -> Path:
    """Copy to ``<file>.before-<revision>.bak``, or with a number where that exists."""
    stem = f"{path.name}.before-{head()}"
    number = 1
    target = path.with_name(f"{stem}.bak")
    while target.exists():
        number += 1
        target = path.with_name(f"{stem}.{number}.bak")
    _copy(path, target)
    return target


def _copy(path: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise UsageError(f"{target} exists; it is left alone", hint="give another name")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        engines.copy_database(path, partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.link(partial, target)  # unlike a rename, it never replaces what came up meanwhile
    except (OSError, sqlite3.Error) as error:
        raise DatabaseProblem(
            f"database {path} can't be copied to {target}: {error}",
            hint="check the target's folder and the free space",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
