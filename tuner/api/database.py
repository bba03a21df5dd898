"""Looking after the results database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.plain import plain
from tuner.domain.identity import Plain
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store.copying import CopyReport
    from tuner.store.copying import Progress


def database_info(settings: Settings) -> dict[str, Plain]:
    """Return where the database is, its schema and how much it holds.

    Raises:
        NotFound: There is none.
        DatabaseProblem: It can't be read.
    """
    from tuner.store import migrate

    found: dict[str, Plain] = plain(migrate.info(settings.db))
    return found


def upgrade_database(settings: Settings) -> list[str]:
    """Bring an older database to this program's schema and say what was done."""
    from tuner.store import migrate

    return migrate.upgrade(settings.db)


def check_database(settings: Settings) -> list[str]:
    """Return the problems found: integrity, references, checksums, derived figures, schema."""
    from tuner.store import migrate

    return migrate.check(settings.db)


def backup_database(target: Path, settings: Settings) -> None:
    """Copy the database's file to a new one while it is in use.

    Raises:
        UsageError: The target exists, or the database is on a server, which has tools for that.
        DatabaseProblem: Either can't be used.
    """
    from tuner.store import migrate

    migrate.backup(settings.db, target)


def copy_database(source: str, target: str, progress: Progress | None = None) -> CopyReport:
    """Copy all rows to a new file, or to an empty database of a server, and check each of them.

    Args:
        source: Path or URL.
        target: Path or URL.
        progress: Is told a table, how many of its rows were copied, and how many there are.

    Raises:
        NotFound: There is no such source.
        SchemaMismatch: Source or target has another schema than this program.
        UsageError: The target exists, or holds rows.
        DatabaseProblem: One of the two failed, or a row does not fit its checksum. Nothing was
            stored.
    """
    from tuner.store.copying import copy_store

    return copy_store(source, target, progress or (lambda _table, _done, _total: None))
