"""Tells one state of a database file from another, without opening it."""

from __future__ import annotations

import os
import time

from tuner.domain.identity import content_hash
from tuner.store.location import locate

_HEADER_BYTES = 100  # of SQLite's file format: change counter, schema cookie, ...
_LOG_HEADER_BYTES = 32  # its salts change whenever the log begins anew

_CLOCK_STEP_S = 0.02  # more than a step of the clock that stamps files: 10 ms at most on Linux


def settled_state(url: str) -> str | None:
    """Return the state of a file such that every later commit makes another one.

    Two commits within one step of the file system's clock may leave the same state: this one lasted
    for longer. None where it did not, or can't be told.

    Args:
        url: As ``open_store`` takes it.
    """
    state = file_state(url)
    time.sleep(_CLOCK_STEP_S)
    return state if state == file_state(url) else None


def file_state(url: str) -> str | None:
    """Return what is another text after every commit; None where that can't be told.

    A commit makes the write-ahead log longer or begins it anew, or counts in the file's header.
    Where it overwrites frames of a log that is no longer needed, only the time of change tells.

    Args:
        url: As ``open_store`` takes it.
    """
    path = locate(url).path
    if path is None:
        return None
    name = os.path.realpath(path)
    try:
        parts = [_part(name, _HEADER_BYTES)]
        if os.path.exists(f"{name}-journal"):
            return None  # a transaction is under way, or was cut off
        if os.path.exists(f"{name}-wal") and os.path.getsize(f"{name}-wal"):
            parts.append(_part(f"{name}-wal", _LOG_HEADER_BYTES))
    except OSError:
        return None
    return content_hash([name, *parts])


def _part(name: str, header_bytes: int) -> str:
    with open(name, "rb") as file:
        status, header = os.fstat(file.fileno()), file.read(header_bytes)
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {header.hex()}"
