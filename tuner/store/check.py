"""Looks for damage that the database system itself does not see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy import create_engine
from sqlalchemy import inspect
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import SAWarning

from tuner.domain.stats import median
from tuner.store.checksums import CHECKSUM_COLUMN
from tuner.store.checksums import row_checksum
from tuner.store.control_models import ControlRow
from tuner.store.controls import median_of_samples
from tuner.store.engine import integrity_problems
from tuner.store.evidence import read_record
from tuner.store.evidence import record_values
from tuner.store.evidence_models import RecordRow
from tuner.store.models import Base
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.models import TrialRow
from tuner.store.profile_models import ProfileRow
from tuner.store.profiles import profile_values
from tuner.store.profiles import read_profile
from tuner.store.reports import confirmed_values
from tuner.store.reports import confirming_samples
from tuner.store.table import table_of

Description: TypeAlias = dict[str, dict[str, Any]]

MAX_PROBLEMS = 100  # per kind: enough to see how bad it is
_CHUNK_ROWS = 1000
_CHECKSUM = "checksum"
# Of a record: they follow from the texts.
_FIGURES = ("median_us", "low_us", "high_us", "samples_us")
# Of derived columns; warnings are texts that a later version may word differently.
_DERIVED = ("median_us", "low_us", "high_us", "bandwidth_gb_s")


def find_problems(connection: Connection) -> list[str]:
    """Return all problems found, one line each."""
    kinds: list[tuple[str, Callable[[Connection], Iterator[str]]]] = [
        ("schema", _schema_problems),
        ("rows", _row_problems),
        ("processes", _process_problems),
        ("derived values", _derived_problems),
        ("records", _record_problems),
        ("profiles", _profile_problems),
        ("controls", _control_problems),
    ]
    problems: list[str] = []
    if connection.dialect.name == "sqlite":
        kinds.insert(0, ("pages", lambda each: iter(integrity_problems(each))))
    for kind, search in kinds:
        found: list[str] = []
        try:
            for problem in search(connection):
                found.append(problem)
                if len(found) == MAX_PROBLEMS:
                    break
        # Damaged bytes show up as a driver's error or as a date, text or number that can't be.
        except (DBAPIError, ValueError, TypeError, ArithmeticError) as error:
            found.append(f"{kind}: unreadable ({' '.join(str(error).split())[:200]})")
        problems += found
    return problems


def describe_schema(connection: Connection) -> Description:
    """Return tables of this program with columns, keys, checks and indexes, in a fixed order."""
    inspector = inspect(connection)
    ours = [name for name in inspector.get_table_names() if name in Base.metadata.tables]
    found: Description = {}
    for table in sorted(ours):
        checks = inspector.get_check_constraints(table)
        uniques = inspector.get_unique_constraints(table)
        links = inspector.get_foreign_keys(table)
        key = inspector.get_pk_constraint(table)
        found[table] = {
            "columns": {
                each["name"]: (str(each["type"]), each["nullable"])
                for each in sorted(inspector.get_columns(table), key=lambda each: each["name"])
            },
            "key": (key["name"], key["constrained_columns"]),
            "checks": sorted((str(each["name"]), each["sqltext"]) for each in checks),
            "uniques": sorted((str(each["name"]), each["column_names"]) for each in uniques),
            "links": sorted(
                (str(each["name"]), each["constrained_columns"], each["referred_table"])
                for each in links
            ),
            "indexes": sorted(
                (str(each["name"]), each["column_names"], bool(each["unique"]))
                for each in inspector.get_indexes(table)
            ),
        }
    return found


@cache
def fresh_schema() -> Description:
    """Return the description of a database just made from the models, by SQLite in memory."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        return describe_schema(connection)


def _schema_problems(connection: Connection) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # it warns of what is reported below
        expected, found = fresh_schema(), describe_schema(connection)
    if connection.dialect.name != "sqlite":
        expected, found = _common_part(expected), _common_part(found)
    for table, parts in expected.items():
        if table not in found:
            yield f"schema: table {table} is missing"
            continue
        for part, value in parts.items():
            if found[table][part] != value:
                yield f"schema: {part} of {table} differ from those of a fresh database"


def _common_part(description: Description) -> Description:
    """Return what is the same for all database systems: names, columns, NULL or not."""
    return {
        table: {
            **parts,
            "columns": {name: nullable for name, (_, nullable) in parts["columns"].items()},
            # SQLite has no type for them, and PostgreSQL an index for each unique constraint.
            "checks": [name for name, _ in parts["checks"] if not name.endswith("_is_bool")],
            "indexes": [each for each in parts["indexes"] if each[0].startswith("ix_")],
        }
        for table, parts in description.items()
    }


def checksum_problems(connection: Connection) -> Iterator[str]:
    """Yield the rows that do not fit their checksums."""
    yield from _row_problems(connection)
    for kind, problem in _process_faults(connection):
        if kind == _CHECKSUM:
            yield f"{kind}: {problem}"


def _row_problems(connection: Connection) -> Iterator[str]:
    for table in Base.metadata.sorted_tables:
        if CHECKSUM_COLUMN not in table.columns or table is table_of(ProcessRow):
            continue  # the checksum of a process covers its samples too
        (key,) = table.primary_key.columns
        query = select(table).order_by(key).execution_options(yield_per=_CHUNK_ROWS)
        for row in connection.execute(query).mappings():
            if row[CHECKSUM_COLUMN] != row_checksum(table.name, dict(row)):
                yield f"{_CHECKSUM}: {table.name} {key.name} {row[key.name]} was changed or damaged"


def _process_problems(connection: Connection) -> Iterator[str]:
    """Check processes with their samples."""
    for kind, problem in _process_faults(connection):
        yield f"{kind}: {problem}"


def _process_faults(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield kind and text of what is wrong with processes and their samples.

    Both are read in the same order, side by side.
    """
    process, sample = table_of(ProcessRow), table_of(SampleRow)
    streaming = {"yield_per": _CHUNK_ROWS}
    sampled = select(sample).order_by(sample.c.process_id, sample.c.position)
    timed = connection.execute(sampled.execution_options(**streaming)).mappings()
    groups = groupby(timed, key=lambda row: row["process_id"])
    group = next(groups, None)
    query = select(process).order_by(process.c.id).execution_options(**streaming)
    for row in connection.execute(query).mappings():
        samples: list[Any] = []
        if group is not None and group[0] == row["id"]:
            samples = list(group[1])
            group = next(groups, None)
        name = f"{process.name} id {row['id']} (trial {row['trial_id']})"
        times = [each["time_us"] for each in samples]
        if [each["position"] for each in samples] != list(range(len(samples))):
            yield "samples", f"{name} has gaps between its samples"
        if row[CHECKSUM_COLUMN] != row_checksum(process.name, dict(row), times):
            yield _CHECKSUM, f"{name} or one of its samples was changed or damaged"
        if row["median_us"] != (median(times) if times else None):
            yield "derived", f"median of {name} is not that of its samples"


def _derived_problems(connection: Connection) -> Iterator[str]:
    trial = table_of(TrialRow)
    columns = [trial.c[name] for name in ("id", "bytes_moved", *_DERIVED)]
    for row in connection.execute(select(*columns).where(trial.c.confirmed)).mappings().all():
        samples = confirming_samples(connection, row["id"])
        if not samples:
            yield f"derived: trial {row['id']} is confirmed and has no confirming samples"
            continue
        expected = confirmed_values(samples, row["bytes_moved"])
        wrong = [name for name in _DERIVED if row[name] != expected[name]]
        if wrong:
            yield f"derived: {', '.join(wrong)} of trial {row['id']} do not follow from samples"


def _record_problems(connection: Connection) -> Iterator[str]:
    """Check that the figures of imported records are those of their texts."""
    table = table_of(RecordRow)
    query = select(table).order_by(table.c.id).execution_options(yield_per=_CHUNK_ROWS)
    for row in connection.execute(query).mappings():
        expected = record_values(read_record(row))
        wrong = [name for name in _FIGURES if row[name] != expected[name]]
        if wrong:
            yield f"derived: {', '.join(wrong)} of record {row['id']} do not follow from its texts"


def _profile_problems(connection: Connection) -> Iterator[str]:
    """Check that the medians of profiles are those of their samples."""
    table = table_of(ProfileRow)
    query = select(table).order_by(table.c.id).execution_options(yield_per=_CHUNK_ROWS)
    for row in connection.execute(query).mappings():
        if row["median_us"] != profile_values(read_profile(row))["median_us"]:
            yield f"derived: median of profile {row['id']} is not that of its samples"


def _control_problems(connection: Connection) -> Iterator[str]:
    """Check that the medians of controls are those of their samples."""
    table = table_of(ControlRow)
    query = select(table).order_by(table.c.id).execution_options(yield_per=_CHUNK_ROWS)
    for row in connection.execute(query).mappings():
        if row["median_us"] != median_of_samples(row):
            yield f"derived: median of control {row['id']} is not that of its samples"
