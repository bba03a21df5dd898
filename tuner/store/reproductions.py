"""Stores and reads what reruns gave. The original's row is never touched."""

from __future__ import annotations

import json
from datetime import datetime
from datetime import UTC
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.evidence import OriginalKind
from tuner.domain.evidence import Reproduction
from tuner.domain.evidence import StoredReproduction
from tuner.domain.identity import canonical_json
from tuner.store.evidence_models import ReproductionRow
from tuner.store.table import insert_row
from tuner.store.table import table_of

_PLAIN = (
    *("original_kind", "original_id", "verdict", "rerun_study_id", "rerun_trial_id"),
    *("ratio", "ratio_low", "ratio_high", "threshold"),
)


def add_reproduction(connection: Connection, reproduction: Reproduction) -> int:
    """Store a reproduction and return its id.

    Raises:
        ValueError: ``differences`` holds what JSON can't.
    """
    values: dict[str, Any] = {name: getattr(reproduction, name) for name in _PLAIN}
    values["differences"] = canonical_json(list(reproduction.differences))
    values["created_at"] = datetime.now(UTC)
    return insert_row(connection, ReproductionRow, values)


def list_reproductions(
    session: Session,
    *,
    original_kind: OriginalKind | None = None,
    original_id: str | None = None,
) -> list[StoredReproduction]:
    """Return reproductions, oldest first.

    Args:
        session: Of the store.
        original_kind: Only of such originals.
        original_id: Only of this original.
    """
    table = table_of(ReproductionRow)
    query = select(table).order_by(table.c.id)
    if original_kind is not None:
        query = query.where(table.c.original_kind == original_kind)
    if original_id is not None:
        query = query.where(table.c.original_id == original_id)
    return [
        StoredReproduction(
            id=row["id"],
            created_at=row["created_at"],
            reproduction=Reproduction(
                **{name: row[name] for name in _PLAIN}, differences=json.loads(row["differences"])
            ),
        )
        for row in session.execute(query).mappings()
    ]
