"""One writer at a time: a lock between processes and between the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

from filelock import FileLock
from filelock import Timeout

from tuner.errors import DatabaseProblem

LOCK_TIMEOUT_S = 30.0


class WriteLock(Protocol):
    """Something to hold during a write transaction."""

    def held(self) -> AbstractContextManager[None]:
        """Return a context in which nobody else writes."""


class NoLock:
    """For servers, which order their writers themselves."""

    def held(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()


class DatabaseFileLock:
    """Held for each write transaction of an SQLite file, and for its creation and upgrade.

    SQLite's own lock would do for the transactions; this one also keeps checkpoints of
    different processes apart, which can corrupt a WAL database before SQLite 3.51.3. The lock
    ends with the process that holds it; the file beside the database stays.
    """

    def __init__(self, database: Path, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s
        self._threads = threading.Lock()
        self._file = FileLock(f"{database}.lock", timeout=timeout_s, thread_local=False)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Return a context in which no other process or thread writes.

        Raises:
            DatabaseProblem: Another one keeps the lock for longer than the timeout, or the
                lock's file can't be made.
        """
        if not self._threads.acquire(timeout=self._timeout_s):
            raise self._timed_out()
        try:
            try:
                self._file.acquire()
            except Timeout as error:
                raise self._timed_out() from error
            except OSError as error:
                raise DatabaseProblem(
                    f"database {self._database} can't be locked: {error}",
                    hint="check free space and the permissions of its folder",
                ) from error
            try:
                yield
            finally:
                self._file.release()
        finally:
            self._threads.release()

    def _timed_out(self) -> DatabaseProblem:
        return DatabaseProblem(
            f"database {self._database} is being written by another process "
            f"(waited {self._timeout_s:g} s for {self._database}.lock)",
            hint="wait for it, or end it",
        )
