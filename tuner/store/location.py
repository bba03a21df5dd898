"""Where a database is: reads ``--db`` values and looks at the file before any driver does."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from tuner.errors import DatabaseProblem
from tuner.errors import NoDatabase
from tuner.errors import UsageError

_HARMLESS = re.compile(r"(host|hostaddr|port|dbname|service)=")
# As SQLAlchemy reads them: a password ends at the first "@", and may hold "?" and "/".
_CREDENTIALS = re.compile(r"[^:/]*:[^@]*@")
_QUERY = re.compile(r"[?&]\w+=")
SQLITE_MAGIC = b"SQLite format 3\x00"

# WAL needs memory shared between the processes, which these can't give (SQLite's own
# documentation, "Write-Ahead Logging", and reports of silent corruption on NFS).
NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs"}
)


@dataclass(frozen=True, slots=True)
class Location:
    """A database: an SQLite file, or a server's URL.

    Attributes:
        url: SQLAlchemy URL of a server; "" for a file.
        path: The SQLite file; None for a server.
    """

    url: str = field(repr=False)  # it may hold a password
    path: Path | None

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        if self.is_ambiguous:
            return "postgresql://…"
        place, _, query = self._credentials_and_place()[1].partition("?")
        kept = [each for each in query.split("&") if _HARMLESS.match(each)]
        shown = f"postgresql://{place.rpartition('@')[2]}"
        return f"{shown}?{'&'.join(kept)}" if kept else shown

    @property
    def is_ambiguous(self) -> bool:
        """Whether a bare "@" or "?" leaves open where a password ends in the URL of a server."""
        credentials, place = self._credentials_and_place()
        return bool(credentials) and ("@" in place or bool(_QUERY.search(credentials)))

    def _credentials_and_place(self) -> tuple[str, str]:
        """Return what stands before a server's name with a password in it, and the rest."""
        address = self.url.partition("://")[2]
        found = _CREDENTIALS.match(address)
        end = found.end() if found else 0
        return address[:end], address[end:]


def locate(text: str) -> Location:
    """Read a ``--db`` value: a file path, ``sqlite:///path`` or ``postgresql://...``.

    ``postgresql://`` means psycopg 3 here, whatever SQLAlchemy's default driver is.

    Raises:
        UsageError: It is empty, in memory, or of a kind that is not supported.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "sqlite", "/" + text
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return Location(f"postgresql+psycopg://{rest}", None)
    if scheme != "sqlite":
        raise UsageError(
            f"database {scheme}://… is not supported", hint="give a file path or postgresql://…"
        )
    name = rest[1:]
    if not rest.startswith("/") or name in ("", ":memory:") or "\x00" in name:
        raise UsageError(
            f"database {text!r} names no file",
            hint="give a path such as results.db, or sqlite:///results.db",
        )
    return Location("", Path(name).expanduser())


def require_database_file(path: Path) -> None:
    """Check that a path is a readable SQLite file, without touching it.

    A file of 0 bytes is refused too: this program makes databases beside their name and renames
    them when they are whole, so an empty one is not ours, or is what a full disk left of one.

    Raises:
        NoDatabase: There is no such file.
        DatabaseProblem: It is something else, or can't be read.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NoDatabase(
            f"no such database: {path}", hint="check the path; `tuner run` creates one"
        ) from None
    except (OSError, ValueError) as error:
        raise DatabaseProblem(f"database {path} can't be looked at: {error}") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise DatabaseProblem(f"database {path} is {kind}", hint="give the path of a file")
    try:
        with path.open("rb") as file:
            magic = file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise DatabaseProblem(f"database {path} can't be read: {error.strerror}") from error
    if not magic:
        raise DatabaseProblem(
            f"database {path} is empty (0 bytes)", hint="remove it, or restore a backup"
        )
    if magic != SQLITE_MAGIC:
        raise DatabaseProblem(
            f"{path} is not an SQLite database, or its header is damaged",
            hint="check the path, or restore a backup",
        )


def network_file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the type of the network file system that holds a path, or "" for a local one.

    Args:
        path: A file that exists, or will exist in a folder that does.
        mounts: Table of mounts in the format of fstab(5).
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    resolved = Path(os.path.realpath(path))
    found = ("", "")
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount_point = fields[1].encode("latin-1", "ignore").decode("unicode_escape")
        # `>=`: of two mounts on one point, the later one is seen.
        if resolved.is_relative_to(mount_point) and len(mount_point) >= len(found[0]):
            found = (mount_point, fields[2])
    is_network = found[1] in NETWORK_FILE_SYSTEMS or found[1].startswith("fuse.")
    return found[1] if is_network else ""
