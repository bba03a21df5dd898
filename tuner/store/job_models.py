"""Tables of the service: devices that jobs can run on, the queue of jobs, leases of studies."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy import ForeignKey
from sqlalchemy import Index
from sqlalchemy import String
from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped
from sqlalchemy.orm import mapped_column

from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish
from tuner.store.models import Base
from tuner.store.models import CHECKSUM_DIGITS
from tuner.store.models import one_of

HOST_DIGITS = 16


class DeviceRow(Base):
    """A device of a host that a process takes jobs for, or took them for until ``seen_at``."""

    __tablename__ = "tuner_device"
    __table_args__ = (UniqueConstraint("host", "device_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    host: Mapped[str] = mapped_column(String(HOST_DIGITS))  # hashed
    device_id: Mapped[str]
    name: Mapped[str]  # as the vendor shows it
    environment_id: Mapped[int] = mapped_column(ForeignKey("tuner_environment.id"))
    owner: Mapped[str | None]  # host hash:pid:process start, while a process takes its jobs
    seen_at: Mapped[datetime]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class JobRow(Base):
    """Something asked for that runs on a device: a study, or the rerun of a record."""

    __tablename__ = "tuner_job"
    __table_args__ = (
        UniqueConstraint("idempotency_key"),
        Index(None, "state", "device_id"),
        Index(None, "study_id"),
        CheckConstraint(one_of("kind", JobKind), name="kind_known"),
        CheckConstraint(one_of("state", JobState), name="state_known"),
        CheckConstraint(one_of("wish", JobWish), name="wish_known"),
        CheckConstraint("(state = 'running') = (owner IS NOT NULL)", name="runs_somewhere"),
        CheckConstraint(
            "(state IN ('finished', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
            name="end_has_a_time",
        ),
        CheckConstraint("state <> 'failed' OR length(message) > 0", name="failure_has_a_reason"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    request: Mapped[str]  # JSON object
    device_id: Mapped[str]
    state: Mapped[str]
    wish: Mapped[str]  # what the user wants of it; whoever runs it looks at this
    idempotency_key: Mapped[str | None]
    study_id: Mapped[int | None] = mapped_column(ForeignKey("tuner_study.id"))
    result: Mapped[str | None]  # JSON object
    message: Mapped[str]
    owner: Mapped[str | None]
    seen_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))


class LeaseRow(Base):
    """When the process that drives a study was last heard of. Apart from the study's row, which
    is written seldom and read often.
    """

    __tablename__ = "tuner_lease"
    __table_args__ = (UniqueConstraint("study_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("tuner_study.id"))
    owner: Mapped[str]
    seen_at: Mapped[datetime]
    checksum: Mapped[str] = mapped_column(String(CHECKSUM_DIGITS))
