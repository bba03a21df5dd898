"""Table of the controls of a study's runs: see ``tuner.domain.controls``."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy import CheckConstraint
from sqlalchemy import ForeignKey
from sqlalchemy import String
from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped
from sqlalchemy.orm import mapped_column

from tuner.domain.controls import ControlKind
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.store.models import Base
from tuner.store.models import CHECKSUM_DIGITS
from tuner.store.models import one_of
from tuner.store.models import positive


class ControlRow(Base):
    """One control of one round of a run, with its raw samples.

    The unique constraint's index is also what finds the runs of a study's workload, in order.
    """

    __tablename__ = "tuner_control"
    __table_args__ = (
        UniqueConstraint(
            "study_id",
            "workload_id",
            "run_started_at",
            "position",
            "kind",
            name="uq_tuner_control_round",
        ),
        CheckConstraint(one_of("kind", ControlKind), name="kind_known"),
        CheckConstraint(one_of("outcome", Outcome), name="outcome_known"),
        CheckConstraint(one_of("stage", Stage), name="stage_known"),
        CheckConstraint("position >= 0", name="position_not_negative"),
        CheckConstraint("(kind = 'sentinel') = (trial_id IS NOT NULL)", name="sentinel_is_a_trial"),
        CheckConstraint("(kind = 'copy') = (bytes_moved IS NOT NULL)", name="copy_has_a_size"),
        CheckConstraint("bytes_moved > 0", name="bytes_moved_positive"),
        CheckConstraint(
            "outcome = 'ok' OR (length(message) > 0 AND stage IS NOT NULL)",
            name="failure_has_a_reason",
        ),
        CheckConstraint("(outcome = 'ok') = (median_us IS NOT NULL)", name="ok_has_a_median"),
        CheckConstraint("(samples_us IS NULL) = (median_us IS NULL)", name="samples_have_a_median"),
        CheckConstraint("launches_per_sample > 0", name="launches_per_sample_positive"),
        CheckConstraint("buffer_sets > 0", name="buffer_sets_positive"),
        *positive("median_us"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("tuner_study.id"))
    workload_id: Mapped[int] = mapped_column(ForeignKey("tuner_workload.id"))
    trial_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_trial.id"))
    run_started_at: Mapped[datetime]
    position: Mapped[int]  # of the round in its run
    kind: Mapped[str]
    bytes_moved: Mapped[int | None] = mapped_column(BigInteger)
    outcome: Mapped[str]
    stage: Mapped[str | None]
    message: Mapped[str]
    log: Mapped[str]
    samples_us: Mapped[str | None]  # JSON list: microseconds a launch, in the order taken
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
