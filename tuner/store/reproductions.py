"""Stores and reads what reruns gave. The original's row is never touched.

A verdict that rests on two looks is stored once for the rerun of each, one row after the other,
and read as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from datetime import datetime
from datetime import UTC
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.evidence import AGAIN
from tuner.domain.evidence import OriginalKind
from tuner.domain.evidence import Reproduction
from tuner.domain.evidence import StoredReproduction
from tuner.domain.identity import canonical_json
from tuner.store.evidence_models import ReproductionRow
from tuner.store.models import StudyRow
from tuner.store.table import insert_row
from tuner.store.table import table_of

_PLAIN = (
    *("original_kind", "original_id", "verdict", "rerun_study_id", "rerun_trial_id"),
    *("ratio", "ratio_low", "ratio_high", "threshold"),
)
_REPRODUCTION = table_of(ReproductionRow)
_STUDY = table_of(StudyRow)


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
    """Return reproductions, oldest first, each verdict once.

    Args:
        session: Of the store.
        original_kind: Only of such originals.
        original_id: Only of this original.
    """
    query = _query().order_by(_REPRODUCTION.c.id)
    if original_kind is not None:
        query = query.where(_REPRODUCTION.c.original_kind == original_kind)
    if original_id is not None:
        query = query.where(_REPRODUCTION.c.original_id == original_id)
    return [_read(looks) for looks in _verdicts(session.execute(query).mappings())]


def reproductions_in(session: Session, study_ids: Sequence[int]) -> list[StoredReproduction]:
    """Return the reproductions whose reruns some studies hold, oldest first, each verdict once."""
    query = _query().where(_REPRODUCTION.c.rerun_study_id.in_(study_ids))
    rows = session.execute(query.order_by(_REPRODUCTION.c.id)).mappings()
    return [_read(looks) for looks in _verdicts(rows)]


def newest_reproductions(
    session: Session, *, before: int | None = None, limit: int | None
) -> list[StoredReproduction]:
    """Return reproductions, newest first, from below the id ``before``, each verdict once."""
    query = _query().order_by(_REPRODUCTION.c.id.desc())
    if before is not None:
        query = query.where(_REPRODUCTION.c.id < before)
    if limit is not None:
        query = query.limit(2 * limit)  # no verdict has more rows
    rows = session.execute(query).mappings().all()
    return [_read(looks) for looks in _verdicts(reversed(rows))][::-1][:limit]


def _query() -> Select[Any]:
    return select(_REPRODUCTION, _STUDY.c.name.label("study_name")).outerjoin(
        _STUDY, _STUDY.c.id == _REPRODUCTION.c.rerun_study_id
    )


def _verdicts(rows: Iterable[RowMapping]) -> Iterator[tuple[RowMapping, ...]]:
    """Yield the one or two rows of each verdict; they come in the order of their ids."""
    first: RowMapping | None = None
    for row in rows:
        if first is not None and _is_second_look(first, row):
            yield (first, row)
            first = None
            continue
        if first is not None:
            yield (first,)
        first = row
    if first is not None:
        yield (first,)


def _is_second_look(first: RowMapping, row: RowMapping) -> bool:
    same = ("original_kind", "original_id", "verdict", "ratio", "differences")
    return (
        row["id"] == first["id"] + 1
        and first["study_name"] is not None
        and row["study_name"] == first["study_name"] + AGAIN
        and all(row[name] == first[name] for name in same)
    )


def _read(looks: tuple[RowMapping, ...]) -> StoredReproduction:
    row, again = looks[0], looks[1] if len(looks) > 1 else None
    return StoredReproduction(
        id=row["id"],
        created_at=row["created_at"],
        reproduction=Reproduction(
            **{name: row[name] for name in _PLAIN}, differences=json.loads(row["differences"])
        ),
        again_study_id=None if again is None else again["rerun_study_id"],
        again_trial_id=None if again is None else again["rerun_trial_id"],
    )
