"""Devices that processes take jobs for, on all hosts that share the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.environment import Environment
from tuner.errors import EnvironmentProblem
from tuner.store import rows
from tuner.store.job_models import DeviceRow
from tuner.store.job_running import is_gone
from tuner.store.job_running import running_by_device
from tuner.store.leases import database_time
from tuner.store.models import EnvironmentRow
from tuner.store.owner import Owner
from tuner.store.owner import parse_owner
from tuner.store.table import find_or_insert
from tuner.store.table import table_of
from tuner.store.table import update_row

_DEVICE = table_of(DeviceRow)
_ENVIRONMENT = table_of(EnvironmentRow)


@dataclass(frozen=True, slots=True)
class StoredDevice:
    """A device of a host.

    Attributes:
        host: Hash of the host.
        device_id: ``cpu``, ``cuda:N`` or ``hip:N``.
        architecture: Such as ``gfx1201``.
        name: As the vendor shows it.
        environment_key: Identity of machine and toolchain, as of its registration.
        state: ``idle``, ``busy``, or ``gone`` where no process takes its jobs.
        job_id: The job that runs on it.
        seen_at: When the process that takes its jobs was last heard of.
    """

    host: str
    device_id: str
    architecture: str
    name: str
    environment_key: str
    state: str
    job_id: int | None
    seen_at: datetime


def register_device(
    connection: Connection,
    owner: Owner,
    device_id: str,
    name: str,
    environment: Environment,
) -> None:
    """Have a process take the jobs of a device of its host.

    Raises:
        EnvironmentProblem: A living process takes them already.
    """
    now = database_time(connection)
    changes = {
        "name": rows.clean_text(name, rows.MESSAGE_LIMIT_BYTES),
        "environment_id": _environment_id(connection, environment),
        "owner": str(owner),
        "seen_at": now,
    }
    place = {"host": owner.host, "device_id": device_id}
    row_id = find_or_insert(connection, DeviceRow, list(place), {**place, **changes})
    locked = select(_DEVICE).where(_DEVICE.c.id == row_id).with_for_update()
    row = connection.execute(locked).mappings().one()
    holder = parse_owner(row["owner"] or "")
    if row["owner"] and holder != owner and not is_gone(holder, row["seen_at"], now):
        raise EnvironmentProblem(
            f"process {holder.pid} takes the jobs of {device_id} on this host already",
            hint="leave it to that one, or end it first",
        )
    update_row(connection, DeviceRow, row_id, changes, dict(row))


def _environment_id(connection: Connection, environment: Environment) -> int:
    """Return the row of a device's environment.

    To take jobs is to measure nothing yet, so that the load of this moment makes no row: one that
    differs in nothing else is as good. A study has a row of its own, with the load at its start.
    """
    of_key = select(_ENVIRONMENT).where(_ENVIRONMENT.c.key == environment.key)
    for row in connection.execute(of_key.order_by(_ENVIRONMENT.c.id.desc())):
        stored = rows.read_environment(row.identity, row.context)
        if stored.steady_context == environment.steady_context:
            return int(row.id)
    values = rows.environment_values(environment)
    inserted: int = find_or_insert(connection, EnvironmentRow, ["fingerprint"], values)
    return inserted


def beat_devices(connection: Connection, owner: Owner) -> None:
    """Tell that the process that takes these devices' jobs lives."""
    _change_owned(connection, owner, {"seen_at": database_time(connection)})


def release_devices(connection: Connection, owner: Owner) -> None:
    """Take no more jobs for the devices of a process."""
    _change_owned(connection, owner, {"owner": None, "seen_at": database_time(connection)})


def list_devices(session: Session) -> list[StoredDevice]:
    """Return all devices that a process takes jobs for or took them for, by host and id."""
    query = (
        select(DeviceRow, EnvironmentRow)
        .join(EnvironmentRow, EnvironmentRow.id == DeviceRow.environment_id)
        .order_by(DeviceRow.host, DeviceRow.device_id)
    )
    running = running_by_device(session)
    now = database_time(session.connection())
    return [
        _stored(device, environment, running.get((device.host, device.device_id)), now)
        for device, environment in session.execute(query)
    ]


def is_taken(owner: str | None, seen_at: datetime, now: datetime) -> bool:
    """Tell whether a living process takes the jobs of a device whose row names this owner."""
    return owner is not None and not is_gone(parse_owner(owner), seen_at, now)


def _stored(
    device: DeviceRow, environment: EnvironmentRow, job_id: int | None, now: datetime
) -> StoredDevice:
    taken = is_taken(device.owner, device.seen_at, now)
    state = "gone" if not taken else "idle" if job_id is None else "busy"
    return StoredDevice(
        host=device.host,
        device_id=device.device_id,
        architecture=environment.architecture,
        name=device.name,
        environment_key=environment.key,
        state=state,
        job_id=job_id,
        seen_at=device.seen_at,
    )


def _change_owned(connection: Connection, owner: Owner, changes: rows.Values) -> None:
    query = select(_DEVICE).where(_DEVICE.c.owner == str(owner)).order_by(_DEVICE.c.id)
    for row in connection.execute(query.with_for_update()).mappings().all():
        update_row(connection, DeviceRow, row["id"], changes, dict(row))
