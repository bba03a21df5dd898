"""Tells the trials that run from those that were cut off when the process that drove them ended.

Whoever takes the study over stores these as interrupted; until somebody does, they have no outcome
in the database. They are shown and counted as interrupted all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeAlias

from sqlalchemy import case
from sqlalchemy import ColumnElement
from sqlalchemy import null
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.outcome import Outcome
from tuner.store.leases import is_driven
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.owner import Owner
from tuner.store.owner import parse_owner
from tuner.store.table import table_of

# Studies whose driver is gone, and what cut off the trials that it left without an outcome.
LeftBehind: TypeAlias = Mapping[int, str]


def left_behind(session: Session, study_ids: Sequence[int] | None = None) -> LeftBehind:
    """Return the studies, or those of some, that were not given up by the process that drove them.

    Args:
        session: Of the store.
        study_ids: Of these; None for all.
    """
    table = table_of(StudyRow)
    query = select(table.c.id, table.c.owner, table.c.owned_at).where(table.c.owner.is_not(None))
    if study_ids is not None:
        query = query.where(table.c.id.in_(study_ids))
    connection = session.connection()
    return {
        row["id"]: cut_off_by(parse_owner(row["owner"]))
        for row in connection.execute(query).mappings().all()
        if not is_driven(connection, dict(row))
    }


def cut_off_by(driver: Owner) -> str:
    """Say why a trial was interrupted whose driver ended without a word."""
    return f"process {driver.pid} ended while the trial ran"


def outcome_now(gone: LeftBehind) -> ColumnElement[str | None]:
    """Return the outcome of a trial as it is shown; NULL while it runs."""
    if not gone:
        return TrialRow.outcome.expression
    # No list of ids: what is streamed from a server can't have one.
    cut_off = [(TrialRow.study_id == each, Outcome.INTERRUPTED.value) for each in gone]
    return case((TrialRow.outcome.is_not(None), TrialRow.outcome), *cut_off, else_=null())


def message_now(gone: LeftBehind) -> ColumnElement[str]:
    """Return the message of a trial as it is shown."""
    if not gone:
        return TrialRow.message.expression
    cut_off = [(TrialRow.study_id == each, text) for each, text in gone.items()]
    return case((TrialRow.outcome.is_not(None), TrialRow.message), *cut_off, else_=TrialRow.message)
