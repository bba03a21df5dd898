"""Bundles: all rows of a database, or of a study, as one file of JSON lines with checksums.

The first line names format and schema, the last one says how many rows there were and what all
bytes before it hash to, so that a file that was cut off is not taken for a whole one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import or_
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.orm import Session

from tuner.errors import SchemaMismatch
from tuner.errors import UsageError
from tuner.store.bundle_rows import BundleRow
from tuner.store.bundle_rows import decode_row
from tuner.store.bundle_rows import encode_row
from tuner.store.bundle_rows import EVIDENCE
from tuner.store.bundle_rows import OF_STUDIES
from tuner.store.bundle_rows import OF_TRIALS
from tuner.store.bundle_rows import VOCABULARY
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.schema import head
from tuner.store.schema import REVISIONS
from tuner.store.table import table_of

SCHEMA = "tuner.bundle/1"
MAX_LINE_BYTES = 64_000_000
_CHUNK_ROWS = 200
_DAMAGED = "nothing was stored; export the bundle again, or copy it again"
_NEWER_HINT = "use the newer version of tuner that made it"


def is_bundle(start: bytes) -> bool:
    """Tell whether a file that starts like this is a bundle, of whatever version."""
    return start.startswith(b'{"schema":"tuner.bundle/')


def iter_rows(session: Session, study_id: int | None = None) -> Iterator[BundleRow]:
    """Yield all rows of a database, or of a study, each after those it refers to.

    A few hundred trials with their samples are held at a time.
    """
    for model in VOCABULARY:
        yield from _plain_rows(session, model, _vocabulary_query(model, study_id))
    studies = table_of(StudyRow)
    query = select(studies)
    if study_id is not None:
        query = query.where(studies.c.id == study_id)
    yield from _plain_rows(session, StudyRow, query)
    yield from _trial_rows(session, study_id)
    for model in OF_STUDIES:
        table = table_of(model)
        query = select(table)
        if study_id is not None:
            query = query.where(table.c.study_id == study_id)
        yield from _plain_rows(session, model, query)
    if study_id is None:
        for model in EVIDENCE:
            yield from _plain_rows(session, model, select(table_of(model)))


def bundle_lines(rows: Iterable[BundleRow], study: str | None) -> Iterator[str]:
    """Yield the lines of a bundle. Equal rows give equal bytes.

    Args:
        rows: As ``iter_rows`` yields them.
        study: Name of the study they are of; None for a whole database.
    """
    digest = hashlib.sha256()
    count = 0

    def line(value: dict[str, Any]) -> str:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"
        digest.update(text.encode("ascii"))
        return text

    yield line({"schema": SCHEMA, "revision": head(), "study": study})
    for row in rows:
        yield line(encode_row(row))
        count += 1
    yield line({"rows": count, "sha256": digest.hexdigest()})


def read_bundle(path: Path) -> Iterator[BundleRow]:
    """Yield the rows of a bundle file, each checked against its checksum and its table.

    Raises:
        UsageError: It can't be read, is damaged or cut off; with the line.
        SchemaMismatch: It was made by another version.
    """
    digest = hashlib.sha256()
    count = 0
    end: dict[str, Any] | None = None
    for number, content in _lines(path):
        fault = f"{path}:{number}"
        if end is not None:
            raise UsageError(f"{fault}: there is more after the last line", hint=_DAMAGED)
        value = _object(content, fault)
        if number == 1:
            _check_header(value, path)
        elif "table" in value:
            try:
                row = decode_row(value)
            except ValueError as error:
                raise UsageError(f"{fault}: {error}", hint=_DAMAGED) from error
            count += 1
            yield row
        else:
            end = value
            if end != {"rows": count, "sha256": digest.hexdigest()}:
                raise UsageError(f"{fault}: lines are missing or changed", hint=_DAMAGED)
        digest.update(content)
    if end is None:
        raise UsageError(f"{path}: cut off: the last line is missing", hint=_DAMAGED)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while content := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(content) > MAX_LINE_BYTES:
                    raise UsageError(f"{path}:{number}: longer than {MAX_LINE_BYTES} bytes")
                yield number, content
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}") from error


def _object(content: bytes, fault: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{fault}: not a line of JSON", hint=_DAMAGED) from error
    if not isinstance(value, dict):
        raise UsageError(f"{fault}: not a JSON object", hint=_DAMAGED)
    return value


def _check_header(header: dict[str, Any], path: Path) -> None:
    schema, revision = header.get("schema"), header.get("revision")
    if schema != SCHEMA:
        raise SchemaMismatch(
            f"{path} has format {str(schema)[:40]!r}, this program reads {SCHEMA!r}",
            hint=_NEWER_HINT,
        )
    if revision != head():
        is_older = revision in REVISIONS
        raise SchemaMismatch(
            f"{path} has schema {str(revision)[:40]!r}, this program reads {head()!r}",
            hint="export it again with this version" if is_older else _NEWER_HINT,
        )


def _vocabulary_query(model: type[DeclarativeBase], study_id: int | None) -> Select[Any]:
    """Select the rows that a study and its trials refer to."""
    table = table_of(model)
    if study_id is None:
        return select(table)
    (key,) = table.primary_key.columns
    used = []
    for referring in (StudyRow, TrialRow):
        other = table_of(referring)
        owner = other.c.id if referring is StudyRow else other.c.study_id
        used += [
            select(column).where(owner == study_id)
            for column in other.columns
            if any(link.column.table is table for link in column.foreign_keys)
        ]
    return select(table).where(or_(*(key.in_(each) for each in used)))


def _plain_rows(
    session: Session, model: type[DeclarativeBase], query: Select[Any]
) -> Iterator[BundleRow]:
    table = table_of(model)
    (key,) = table.primary_key.columns
    streamed = query.order_by(key).execution_options(yield_per=_CHUNK_ROWS)
    for row in session.execute(streamed).mappings():
        yield BundleRow(model, dict(row))


def _trial_rows(session: Session, study_id: int | None) -> Iterator[BundleRow]:
    """Yield each trial, then its processes with their samples, then its other rows."""
    trials = table_of(TrialRow)
    query = select(trials).order_by(trials.c.id).limit(_CHUNK_ROWS)
    if study_id is not None:
        query = query.where(trials.c.study_id == study_id)
    last = 0
    while chunk := session.execute(query.where(trials.c.id > last)).mappings().all():
        last = chunk[-1]["id"]
        belonging = _belonging(session, [row["id"] for row in chunk])
        for row in chunk:
            yield BundleRow(TrialRow, dict(row))
            yield from belonging.get(row["id"], ())


def _belonging(session: Session, trial_ids: Sequence[int]) -> dict[int, list[BundleRow]]:
    process, sample = table_of(ProcessRow), table_of(SampleRow)
    timed = (
        select(sample.c.process_id, sample.c.time_us)
        .join(process, process.c.id == sample.c.process_id)
        .where(process.c.trial_id.in_(trial_ids))
        .order_by(sample.c.process_id, sample.c.position)
    )
    samples: dict[int, list[float]] = {}
    for process_id, time_us in session.execute(timed):
        samples.setdefault(process_id, []).append(time_us)
    found: dict[int, list[BundleRow]] = {}
    for model in OF_TRIALS:
        table = table_of(model)
        query = select(table).where(table.c.trial_id.in_(trial_ids)).order_by(table.c.id)
        for row in session.execute(query).mappings():
            times = tuple(samples.get(row["id"], ())) if model is ProcessRow else ()
            found.setdefault(row["trial_id"], []).append(BundleRow(model, dict(row), times))
    return found
