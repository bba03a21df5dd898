"""Tells on which workloads the answers to ``best`` may have changed: what lets others be kept.

What decides an answer is added and never changed afterwards: a confirming process (its trial is
confirmed in that very transaction), a control. So the answers that may differ are those on the
workloads of rows with a newer id. What another program changes or deletes in rows
that are there does not show here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from typing import NamedTuple

from sqlalchemy import bindparam
from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.store.control_models import ControlRow
from tuner.store.models import Base
from tuner.store.models import ProcessRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.server import Unfinished
from tuner.store.server import unfinished_transactions
from tuner.store.table import table_of

# Of more new processes, as an import brings, it would take longer to say whose they are than to
# answer again what is asked.
MOST_NEW_PROCESSES = 50_000


class _Look(NamedTuple):
    """The database at a moment: its newest ids, and the numbers of transactions under way."""

    transactions: Unfinished
    process_id: int
    control_id: int


class AnswerChanges:
    """Tells what has changed between two looks. For one thread at a time."""

    def __init__(self) -> None:
        self._looks: list[_Look] = []  # the last one, and earlier ones that may be needed yet

    def since_last(self, session: Session) -> frozenset[str] | None:
        """Return the keys of workloads on which an answer may differ since the call before.

        Args:
            session: One that was opened for this call.

        Returns:
            None where any may: at the first call, and when the database was set back or its server
            started anew.
        """
        connection = session.connection()
        now = _look(connection)
        since = self._behind_all_unseen()
        found = None if since is None else _changed(connection, since, now)
        if found is None:
            self._looks = []
        # Only now: where reading fails, the next call must tell of these changes, too.
        self._looks.append(now)
        return found

    def _behind_all_unseen(self) -> _Look | None:
        """Return the look whose newest ids are behind all that the last one did not see.

        On a server a row can become visible after one with a higher id. What was not visible at
        the last look is of transactions that had not ended then. Those that began after an
        earlier look drew ids above its newest: a transaction has its number before it draws any.
        """
        if not self._looks:
            return None
        unseen_from = self._looks[-1].transactions.oldest
        while len(self._looks) > 1 and self._looks[1].transactions.following <= unseen_from:
            del self._looks[0]
        return self._looks[0]


def _look(connection: Connection) -> _Look:
    transactions = unfinished_transactions(connection)
    ids = connection.execute(_newest_query()).one()
    return _Look(transactions, *(each or 0 for each in ids))


def _changed(connection: Connection, since: _Look, now: _Look) -> frozenset[str] | None:
    if (
        now.transactions.server_start != since.transactions.server_start
        or not 0 <= now.process_id - since.process_id <= MOST_NEW_PROCESSES
        or now.control_id < since.control_id
    ):
        return None
    found: set[str] = set()
    if now.process_id > since.process_id:
        found.update(_keys(connection, _confirmed_query(), since.process_id))
    if now.control_id > since.control_id:
        found.update(_keys(connection, _controlled_query(), since.control_id))
    return frozenset(found)


def _keys(connection: Connection, query: Select[Any], after_id: int) -> Sequence[str]:
    return connection.execute(query, {"after_id": after_id}).scalars().all()


@cache
def _newest_query() -> Select[Any]:
    def newest(model: type[Base]) -> Any:
        return select(func.max(table_of(model).c.id)).scalar_subquery()

    return select(newest(ProcessRow), newest(ControlRow))


@cache
def _confirmed_query() -> Select[Any]:
    process, trial, workload = map(table_of, (ProcessRow, TrialRow, WorkloadRow))
    return (
        select(workload.c.key)
        .distinct()
        .select_from(process)
        .join(trial, trial.c.id == process.c.trial_id)
        .join(workload, workload.c.id == trial.c.workload_id)
        .where(process.c.id > bindparam("after_id"), process.c.stage == "confirm")
    )


@cache
def _controlled_query() -> Select[Any]:
    control, workload = table_of(ControlRow), table_of(WorkloadRow)
    return (
        select(workload.c.key)
        .distinct()
        .select_from(control)
        .join(workload, workload.c.id == control.c.workload_id)
        .where(control.c.id > bindparam("after_id"))
    )
