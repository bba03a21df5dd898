"""Leases: a study's driver says every few seconds that it lives, and writes only while it drives.

On its own host a process is looked up; of one elsewhere, its lease is all that can be seen. Times
are the database's, so that hosts need not agree on theirs. A driver that was taken for gone and
comes back finds another owner in the study's row, in the transaction of its next write.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from functools import cache
from typing import Any
from typing import TypeAlias

from sqlalchemy import bindparam
from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import Select
from sqlalchemy import select

from tuner.errors import DatabaseProblem
from tuner.errors import EnvironmentProblem
from tuner.store import owner
from tuner.store.job_models import LeaseRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import UtcDateTime
from tuner.store.table import find_or_insert
from tuner.store.table import table_of
from tuner.store.table import update_row

Writing: TypeAlias = Callable[[], AbstractContextManager[Connection]]

RENEWAL_S = 10.0
# A driver elsewhere that missed so many renewals counts as gone.
LEASE_SILENCE = timedelta(seconds=60)


def database_time(connection: Connection) -> datetime:
    """Return the time of the database: the server's, or of this host for a file."""
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    return connection.scalars(select(func.clock_timestamp(type_=UtcDateTime()))).one()


def renew(connection: Connection, study_id: int) -> None:
    """Note that this process drives a study now."""
    values = {
        "study_id": study_id,
        "owner": str(owner.this_process()),
        "seen_at": database_time(connection),
    }
    lease_id = find_or_insert(connection, LeaseRow, ["study_id"], values)
    update_row(connection, LeaseRow, lease_id, values)


def is_driven(connection: Connection, study: Mapping[str, Any]) -> bool:
    """Tell whether a living process drives a study, by its row."""
    if not study["owner"]:
        return False
    holder = owner.parse_owner(study["owner"])
    table = table_of(LeaseRow)
    query = select(table.c.seen_at).where(
        table.c.study_id == study["id"], table.c.owner == study["owner"]
    )
    seen_at = connection.scalar(query)
    now = database_time(connection)
    if seen_at is not None:
        return owner.is_alive(holder, seen_at, now, LEASE_SILENCE)
    # Driven by an earlier version of this program, which kept no lease.
    return owner.is_alive(holder, _last_stored(connection, study), now)


def driven_studies(connection: Connection, study_ids: Sequence[int]) -> set[int]:
    """Return which of some studies a living process drives."""
    table = table_of(StudyRow)
    query = select(table.c.id, table.c.owner, table.c.owned_at).where(
        table.c.id.in_(study_ids), table.c.owner.is_not(None)
    )
    rows = connection.execute(query).mappings().all()
    return {row["id"] for row in rows if is_driven(connection, dict(row))}


def require_driver(connection: Connection, study_id: int) -> None:
    """Check that this process still drives a study, and let nobody take it over meanwhile.

    To be called in each transaction that writes something of a study.

    Raises:
        EnvironmentProblem: Another process took it over.
    """
    study = connection.execute(_driver_query(), {"study_id": study_id}).one()
    if study.owner == str(owner.this_process()):
        return
    by = f"process {owner.parse_owner(study.owner).pid}" if study.owner else "another process"
    raise EnvironmentProblem(
        f"study {study.name} (id {study_id}) was taken over by {by}; nothing more was stored",
        hint="this process was silent for too long; `tuner trials` shows how far the study is",
    )


class LeaseKeeper:
    """Renews the leases of the studies that this process drives, in a thread of its own.

    A trial can take longer than a driver may be silent, and the process waits for it.

    Args:
        write: Opens a write transaction.
        interval_s: Between two renewals.
    """

    def __init__(self, write: Writing, interval_s: float = RENEWAL_S) -> None:
        self._write = write
        self._interval_s = interval_s
        self._studies: set[int] = set()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()  # of that thread alone: an earlier one may not have seen its

    def keep(self, study_id: int) -> None:
        """Renew the lease of a study from now on."""
        with self._guard:
            self._studies.add(study_id)
            if self._thread is None:
                self._end = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._end,), name="tuner-lease", daemon=True
                )
                self._thread.start()

    def drop(self, study_id: int) -> None:
        """Renew the lease of a study no longer; the thread ends with the last one."""
        with self._guard:
            self._studies.discard(study_id)
            thread = None if self._studies else self._thread
            if thread is not None:
                self._end.set()
                self._thread = None
        if thread is not None:
            thread.join()

    def _run(self, end: threading.Event) -> None:
        while not end.wait(self._interval_s):
            with self._guard:
                studies = sorted(self._studies)
            for study_id in studies:
                # The next turn tries again; the next write of a trial tells the user.
                with contextlib.suppress(DatabaseProblem, EnvironmentProblem):
                    self._renew(study_id)

    def _renew(self, study_id: int) -> None:
        with self._write() as connection:
            require_driver(connection, study_id)
            renew(connection, study_id)


@cache
def _driver_query() -> Select[Any]:
    """Return the statement of ``require_driver``, built once: it is part of every write.

    The lock keeps takers-over away and nobody else: rows that refer to the study can be added.
    """
    table = table_of(StudyRow)
    query = select(table.c.name, table.c.owner).where(table.c.id == bindparam("study_id"))
    return query.with_for_update(key_share=True)


def _last_stored(connection: Connection, study: Mapping[str, Any]) -> datetime:
    table = table_of(TrialRow)
    times = connection.execute(
        select(func.max(table.c.started_at), func.max(table.c.finished_at)).where(
            table.c.study_id == study["id"]
        )
    ).one()
    known: list[datetime] = [time for time in (study["owned_at"], *times) if time is not None]
    return max(known)
