"""Environments of the devices that processes take jobs for."""

from __future__ import annotations

from datetime import datetime
from datetime import UTC

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.environment import Environment
from tuner.store import rows
from tuner.store.job_models import DeviceRow
from tuner.store.models import EnvironmentRow
from tuner.store.owner import is_alive
from tuner.store.owner import parse_owner
from tuner.store.owner import this_process


def registered_environments(
    session: Session, device_id: str
) -> tuple[Environment | None, list[Environment]]:
    """Return the environment of a device of this host, and those of other hosts' devices.

    Of this host only where a living process takes its jobs: after a driver's exchange, an old
    row says what no longer is. For other hosts the last word is the best there is.
    """
    query = (
        select(
            DeviceRow.host,
            DeviceRow.owner,
            DeviceRow.seen_at,
            EnvironmentRow.identity,
            EnvironmentRow.context,
        )
        .join(EnvironmentRow, EnvironmentRow.id == DeviceRow.environment_id)
        .where(DeviceRow.device_id == device_id)
        .order_by(DeviceRow.host)
    )
    here: Environment | None = None
    elsewhere: list[Environment] = []
    own_host, now = this_process().host, datetime.now(UTC)
    for row in session.execute(query):
        environment = rows.read_environment(row.identity, row.context)
        if row.host != own_host:
            elsewhere.append(environment)
        elif row.owner and is_alive(parse_owner(row.owner), row.seen_at, now):
            here = environment
    return here, elsewhere
