"""Single rows of a bundle: which tables, how they are written, and what is checked of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy import Boolean
from sqlalchemy import Column
from sqlalchemy import Float
from sqlalchemy import Integer
from sqlalchemy import String
from sqlalchemy.orm import DeclarativeBase

from tuner.domain.identity import content_hash
from tuner.domain.identity import Plain
from tuner.errors import UsageError
from tuner.store import rows
from tuner.store.checksums import CHECKSUM_COLUMN
from tuner.store.checksums import row_checksum
from tuner.store.control_models import ControlRow
from tuner.store.evidence import read_record
from tuner.store.evidence_models import EvidenceFileRow
from tuner.store.evidence_models import RecordRow
from tuner.store.evidence_models import ReproductionRow
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SourceRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import UtcDateTime
from tuner.store.models import ValidationRow
from tuner.store.models import WorkloadRow
from tuner.store.problems import MAX_INTEGER
from tuner.store.profile_models import ProfileRow
from tuner.store.rows import Values
from tuner.store.table import table_of
from tuner.store.texts import storable_text
from tuner.store.texts import StorableText

# What studies and trials refer to.
VOCABULARY: tuple[type[DeclarativeBase], ...] = (
    *(WorkloadRow, ImplementationRow, SourceRow, EnvironmentRow, ProtocolRow),
)
# What belongs to a trial, in the order in which it is written.
OF_TRIALS: tuple[type[DeclarativeBase], ...] = (ProcessRow, ValidationRow, ProfileRow)
# What belongs to a study and refers to its trials.
OF_STUDIES: tuple[type[DeclarativeBase], ...] = (ControlRow,)
EVIDENCE: tuple[type[DeclarativeBase], ...] = (EvidenceFileRow, RecordRow, ReproductionRow)
BUNDLED: tuple[type[DeclarativeBase], ...] = (
    *VOCABULARY,
    *(StudyRow, TrialRow),
    *OF_TRIALS,
    *OF_STUDIES,
    *EVIDENCE,
)

_BY_NAME: Mapping[str, type[DeclarativeBase]] = {table_of(each).name: each for each in BUNDLED}


@dataclass(frozen=True, slots=True)
class BundleRow:
    """A row as its database holds it.

    Attributes:
        model: Its table.
        values: All columns by name, with the checksum.
        samples_us: A process's samples, in microseconds.
    """

    model: type[DeclarativeBase]
    values: Values
    samples_us: tuple[float, ...] = ()


def encode_row(row: BundleRow) -> dict[str, Plain]:
    """Return a row as JSON can hold it."""
    values = {
        name: value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
        for name, value in row.values.items()
    }
    encoded: dict[str, Plain] = {"table": table_of(row.model).name, "row": values}
    if row.samples_us:
        encoded["samples_us"] = list(row.samples_us)
    return encoded


def decode_row(encoded: Mapping[str, Plain]) -> BundleRow:
    """Return the row of a line.

    Raises:
        ValueError: It is not one of its table, or does not fit its checksum; in a user's words.
    """
    name, values, samples = (encoded.get(each) for each in ("table", "row", "samples_us"))
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ValueError("of an unknown table")
    model = _BY_NAME[name]
    table = table_of(model)
    if not isinstance(values, dict) or values.keys() != set(table.columns.keys()):
        raise ValueError(f"not the columns of {name}")
    decoded = {column.name: _decode(column, values[column.name]) for column in table.columns}
    row = BundleRow(model, decoded, _decode_samples(model, samples))
    check_row(row)
    return row


def check_row(row: BundleRow) -> None:
    """Check that a row fits its checksum, and that it can be read back as what it stands for.

    Raises:
        ValueError: It does not; in a user's words.
    """
    name = table_of(row.model).name
    if row.values[CHECKSUM_COLUMN] != row_checksum(name, row.values, row.samples_us):
        raise ValueError(f"the row of {name} was changed or damaged")
    sense = _SENSE.get(row.model)
    if sense is None:
        return
    try:
        is_sound = sense(row.values)
    # Stored texts that are no JSON, or JSON of another shape: each reader fails in its own way.
    except (ValueError, TypeError, KeyError, AttributeError, UsageError, RecursionError) as error:
        raise ValueError(f"the row of {name} makes no sense") from error
    if not is_sound:
        raise ValueError(f"the key of the row of {name} is not that of its content")


def _decode(column: Column[Any], value: Plain) -> Any:
    if value is None and column.nullable:
        return None
    kind = column.type
    if isinstance(kind, UtcDateTime):
        if (moment := _moment(value)) is not None:
            return moment
    elif isinstance(kind, Boolean):
        if isinstance(value, bool):
            return value
    elif isinstance(kind, Integer | BigInteger):
        if type(value) is int and abs(value) <= MAX_INTEGER:
            return value
    elif isinstance(kind, Float):
        if type(value) is float and math.isfinite(value):
            return value + 0.0  # SQLite has no -0.0
    elif isinstance(kind, String | StorableText) and isinstance(value, str) and _is_storable(value):
        return value
    raise ValueError(f"column {column.name} can't hold such a value")


def _moment(value: Plain) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment


def _is_storable(text: str) -> bool:
    """Tell whether every database takes a text as it is: no NUL, no half character."""
    return storable_text(text) == text


def _decode_samples(model: type[DeclarativeBase], samples: Plain) -> tuple[float, ...]:
    if samples is None:
        return ()
    if model is not ProcessRow or not isinstance(samples, list):
        raise ValueError("samples where none belong")
    if not all(type(each) is float and 0 < each < math.inf for each in samples):
        raise ValueError("a sample is no time")
    return tuple(samples)


def _workload_is_sound(row: Values) -> bool:
    workload = rows.read_workload(
        row["operator"], row["shape"], row["strides"], row["dtype"], row["scalars"]
    )
    return rows.workload_values(workload) == {name: row[name] for name in _WORKLOAD}


def _environment_is_sound(row: Values) -> bool:
    environment = rows.read_environment(row["identity"], row["context"])
    return bool(rows.environment_values(environment).items() <= row.items())


def _protocol_is_sound(row: Values) -> bool:
    rows.read_protocol(row["fields"])
    # Of the fields as they are stored: those of an older version may be fewer.
    return bool(content_hash(json.loads(row["fields"])) == row["key"])


def _trial_is_sound(row: Values) -> bool:
    rows.read_geometry(row["geometry"])
    rows.read_texts(row["warnings"])
    rows.read_texts(row["build_options"] or "[]")
    return bool(content_hash(rows.read_config(row["config"])) == row["config_key"])


def _is_json(*names: str) -> Callable[[Values], bool]:
    """Return a check that columns hold JSON, where they hold anything."""

    def check(row: Values) -> bool:
        for name in names:
            if row[name] is not None:
                json.loads(row[name])
        return True

    return check


def _record_is_sound(row: Values) -> bool:
    record = read_record(row)
    times = record.times
    return row["median_us"] == times.median_us and all(
        isinstance(each, dict) for each in (record.extra, record.environment, record.config)
    )


_WORKLOAD = ("key", "operator", "shape", "strides", "dtype", "scalars")
_SENSE: Mapping[type[DeclarativeBase], Callable[[Values], bool]] = {
    WorkloadRow: _workload_is_sound,
    EnvironmentRow: _environment_is_sound,
    ProtocolRow: _protocol_is_sound,
    SourceRow: _is_json("files"),
    StudyRow: _is_json("spec", "sources"),
    TrialRow: _trial_is_sound,
    ValidationRow: _is_json("first_bad_index"),
    ProfileRow: _is_json("samples_us", "extra"),
    RecordRow: _record_is_sound,
    ControlRow: _is_json("samples_us"),
    ReproductionRow: _is_json("differences"),
}
