"""Devices that processes take jobs for, with their environments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.environment import Environment
from tuner.store import rows
from tuner.store.job_devices import is_taken
from tuner.store.job_models import DeviceRow
from tuner.store.models import EnvironmentRow
from tuner.store.owner import this_process


@dataclass(frozen=True, slots=True)
class RegisteredDevice:
    """A device of a host, as a process that takes its jobs registered it.

    Attributes:
        device_id: ``cpu``, ``cuda:N`` or ``hip:N``.
        is_here: Of this host.
        environment: Machine and toolchain, as of its registration.
        owner: The process; None once it has let go of the device.
        seen_at: When that was last heard of.
    """

    device_id: str
    is_here: bool
    environment: Environment
    owner: str | None
    seen_at: datetime

    def is_taken(self, now: datetime) -> bool:
        """Tell whether a living process takes the device's jobs."""
        return is_taken(self.owner, self.seen_at, now)


def registered_devices(session: Session) -> tuple[RegisteredDevice, ...]:
    """Return the devices of all hosts that some process has ever taken jobs for."""
    query = (
        select(
            DeviceRow.device_id,
            DeviceRow.host,
            DeviceRow.owner,
            DeviceRow.seen_at,
            EnvironmentRow.identity,
            EnvironmentRow.context,
        )
        .join(EnvironmentRow, EnvironmentRow.id == DeviceRow.environment_id)
        .order_by(DeviceRow.host, DeviceRow.device_id)
    )
    own_host = this_process().host
    return tuple(
        RegisteredDevice(
            device_id=row.device_id,
            is_here=row.host == own_host,
            environment=rows.read_environment(row.identity, row.context),
            owner=row.owner,
            seen_at=row.seen_at,
        )
        for row in session.execute(query)
    )
