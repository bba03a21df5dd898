"""Turns the drivers' exceptions into errors that name the database and the remedy."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tuner.errors import DatabaseProblem
from tuner.errors import TunerError
from tuner.errors import UsageError

MAX_INTEGER = 2**63 - 1
MAX_ID = 2**31 - 1  # of a row: PostgreSQL's serial columns have 32 bits

_NO_DATABASE = re.compile(r'database ".*" does not exist')  # a role's has the same words

_INTACT = "everything stored so far is intact"
_GO_ON = f"{_INTACT}; run the same command to go on"

# By SQLite's primary result code name; extended ones (SQLITE_IOERR_WRITE) start with it.
# Under WAL, a file-size limit shows as an I/O error and not as FULL (measured, 3.40.1).
_SQLITE_PROBLEMS = (
    ("SQLITE_FULL", "disk full", f"free some space; {_INTACT}"),
    ("SQLITE_IOERR", "disk full or I/O error", f"check free space, quota and the disk; {_INTACT}"),
    ("SQLITE_BUSY", "locked by another program", "end the program that keeps it locked"),
    ("SQLITE_LOCKED", "locked by another program", "end the program that keeps it locked"),
    ("SQLITE_CORRUPT", "the file is damaged", "restore a backup; `tuner db check` says more"),
    ("SQLITE_NOTADB", "not an SQLite database", "check the path, or restore a backup"),
    ("SQLITE_READONLY", "it can't be written", "check the permissions of file and folder"),
    ("SQLITE_CANTOPEN", "it can't be opened", "check the permissions of file and folder"),
    ("SQLITE_PERM", "it can't be opened", "check the permissions of file and folder"),
)
# By the start of PostgreSQL's SQLSTATE, the longer ones first.
_SERVER_PROBLEMS = (
    ("53100", "disk full", f"free some space on the server; {_INTACT}"),
    ("53", "the server is out of resources", f"end other clients, or raise its limits; {_INTACT}"),
    ("55P03", "locked by another program", "end the program that keeps it locked"),
    ("40", "other writers were in the way", _GO_ON),
    ("42501", "the role lacks a privilege", "grant it, or let the tables' owner do this"),
    ("25006", "it can't be written", "check that it is no standby, and the role's settings"),
    ("57014", "a statement was stopped by its time limit", "check the server's load and locks"),
    ("57", "the connection was lost", _GO_ON),
    ("08", "the connection was lost", _GO_ON),
    ("25P03", "the connection was lost", _GO_ON),  # idle in a transaction for too long
)


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Raise ``DatabaseProblem`` for what goes wrong in the database or its driver.

    Raises:
        DatabaseProblem: The driver refused; the transaction is rolled back by its own context.
        UsageError: A value is too large for the database, or one that no column can hold.
    """
    try:
        yield
    except IntegrityError as error:
        raise DatabaseProblem(
            f"database {database} refused a row: {_one_line(error.orig)}",
            hint="this is a fault of the program; nothing was stored",
        ) from error
    except DBAPIError as error:
        raise _problem(database, error) from error
    except PoolTimeout as error:
        raise DatabaseProblem(
            f"database {database}: all connections of this process are in use",
            hint="ask for less at a time",
            what="all connections to it are in use",
        ) from error
    except sqlite3.Error as error:
        raise _file_problem(database, error) from error
    except UnicodeDecodeError as error:
        # The driver fails to decode names, and SQLite's messages that quote texts.
        raise _damaged(database, "a text is not UTF-8") from error
    except OverflowError as error:
        raise UsageError(
            f"a whole number is above {MAX_INTEGER}, the largest that {database} can hold"
        ) from error


def checked_integer(name: str, value: int) -> int:
    """Return a whole number that fits a 64-bit column.

    Raises:
        UsageError: It does not.
    """
    if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
        raise UsageError(f"{name} {value} does not fit 64 bits", hint=f"at most {MAX_INTEGER}")
    return value


def _problem(database: str, error: DBAPIError) -> TunerError:
    if isinstance(error.orig, sqlite3.Error) or error.orig is None:
        return _file_problem(database, error.orig)
    return _server_problem(database, error)


def _file_problem(database: str, cause: BaseException | None) -> DatabaseProblem:
    text = _one_line(cause)
    name = getattr(cause, "sqlite_errorname", "")
    if text.startswith("Could not decode to UTF-8"):
        return _damaged(database, "a text is not UTF-8")
    for prefix, problem, hint in _SQLITE_PROBLEMS:
        if name.startswith(prefix):
            return DatabaseProblem(
                f"database {database}: {problem} ({text})", hint=hint, what=problem
            )
    return DatabaseProblem(f"database {database}: {text}")


def _damaged(database: str, why: str) -> DatabaseProblem:
    return DatabaseProblem(
        f"database {database}: the file is damaged ({why})",
        hint="restore a backup; `tuner db check` says more",
        what="the file is damaged",
    )


def _server_problem(database: str, error: DBAPIError) -> TunerError:
    """Tell what a server, or the way to it, refused. Its texts never hold a password."""
    text = _one_line(error.orig)
    state = getattr(error.orig, "sqlstate", None) or ""
    if isinstance(error, DataError):
        return UsageError(f"database {database} can't hold a value: {text}")
    for prefix, problem, hint in _SERVER_PROBLEMS:
        if state.startswith(prefix):
            return DatabaseProblem(
                f"database {database}: {problem} ({text})", hint=hint, what=problem
            )
    if state:
        return DatabaseProblem(f"database {database}: {text}")
    if error.connection_invalidated:
        return DatabaseProblem(
            f"database {database}: the connection was lost ({text})",
            hint=_GO_ON,
            what="the connection was lost",
        )
    hint = "check that the server runs, and host, port, user and password"
    if _NO_DATABASE.search(text):
        hint = "check its name; `createdb NAME` makes an empty database, tuner its tables"
    return DatabaseProblem(
        f"database {database} can't be reached: {text}", hint=hint, what="it can't be reached"
    )


def _one_line(cause: BaseException | None) -> str:
    return " ".join(str(cause).split())
