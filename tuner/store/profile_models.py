"""Table of what vendors' profilers told of a trial's kernel. What they did not tell is NULL."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy import CheckConstraint
from sqlalchemy import ForeignKey
from sqlalchemy import Index
from sqlalchemy import String
from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped
from sqlalchemy.orm import mapped_column

from tuner.domain.profile import PROFILE_ORIGINS
from tuner.domain.profile import ProfilerName
from tuner.store.models import Base
from tuner.store.models import CHECKSUM_DIGITS
from tuner.store.models import HASH_DIGITS
from tuner.store.models import one_of
from tuner.store.models import positive

COUNTS = ("excluded_dispatches", "copy_dispatches", "fill_dispatches", "other_dispatches")
SIZES = (
    *("registers", "accumulation_registers", "scalar_registers"),
    *("shared_static_bytes", "shared_dynamic_bytes", "scratch_bytes"),
)
AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


class ProfileRow(Base):
    """The dispatches of one trial's kernel in one run of a profiler."""

    __tablename__ = "tuner_profile"
    __table_args__ = (
        UniqueConstraint("trial_id", "file_sha256"),
        Index(None, "trial_id"),
        CheckConstraint(one_of("origin", PROFILE_ORIGINS), name="origin_known"),
        CheckConstraint(one_of("profiler", ProfilerName), name="profiler_known"),
        CheckConstraint(
            "(origin = 'file') = (file_sha256 IS NOT NULL) "
            "AND (file_sha256 IS NULL) = (file_name IS NULL)",
            name="file_has_a_hash",
        ),
        CheckConstraint(
            "(origin = 'run') = (environment_id IS NOT NULL)", name="run_has_an_environment"
        ),
        CheckConstraint("(samples_us IS NULL) = (median_us IS NULL)", name="samples_have_a_median"),
        CheckConstraint(
            "dispatches > excluded_dispatches AND length(kernel_name) > 0", name="has_dispatches"
        ),
        *positive("median_us"),
        *(CheckConstraint(f"{name} >= 0", name=f"{name}_not_negative") for name in COUNTS + SIZES),
        *(CheckConstraint(f"{name} > 0", name=f"{name}_positive") for name in AXES),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("tuner_trial.id"))
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_environment.id"))
    origin: Mapped[str]
    file_name: Mapped[str | None]  # without its folder
    file_sha256: Mapped[str | None] = mapped_column(String(HASH_DIGITS))
    profiler: Mapped[str]
    profiler_version: Mapped[str | None]
    kernel_name: Mapped[str]  # as the profiler writes it
    dispatches: Mapped[int]  # of the kernel itself
    excluded_dispatches: Mapped[int]  # of them checks and warm-up, not in the samples
    copy_dispatches: Mapped[int | None]
    fill_dispatches: Mapped[int | None]
    other_dispatches: Mapped[int]
    samples_us: Mapped[str | None]  # JSON list: time of each dispatch
    median_us: Mapped[float | None]
    registers: Mapped[int | None] = mapped_column(BigInteger)
    accumulation_registers: Mapped[int | None] = mapped_column(BigInteger)
    scalar_registers: Mapped[int | None] = mapped_column(BigInteger)
    shared_static_bytes: Mapped[int | None] = mapped_column(BigInteger)
    shared_dynamic_bytes: Mapped[int | None] = mapped_column(BigInteger)
    scratch_bytes: Mapped[int | None] = mapped_column(BigInteger)
    grid_x: Mapped[int | None] = mapped_column(BigInteger)  # in blocks
    grid_y: Mapped[int | None] = mapped_column(BigInteger)
    grid_z: Mapped[int | None] = mapped_column(BigInteger)
    block_x: Mapped[int | None] = mapped_column(BigInteger)  # in threads
    block_y: Mapped[int | None] = mapped_column(BigInteger)
    block_z: Mapped[int | None] = mapped_column(BigInteger)
    extra: Mapped[str]  # JSON object: columns this table has no column for
    created_at: Mapped[datetime]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))
