"""What ``tuner db info`` tells of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import select

from tuner.store.engine import sqlite_version
from tuner.store.location import Location
from tuner.store.models import Base
from tuner.store.schema import head
from tuner.store.schema import read_revision
from tuner.store.schema import REVISIONS
from tuner.store.server import server_version
from tuner.store.server import size_bytes


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """A database at a glance.

    Attributes:
        database: Path, or URL without user and password.
        system: Database system with version and, for SQLite, journal mode.
        size_bytes: Of the file without its log, or of a server's database.
        revision: Of its schema.
        head: Revision that this program needs.
        state: ``current``, ``older``, or ``unknown`` (most likely newer).
        counts: Rows by table; empty unless the schema is current.
        warning: What the user should know, or "".
    """

    database: str
    system: str
    size_bytes: int
    revision: str
    head: str
    state: str
    counts: Mapping[str, int]
    warning: str = ""


def describe(connection: Connection, location: Location, warning: str = "") -> DatabaseInfo:
    """Look at an open database.

    Raises:
        SchemaMismatch: It is not one of this program.
    """
    revision = read_revision(connection, str(location))
    state = "older" if revision in REVISIONS else "unknown"
    counts: dict[str, int] = {}
    if revision == head():
        state = "current"
        for table in Base.metadata.sorted_tables:
            count = connection.scalar(select(func.count()).select_from(table))
            counts[table.name.removeprefix("tuner_")] = count or 0
    path = location.path
    return DatabaseInfo(
        database=str(location),
        system=server_version(connection) if path is None else sqlite_version(connection),
        size_bytes=size_bytes(connection) if path is None else path.stat().st_size,
        revision=revision,
        head=head(),
        state=state,
        counts=counts,
        warning=warning,
    )
