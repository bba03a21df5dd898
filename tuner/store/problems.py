"""Turns the drivers' exceptions into errors that name the database and the remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import IntegrityError

from tuner.errors import DatabaseProblem
from tuner.errors import UsageError

MAX_INTEGER = 2**63 - 1

# By SQLite's primary result code name; extended ones (SQLITE_IOERR_WRITE) start with it.
# Under WAL, a file-size limit shows as an I/O error and not as FULL (measured, 3.40.1).
_SQLITE_PROBLEMS = (
    ("SQLITE_FULL", "disk full", "free some space; everything stored so far is intact"),
    (
        "SQLITE_IOERR",
        "disk full or I/O error",
        "check free space, quota and the disk; everything stored so far is intact",
    ),
    ("SQLITE_BUSY", "locked by another program", "end the program that keeps it locked"),
    ("SQLITE_LOCKED", "locked by another program", "end the program that keeps it locked"),
    ("SQLITE_CORRUPT", "the file is damaged", "restore a backup; `tuner db check` says more"),
    ("SQLITE_NOTADB", "not an SQLite database", "check --db, or restore a backup"),
    ("SQLITE_READONLY", "it can't be written", "check the permissions of file and folder"),
    ("SQLITE_CANTOPEN", "it can't be opened", "check the permissions of file and folder"),
    ("SQLITE_PERM", "it can't be opened", "check the permissions of file and folder"),
)


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Raise ``DatabaseProblem`` for what goes wrong in the database or its driver.

    Raises:
        DatabaseProblem: The driver refused; the transaction is rolled back by its own context.
        UsageError: A whole number is too large for the database.
    """
    try:
        yield
    except IntegrityError as error:
        raise DatabaseProblem(
            f"database {database} refused a row: {_one_line(error.orig)}",
            hint="this is a fault of the program; nothing was stored",
        ) from error
    except DBAPIError as error:
        raise _problem(database, error.orig) from error
    except sqlite3.Error as error:
        raise _problem(database, error) from error
    except UnicodeDecodeError as error:
        # The driver fails to decode names and texts, and SQLite's messages that quote them.
        raise DatabaseProblem(
            f"database {database}: the file is damaged (a text is not UTF-8)",
            hint="restore a backup; `tuner db check` says more",
        ) from error
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


def _problem(database: str, cause: BaseException | None) -> DatabaseProblem:
    text = _one_line(cause)
    name = getattr(cause, "sqlite_errorname", "")
    for prefix, problem, hint in _SQLITE_PROBLEMS:
        if name.startswith(prefix):
            return DatabaseProblem(f"database {database}: {problem} ({text})", hint=hint)
    return DatabaseProblem(f"database {database}: {text}")


def _one_line(cause: BaseException | None) -> str:
    return " ".join(str(cause).split())
