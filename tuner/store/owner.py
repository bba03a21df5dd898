"""Who drives a study, runs a job or takes a device's jobs: a process, by a name of its own.

By it the end of the process can be told, and the birth of another one of the same number.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from datetime import timedelta
from pathlib import Path

# A process on another machine (or in another container) can't be looked up. One that says every
# few seconds that it lives is given less; this is for a driver of an earlier version, of which
# only the trials it stores can be seen.
REMOTE_SILENCE = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: hashed host, process id, and its start as boot and clock ticks since then.

    Start in ticks and not in seconds of the wall clock: a clock that is set back must not make
    a living process look like another one.
    """

    host: str
    pid: int
    start: str

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.start}"


def parse_owner(text: str) -> Owner:
    """Read what ``str(owner)`` gave. A text that is not one names a process that never was."""
    host, _, rest = text.partition(":")
    pid, _, start = rest.partition(":")
    return Owner(host, int(pid) if pid.isdecimal() else 0, start)


def this_process() -> Owner:
    """Return the owner that stands for this process."""
    return Owner(_host(), os.getpid(), _start(os.getpid()))


def is_here(owner: Owner) -> bool:
    """Tell whether an owner is, or was, a process that can be looked up from here."""
    return owner.host == _host()


def is_alive(
    owner: Owner, last_seen: datetime, now: datetime, silence: timedelta = REMOTE_SILENCE
) -> bool:
    """Tell whether the process of an owner still runs.

    Args:
        owner: Who is asked about.
        last_seen: When it was last heard of; decides only for another machine.
        now: The time.
        silence: For how long a process on another machine may not have been heard of.
    """
    if not is_here(owner):
        return now - last_seen < silence
    return owner.pid > 0 and owner.start != "" and _start(owner.pid) == owner.start


def _host() -> str:
    """Hash what a process id is unique in: host and process namespace (container)."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _start(pid: int) -> str:
    """Return when a process started (proc(5), stat, field 22), or "" for a gone one or zombie."""
    # The name of the program, in parentheses, may hold spaces and parentheses itself.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return ""
    return f"{_read('/proc/sys/kernel/random/boot_id')[:8]}-{fields[19]}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
