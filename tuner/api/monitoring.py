"""What keeps a service running: its database made or checked, and sums for its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.api.common import open_database
from tuner.settings import Settings


@dataclass(frozen=True, slots=True)
class DatabaseTallies:
    """Sums over the database at one moment.

    Attributes:
        trials: Outcome (``running`` among them), device, architecture, count.
        stage_seconds: Stage, device, seconds.
        jobs: State, device, count.
    """

    trials: tuple[tuple[str, str, str, int], ...]
    stage_seconds: tuple[tuple[str, str, float], ...]
    jobs: tuple[tuple[str, str, int], ...]


def prepare_database(settings: Settings) -> None:
    """Make the database where there is none, and check that it can be read and written.

    Raises:
        SchemaMismatch: It needs an upgrade, or is not one of this program; it is as it was.
        DatabaseProblem: It can't be made, read or written.
        UsageError: The setting names no database.
    """
    with open_database(settings, create=True, writable=True):
        pass


def check_readable(settings: Settings) -> None:
    """Check that the database has this program's schema and can be read.

    Raises:
        NotFound: There is none.
        SchemaMismatch: It needs an upgrade, or is not one of this program.
        DatabaseProblem: It can't be read.
    """
    from tuner.store.tallies import jobs_by_state

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        jobs_by_state(session)


def database_tallies(settings: Settings) -> DatabaseTallies:
    """Return what the metrics show of the database.

    Raises:
        NotFound: There is no database.
        DatabaseProblem: It can't be read.
    """
    from tuner.store import tallies

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return DatabaseTallies(
            trials=tuple(tallies.trials_by_outcome(session)),
            stage_seconds=tuple(tallies.stage_seconds(session)),
            jobs=tuple(tallies.jobs_by_state(session)),
        )
