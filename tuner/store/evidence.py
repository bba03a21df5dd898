"""Stores and reads imported evidence. It has tables of its own: nothing here is a trial."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.evidence import EvidenceFile
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import EvidenceSummary
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import StoredRecord
from tuner.domain.evidence import Timer
from tuner.domain.identity import canonical_json
from tuner.domain.outcome import Outcome
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.store import rows
from tuner.store.evidence_models import EvidenceFileRow
from tuner.store.evidence_models import RecordRow
from tuner.store.problems import MAX_ID
from tuner.store.rows import Values
from tuner.store.table import insert_row
from tuner.store.table import insert_rows
from tuner.store.table import table_of
from tuner.ways import Way

_CHUNK_ROWS = 1000
_PLAIN = (
    *("line", "operator", "implementation", "language", "runtime", "shape", "dtype"),
    "measured_on",
)
_ERRORS = ("max_abs_error", "max_rel_error")
_OBJECTS = ("scalars", "config", "protocol", "environment", "extra")


@dataclass(frozen=True, slots=True)
class AddedEvidence:
    """What storing a file changed.

    Attributes:
        evidence: Name of the set; of the earlier one where the file was stored already.
        added: Records that were added; 0 where the file was stored already.
        is_known: The same bytes were imported before.
    """

    evidence: str
    added: int
    is_known: bool


def add_evidence(
    connection: Connection,
    evidence: str,
    file: EvidenceFile,
    records: Sequence[EvidenceRecord],
    *,
    may_extend: bool,
) -> AddedEvidence:
    """Store a file's records as a set, or find that the same bytes are stored already.

    Args:
        connection: In a transaction.
        evidence: Name of the set.
        file: Where the records are from.
        records: At least one.
        may_extend: Whether the set may hold records of another file already.

    Raises:
        UsageError: The set exists, is from another file, and is not to be extended.
    """
    files, table = table_of(EvidenceFileRow), table_of(RecordRow)
    known = connection.scalar(select(files.c.id).where(files.c.sha256 == file.sha256))
    if known is not None:
        stored = select(table.c.evidence).where(table.c.file_id == known).limit(1)
        return AddedEvidence(connection.scalar(stored) or evidence, 0, is_known=True)
    taken = select(table.c.id).where(table.c.evidence == evidence).limit(1)
    if not may_extend and connection.scalar(taken) is not None:
        raise UsageError(
            f"{file.name}: evidence {evidence!r} is stored already, from another file",
            hint=f"--name OTHER stores it apart; --name {evidence} adds it to that set",
        )
    file_id = insert_row(
        connection,
        EvidenceFileRow,
        {
            "sha256": file.sha256,
            "name": rows.clean_text(file.name, rows.MESSAGE_LIMIT_BYTES),
            "format": file.format,
            "size_bytes": file.size_bytes,
            "imported_at": datetime.now(UTC),
        },
    )
    for start in range(0, len(records), _CHUNK_ROWS):
        chunk = records[start : start + _CHUNK_ROWS]
        shared = {"file_id": file_id, "evidence": evidence, "origin": "imported"}
        insert_rows(connection, RecordRow, [shared | record_values(each) for each in chunk])
    return AddedEvidence(evidence, len(records), is_known=False)


def list_evidence(session: Session) -> list[EvidenceSummary]:
    """Return the stored sets, by name."""
    table, files = table_of(RecordRow), table_of(EvidenceFileRow)
    columns = [
        table.c[name] for name in ("evidence", "outcome", "operator", "environment", "measured_on")
    ]
    query = (
        select(*columns, files.c.name, files.c.format, files.c.imported_at)
        .join(files, files.c.id == table.c.file_id)
        .order_by(table.c.evidence, table.c.id)
        .execution_options(yield_per=_CHUNK_ROWS)
    )
    found: dict[str, _Tally] = {}
    for row in session.execute(query).mappings():
        found.setdefault(row["evidence"], _Tally()).add(row)
    return [tally.summary(name) for name, tally in found.items()]


def find_records(session: Session, evidence: str) -> list[StoredRecord]:
    """Return the records of a set, in the order of their files and lines.

    Raises:
        NotFound: There is no such set.
    """
    table = table_of(RecordRow)
    query = _record_query().where(table.c.evidence == evidence)
    ordered = query.order_by(table.c.file_id, table.c.line)
    found = [_stored(row) for row in session.execute(ordered).mappings()]
    if not found:
        raise NotFound(
            f"no evidence {evidence[:100]!r}",
            hint=f"{Way.LIST_EVIDENCE} lists what is stored; {Way.ADD_EVIDENCE}",
        )
    return found


def find_record(session: Session, record_id: int) -> StoredRecord:
    """Return one record.

    Raises:
        NotFound: There is none of that id.
    """
    row = None
    if 0 < record_id <= MAX_ID:
        query = _record_query().where(table_of(RecordRow).c.id == record_id)
        row = session.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"no record {record_id}", hint=f"{Way.SHOW_EVIDENCE} lists a set's")
    return _stored(row)


def record_values(record: EvidenceRecord) -> Values:
    """Return the columns of a record.

    Raises:
        ValueError: A figure or sample is no time.
    """
    times = record.times
    is_ok = record.outcome is Outcome.OK
    low_us, high_us = times.range_us or (None, None)
    values: Values = {name: getattr(record, name) for name in _PLAIN}
    # Without the sign of a zero, which SQLite drops: the checksum is of what is read back.
    values |= {
        name: None if error is None else error + 0.0
        for name, error in ((name, getattr(record, name)) for name in _ERRORS)
    }
    values |= {name: canonical_json(dict(getattr(record, name))) for name in _OBJECTS}
    return values | {
        "outcome": record.outcome.value,
        "message": "" if is_ok else rows.message_text(record.message, record.outcome.value),
        "timer": times.timer.value,
        "statistic": times.statistic.value,
        "unit": times.unit,
        "median_text": times.median,
        "low_text": times.low,
        "high_text": times.high,
        "sample_texts": canonical_json(list(times.samples)) if times.samples else None,
        "median_us": times.median_us,
        "low_us": low_us,
        "high_us": high_us,
        "samples_us": canonical_json(list(times.samples_us)) if times.samples else None,
    }


def read_record(row: RowMapping | Values) -> EvidenceRecord:
    """Return a record from its columns."""
    samples = row["sample_texts"]
    return EvidenceRecord(
        **{name: row[name] for name in (*_PLAIN, *_ERRORS)},
        **{name: json.loads(row[name]) for name in _OBJECTS},
        outcome=Outcome(row["outcome"]),
        message=row["message"],
        times=RecordedTimes(
            unit=row["unit"],
            timer=Timer(row["timer"]),
            statistic=Statistic(row["statistic"]),
            median=row["median_text"],
            low=row["low_text"],
            high=row["high_text"],
            samples=() if samples is None else tuple(json.loads(samples)),
        ),
    )


class _Tally:
    """Sums up a set, a record at a time."""

    def __init__(self) -> None:
        self._counts = {"records": 0, "ok": 0}
        # Dictionaries keep the order in which values came up.
        self._seen: dict[str, dict[str, None]] = {
            name: {} for name in ("operator", "architecture", "measured_on", "name", "format")
        }
        self._imported_at = datetime.min.replace(tzinfo=UTC)

    def add(self, row: RowMapping) -> None:
        """Count a record."""
        self._counts["records"] += 1
        self._counts["ok"] += row["outcome"] == Outcome.OK.value
        stated = {**row, "architecture": json.loads(row["environment"]).get("architecture")}
        for name, values in self._seen.items():
            if stated[name] is not None:
                values[stated[name]] = None
        self._imported_at = max(self._imported_at, row["imported_at"])

    def summary(self, name: str) -> EvidenceSummary:
        """Return the summary of what was counted."""
        return EvidenceSummary(
            name=name,
            records=self._counts["records"],
            ok=self._counts["ok"],
            operators=tuple(self._seen["operator"]),
            architectures=tuple(self._seen["architecture"]),
            measured_on=tuple(self._seen["measured_on"]),
            files=tuple(self._seen["name"]),
            formats=tuple(self._seen["format"]),
            imported_at=self._imported_at,
        )


def _record_query() -> Select[*tuple[Any, ...]]:
    table, files = table_of(RecordRow), table_of(EvidenceFileRow)
    columns = [files.c[name] for name in ("sha256", "name", "format", "size_bytes", "imported_at")]
    return select(table, *columns).join(files, files.c.id == table.c.file_id)


def _stored(row: RowMapping) -> StoredRecord:
    return StoredRecord(
        id=row["id"],
        evidence=row["evidence"],
        file=EvidenceFile(row["sha256"], row["name"], row["format"], row["size_bytes"]),
        imported_at=row["imported_at"],
        record=read_record(row),
    )
