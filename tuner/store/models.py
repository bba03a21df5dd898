"""Tables of the results database. One row checksum each; changes go through the writer only.

Every name starts with ``tuner_``, so that the tables can share a database with Optuna's. The
constraints are in the database itself, so that no other program can store a time of 0 or NaN:
``x > 0 AND x < 1e300`` refuses zero, negatives and infinity everywhere and NaN on PostgreSQL;
SQLite stores NaN as NULL, so that a time that must exist is NOT NULL as well.
"""

from __future__ import annotations

from datetime import datetime
from datetime import UTC
from enum import StrEnum
from typing import Any
from typing import ClassVar

from sqlalchemy import BigInteger
from sqlalchemy import Boolean
from sqlalchemy import CheckConstraint
from sqlalchemy import DateTime
from sqlalchemy import ForeignKey
from sqlalchemy import Index
from sqlalchemy import Integer
from sqlalchemy import MetaData
from sqlalchemy import String
from sqlalchemy import UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.orm import Mapped
from sqlalchemy.orm import mapped_column
from sqlalchemy.types import TypeDecorator

from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.store.texts import StorableText

HASH_DIGITS = 64
CHECKSUM_DIGITS = 16

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time, always aware and in UTC. SQLite keeps no zone, so it is put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Turn an aware time into UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Return an aware time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables. Optional columns are NULL where a value is not known, never 0."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {datetime: UtcDateTime(), str: StorableText()}


def one_of(column: str, values: type[StrEnum] | tuple[str, ...]) -> str:
    """Return the condition that a column has one of these values; NULL passes."""
    listed = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({listed})"


def positive(*columns: str) -> list[CheckConstraint]:
    """Checks that times and rates are finite and > 0 where they are known."""
    return [
        CheckConstraint(f"{column} > 0 AND {column} < 1e300", name=f"{column}_positive")
        for column in columns
    ]


def not_negative(*columns: str) -> list[CheckConstraint]:
    """Checks that durations and errors are finite and >= 0 where they are known."""
    return [
        CheckConstraint(f"{column} >= 0 AND {column} < 1e300", name=f"{column}_not_negative")
        for column in columns
    ]


class WorkloadRow(Base):
    """A problem to solve. ``key`` is the hash of its identifying fields."""

    __tablename__ = "tuner_workload"
    __table_args__ = (
        UniqueConstraint("key"),
        Index(None, "operator", "dtype", "shape"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(HASH_DIGITS))
    operator: Mapped[str]
    shape: Mapped[str]  # as users write it: 1024x4096
    strides: Mapped[str]  # JSON list, in elements
    dtype: Mapped[str]
    scalars: Mapped[str]  # JSON object
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class ImplementationRow(Base):
    """One kernel that does an operator's job, by name."""

    __tablename__ = "tuner_implementation"
    __table_args__ = (UniqueConstraint("operator", "name", "language"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    operator: Mapped[str]
    name: Mapped[str]
    language: Mapped[str]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class SourceRow(Base):
    """Full text of a kernel with its include closure, once per hash."""

    __tablename__ = "tuner_source"

    source_hash: Mapped[str] = mapped_column(String(HASH_DIGITS), primary_key=True)
    language: Mapped[str]
    entry: Mapped[str]
    main: Mapped[str]
    files: Mapped[str]  # JSON object: text by relative path
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class EnvironmentRow(Base):
    """Machine and toolchain. Equal ``key``: equal identity; ``fingerprint`` covers context too."""

    __tablename__ = "tuner_environment"
    __table_args__ = (UniqueConstraint("fingerprint"), Index(None, "key"))

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(HASH_DIGITS))
    fingerprint: Mapped[str] = mapped_column(String(HASH_DIGITS))
    architecture: Mapped[str]
    identity: Mapped[str]  # JSON object
    context: Mapped[str]  # JSON object
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class ProtocolRow(Base):
    """Every number and choice of a measurement."""

    __tablename__ = "tuner_protocol"
    __table_args__ = (UniqueConstraint("key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(HASH_DIGITS))
    fields: Mapped[str]  # JSON object
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class StudyRow(Base):
    """One question. ``generation`` counts the runs of one key that were asked for afresh."""

    __tablename__ = "tuner_study"
    __table_args__ = (
        UniqueConstraint("key", "generation"),
        Index(None, "name"),
        CheckConstraint(one_of("state", ("running", "finished")), name="state_known"),
        CheckConstraint("planned >= 0", name="planned_not_negative"),
        CheckConstraint("(state = 'finished') = (finished_at IS NOT NULL)", name="end_has_a_time"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    key: Mapped[str] = mapped_column(String(HASH_DIGITS))
    generation: Mapped[int]
    operator: Mapped[str]
    spec: Mapped[str]  # JSON object
    device_id: Mapped[str]
    environment_id: Mapped[int] = mapped_column(ForeignKey("tuner_environment.id"))
    protocol_id: Mapped[int] = mapped_column(ForeignKey("tuner_protocol.id"))
    sources: Mapped[str]  # JSON object: source hash by implementation
    sampler: Mapped[str]
    sampler_seed: Mapped[int] = mapped_column(BigInteger)
    planned: Mapped[int]
    state: Mapped[str]
    previous_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_study.id"))
    owner: Mapped[str | None]  # host hash:pid:process start, while a process drives it
    owned_at: Mapped[datetime]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class TrialRow(Base):
    """One implementation and config on one workload: built, checked and timed once.

    ``quick_median_us`` ranks; ``median_us``, ``low_us``, ``high_us`` (median and range of the
    process medians), ``bandwidth_gb_s`` and ``warnings`` exist once it is confirmed.
    """

    __tablename__ = "tuner_trial"
    __table_args__ = (
        UniqueConstraint(
            "study_id",
            "workload_id",
            "implementation_id",
            "config_key",
            "attempt",
            name="uq_tuner_trial_point",
        ),
        Index(None, "workload_id", "confirmed", "median_us"),
        Index(None, "config_key", "workload_id"),
        # With the id at its end: a page of a study's trials is read in order, without a sort.
        Index(None, "study_id", "outcome", "id"),
        Index(None, "study_id", "id"),
        CheckConstraint(one_of("outcome", Outcome), name="outcome_known"),
        CheckConstraint(one_of("stage", Stage), name="stage_known"),
        CheckConstraint(one_of("origin", ("measured", "imported")), name="origin_known"),
        CheckConstraint("attempt >= 0", name="attempt_not_negative"),
        CheckConstraint("(outcome IS NULL) = (finished_at IS NULL)", name="end_has_a_time"),
        # A kill leaves no trace of the stage; every other failure names it.
        CheckConstraint(
            "outcome IS NULL OR outcome = 'ok' OR (length(message) > 0 "
            "AND (outcome = 'interrupted' OR stage IS NOT NULL))",
            name="failure_has_a_reason",
        ),
        # NULLs spelled out: a CHECK passes where it is neither true nor false.
        CheckConstraint(
            "NOT confirmed OR (outcome IS NOT NULL AND outcome = 'ok' AND median_us IS NOT NULL "
            "AND low_us IS NOT NULL AND high_us IS NOT NULL "
            "AND low_us <= median_us AND median_us <= high_us)",
            name="confirmed_is_ok",
        ),
        CheckConstraint("confirmed OR median_us IS NULL", name="median_is_confirmed"),
        *positive("quick_median_us", "median_us", "low_us", "high_us", "bandwidth_gb_s"),
        *not_negative("build_s", "validate_s", "measure_s", "max_abs_error", "max_rel_error"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("tuner_study.id"))
    workload_id: Mapped[int] = mapped_column(ForeignKey("tuner_workload.id"))
    implementation_id: Mapped[int] = mapped_column(ForeignKey("tuner_implementation.id"))
    source_hash: Mapped[str] = mapped_column(ForeignKey("tuner_source.source_hash"))
    environment_id: Mapped[int] = mapped_column(ForeignKey("tuner_environment.id"))
    protocol_id: Mapped[int] = mapped_column(ForeignKey("tuner_protocol.id"))
    config: Mapped[str]  # canonical JSON object
    config_key: Mapped[str] = mapped_column(String(HASH_DIGITS))
    attempt: Mapped[int]
    origin: Mapped[str]
    reused_from_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_trial.id"))
    geometry: Mapped[str | None]  # JSON object
    outcome: Mapped[str | None]  # NULL while it runs
    stage: Mapped[str | None]
    message: Mapped[str]
    log: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    build_s: Mapped[float | None]
    validate_s: Mapped[float | None]
    measure_s: Mapped[float | None]
    binary_hash: Mapped[str | None] = mapped_column(String(HASH_DIGITS))
    compiler: Mapped[str | None]
    build_options: Mapped[str | None]  # JSON list
    build_cached: Mapped[bool | None] = mapped_column(
        Boolean(create_constraint=True, name="build_cached_is_bool")
    )
    registers: Mapped[int | None] = mapped_column(BigInteger)
    spills: Mapped[int | None] = mapped_column(BigInteger)
    spill_bytes: Mapped[int | None] = mapped_column(BigInteger)
    shared_bytes: Mapped[int | None] = mapped_column(BigInteger)
    code_bytes: Mapped[int | None] = mapped_column(BigInteger)
    bytes_moved: Mapped[int | None] = mapped_column(BigInteger)
    quick_median_us: Mapped[float | None]
    confirmed: Mapped[bool] = mapped_column(
        Boolean(create_constraint=True, name="confirmed_is_bool")
    )
    median_us: Mapped[float | None]
    low_us: Mapped[float | None]
    high_us: Mapped[float | None]
    bandwidth_gb_s: Mapped[float | None]
    max_abs_error: Mapped[float | None]
    max_rel_error: Mapped[float | None]
    warnings: Mapped[str]  # JSON list
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class ProcessRow(Base):
    """What one process gave for one trial. Its checksum covers its samples too."""

    __tablename__ = "tuner_process"
    __table_args__ = (
        UniqueConstraint("trial_id", "stage", "position"),
        CheckConstraint(one_of("stage", ("quick", "confirm")), name="stage_known"),
        CheckConstraint(one_of("outcome", Outcome), name="outcome_known"),
        CheckConstraint("position >= 0", name="position_not_negative"),
        CheckConstraint("outcome = 'ok' OR length(message) > 0", name="failure_has_a_reason"),
        CheckConstraint("outcome <> 'ok' OR median_us IS NOT NULL", name="ok_has_a_median"),
        CheckConstraint("launches_per_sample > 0", name="launches_per_sample_positive"),
        CheckConstraint("buffer_sets > 0", name="buffer_sets_positive"),
        *positive("median_us"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("tuner_trial.id"))
    stage: Mapped[str]
    position: Mapped[int]
    outcome: Mapped[str]
    message: Mapped[str]
    median_us: Mapped[float | None]
    launches_per_sample: Mapped[int | None] = mapped_column(BigInteger)
    buffer_sets: Mapped[int | None]
    submission: Mapped[str | None]
    clock_before_mhz: Mapped[float | None]
    clock_after_mhz: Mapped[float | None]
    memory_clock_before_mhz: Mapped[float | None]
    memory_clock_after_mhz: Mapped[float | None]
    temperature_before_c: Mapped[float | None]
    temperature_after_c: Mapped[float | None]
    power_before_w: Mapped[float | None]
    power_after_w: Mapped[float | None]
    recorded_at: Mapped[datetime]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class SampleRow(Base):
    """One timed value, raw: microseconds a launch."""

    __tablename__ = "tuner_sample"
    # Clustered by its key: half the size, and a process's samples lie together.
    __table_args__ = (*positive("time_us"), {"sqlite_with_rowid": False})

    process_id: Mapped[int] = mapped_column(ForeignKey("tuner_process.id"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    time_us: Mapped[float]


class ValidationRow(Base):
    """One comparison of a trial's whole output with the reference."""

    __tablename__ = "tuner_validation"
    __table_args__ = (
        Index(None, "trial_id"),
        Index(None, "process_id"),
        CheckConstraint(one_of("phase", ("before", "after")), name="phase_known"),
        CheckConstraint("mismatches >= 0", name="mismatches_not_negative"),
        *not_negative("max_abs_error", "max_rel_error"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("tuner_trial.id"))
    process_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_process.id"))
    phase: Mapped[str]
    input_case: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    passed: Mapped[bool] = mapped_column(Boolean(create_constraint=True, name="passed_is_bool"))
    max_abs_error: Mapped[float | None]
    max_rel_error: Mapped[float | None]
    mismatches: Mapped[int] = mapped_column(BigInteger)
    first_bad_index: Mapped[str | None]  # JSON list
    message: Mapped[str]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))
