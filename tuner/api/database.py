"""Looking after the results database."""

from __future__ import annotations

from pathlib import Path

from tuner.api.plain import plain
from tuner.domain.identity import Plain
from tuner.settings import Settings


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
    """Copy the database to a new file while it is in use.

    Raises:
        DatabaseProblem: The target exists, or either can't be used.
    """
    from tuner.store import migrate

    migrate.backup(settings.db, target)
