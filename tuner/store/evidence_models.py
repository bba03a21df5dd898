"""Tables of imported evidence and of reproductions. They never mix with what was measured here.

What a source does not state is NULL, or absent from a JSON object. Figures are kept as texts, as
they were written, beside their values in microseconds.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy import ForeignKey
from sqlalchemy import Index
from sqlalchemy import Integer
from sqlalchemy import String
from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped
from sqlalchemy.orm import mapped_column

from tuner.domain.evidence import ORIGINAL_KINDS
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Timer
from tuner.domain.evidence import UNITS
from tuner.domain.evidence import VERDICTS
from tuner.domain.outcome import Outcome
from tuner.store.models import Base
from tuner.store.models import CHECKSUM_DIGITS
from tuner.store.models import HASH_DIGITS
from tuner.store.models import not_negative
from tuner.store.models import one_of
from tuner.store.models import positive

DATE_DIGITS = 10


class EvidenceFileRow(Base):
    """A file that was imported, once per content."""

    __tablename__ = "tuner_evidence_file"
    __table_args__ = (
        UniqueConstraint("sha256"),
        CheckConstraint("size_bytes >= 0", name="size_bytes_not_negative"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    sha256: Mapped[str] = mapped_column(String(HASH_DIGITS))
    name: Mapped[str]  # without its folder
    format: Mapped[str]
    size_bytes: Mapped[int]
    imported_at: Mapped[datetime]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class RecordRow(Base):
    """One result as a file states it."""

    __tablename__ = "tuner_record"
    __table_args__ = (
        UniqueConstraint("file_id", "line"),
        Index(None, "evidence"),
        CheckConstraint("line > 0", name="line_positive"),
        CheckConstraint("origin = 'imported'", name="origin_known"),
        CheckConstraint(one_of("outcome", Outcome), name="outcome_known"),
        CheckConstraint(one_of("unit", UNITS), name="unit_known"),
        CheckConstraint(one_of("timer", Timer), name="timer_known"),
        CheckConstraint(one_of("statistic", Statistic), name="statistic_known"),
        CheckConstraint("(outcome = 'ok') = (median_us IS NOT NULL)", name="ok_has_a_figure"),
        CheckConstraint("outcome = 'ok' OR length(message) > 0", name="failure_has_a_reason"),
        CheckConstraint(
            "(low_us IS NULL) = (high_us IS NULL) AND (low_us IS NULL OR low_us <= high_us)",
            name="range_is_a_range",
        ),
        CheckConstraint(
            "(samples_us IS NULL) = (sample_texts IS NULL)", name="samples_as_written_too"
        ),
        CheckConstraint(
            f"measured_on IS NULL OR length(measured_on) = {DATE_DIGITS}", name="measured_on_a_day"
        ),
        *positive("median_us", "low_us", "high_us"),
        *not_negative("max_abs_error", "max_rel_error"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    file_id: Mapped[int] = mapped_column(ForeignKey("tuner_evidence_file.id"))
    line: Mapped[int] = mapped_column(Integer)  # in a JSON file: number of the entry
    evidence: Mapped[str]  # name of the set
    origin: Mapped[str]
    operator: Mapped[str | None]
    implementation: Mapped[str | None]
    language: Mapped[str | None]
    runtime: Mapped[str | None]
    shape: Mapped[str | None]  # 1024x4096
    dtype: Mapped[str | None]
    scalars: Mapped[str]  # JSON object
    config: Mapped[str]  # JSON object, with the source's own names
    protocol: Mapped[str]  # JSON object, as stated
    environment: Mapped[str]  # JSON object, as stated
    outcome: Mapped[str]
    message: Mapped[str]
    timer: Mapped[str]
    statistic: Mapped[str]
    unit: Mapped[str]  # of the texts
    median_text: Mapped[str | None]
    low_text: Mapped[str | None]
    high_text: Mapped[str | None]
    sample_texts: Mapped[str | None]  # JSON list
    median_us: Mapped[float | None]
    low_us: Mapped[float | None]
    high_us: Mapped[float | None]
    samples_us: Mapped[str | None]  # JSON list
    max_abs_error: Mapped[float | None]
    max_rel_error: Mapped[float | None]
    measured_on: Mapped[str | None] = mapped_column(String(DATE_DIGITS))  # ISO 8601
    extra: Mapped[str]  # JSON object: fields this program has no column for
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class ReproductionRow(Base):
    """One comparison of a rerun with what was stored, whose row it leaves alone."""

    __tablename__ = "tuner_reproduction"
    __table_args__ = (
        Index(None, "original_kind", "original_id"),
        Index(None, "rerun_study_id"),
        CheckConstraint(one_of("original_kind", ORIGINAL_KINDS), name="original_kind_known"),
        CheckConstraint("length(original_id) > 0", name="original_has_an_id"),
        CheckConstraint(one_of("verdict", VERDICTS), name="verdict_known"),
        CheckConstraint(
            "verdict IN ('wrong', 'not_comparable') OR ratio IS NOT NULL",
            name="verdict_has_a_ratio",
        ),
        CheckConstraint(
            "(ratio_low IS NULL) = (ratio_high IS NULL) "
            "AND (ratio_low IS NULL OR ratio_low <= ratio_high)",
            name="interval_is_an_interval",
        ),
        *positive("ratio", "ratio_low", "ratio_high"),
        *not_negative("threshold"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    original_kind: Mapped[str]
    original_id: Mapped[str]  # row of a trial, record or study; name or SHA-256 of other things
    rerun_study_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_study.id"))
    rerun_trial_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_trial.id"))
    verdict: Mapped[str]
    ratio: Mapped[float | None]  # rerun over original: above 1 is slower
    ratio_low: Mapped[float | None]
    ratio_high: Mapped[float | None]
    threshold: Mapped[float | None]  # relative: 0.03 for 3 %
    differences: Mapped[str]  # JSON list
    created_at: Mapped[datetime]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))
