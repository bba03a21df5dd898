"""Stores and reads profiles. A profile never changes its trial: profiler times rank nothing."""

from __future__ import annotations

import json
from datetime import datetime
from datetime import UTC
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import RowMapping
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.environment import Environment
from tuner.domain.identity import canonical_json
from tuner.domain.profile import KernelProfile
from tuner.domain.profile import KernelResources
from tuner.domain.profile import ProfilerName
from tuner.domain.profile import ProfileSource
from tuner.domain.profile import Size3
from tuner.domain.profile import StoredProfile
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import TrialRow
from tuner.store.problems import checked_integer
from tuner.store.profile_models import COUNTS
from tuner.store.profile_models import ProfileRow
from tuner.store.profile_models import SIZES
from tuner.store.rows import Values
from tuner.store.table import find_or_insert
from tuner.store.table import insert_row
from tuner.store.table import table_of


def add_profile(
    connection: Connection,
    trial_id: int,
    profile: KernelProfile,
    source: ProfileSource,
    environment: Environment | None,
) -> tuple[int, bool]:
    """Store a profile, or find that the same file is stored for the trial already.

    Args:
        connection: In a transaction.
        trial_id: Trial whose kernel was profiled.
        profile: What the profiler told.
        source: Where it is from.
        environment: Machine and toolchain of a run; None for a file.

    Returns:
        Its id, and whether it is new.
    """
    table = table_of(ProfileRow)
    if source.file_sha256 is not None:
        same = select(table.c.id).where(
            table.c.trial_id == trial_id, table.c.file_sha256 == source.file_sha256
        )
        known = connection.scalar(same)
        if known is not None:
            return known, False
    values = profile_values(profile) | {
        "trial_id": trial_id,
        "environment_id": _environment_id(connection, environment),
        "origin": source.origin,
        "file_name": _text(source.file_name),
        "file_sha256": source.file_sha256,
        "created_at": datetime.now(UTC),
    }
    return insert_row(connection, ProfileRow, values), True


def profiles_of(session: Session, trial_id: int) -> list[StoredProfile]:
    """Return the profiles of a trial, oldest first."""
    table = table_of(ProfileRow)
    query = _profile_query().where(table.c.trial_id == trial_id).order_by(table.c.id)
    return [_stored(row) for row in session.execute(query).mappings()]


def profiles_beside(
    session: Session, trial_id: int, profiler: ProfilerName
) -> dict[int, StoredProfile]:
    """Return the newest profile of each trial that can be compared with one, by trial.

    Trials of the same workload, measured in the same environment and profiled by the same
    profiler; the trial itself is among them.
    """
    table, trials = table_of(ProfileRow), table_of(TrialRow)
    environments = table_of(EnvironmentRow)
    asked = select(trials.c.workload_id, environments.c.key)
    asked = asked.join(environments, environments.c.id == trials.c.environment_id)
    found = session.execute(asked.where(trials.c.id == trial_id)).one()
    measured_in = environments.alias()
    query = (
        _profile_query()
        .join(trials, trials.c.id == table.c.trial_id)
        .join(measured_in, measured_in.c.id == trials.c.environment_id)
        .where(
            trials.c.workload_id == found[0],
            measured_in.c.key == found[1],
            table.c.profiler == profiler.value,
        )
        .order_by(table.c.id)
    )
    stored = [_stored(row) for row in session.execute(query).mappings()]
    return {each.trial_id: each for each in stored}  # a later one takes an earlier one's place


def profile_values(profile: KernelProfile) -> Values:
    """Return the columns that tell of a profile."""
    values: Values = {name: _size(name, getattr(profile, name)) for name in ("dispatches", *COUNTS)}
    values |= {name: _size(name, getattr(profile.resources, name)) for name in SIZES}
    for name, size in (("grid", profile.grid), ("block", profile.block)):
        for axis, value in zip("xyz", size or (None, None, None), strict=True):
            values[f"{name}_{axis}"] = _size(name, value)
    return values | {
        "profiler": profile.profiler.value,
        "profiler_version": _text(profile.profiler_version),
        "kernel_name": _text(profile.kernel_name),
        "samples_us": canonical_json(list(profile.samples_us)) if profile.samples_us else None,
        "median_us": profile.median_us,
        "extra": canonical_json(dict(profile.extra)),
    }


def read_profile(row: RowMapping) -> KernelProfile:
    """Return a profile from its row."""
    return KernelProfile(
        profiler=ProfilerName(row["profiler"]),
        profiler_version=row["profiler_version"],
        kernel_name=row["kernel_name"],
        dispatches=row["dispatches"],
        **{name: row[name] for name in COUNTS},
        samples_us=tuple(json.loads(row["samples_us"] or "[]")),
        grid=_size3(row, "grid"),
        block=_size3(row, "block"),
        resources=KernelResources(**{name: row[name] for name in SIZES}),
        extra=json.loads(row["extra"]),
    )


def _profile_query() -> Select[*tuple[Any, ...]]:
    table, environments = table_of(ProfileRow), table_of(EnvironmentRow)
    return select(table, environments.c.key.label("environment_key")).join(
        environments, environments.c.id == table.c.environment_id, isouter=True
    )


def _stored(row: RowMapping) -> StoredProfile:
    return StoredProfile(
        id=row["id"],
        trial_id=row["trial_id"],
        profile=read_profile(row),
        source=ProfileSource(row["origin"], row["file_name"], row["file_sha256"]),
        environment_key=row["environment_key"],
        created_at=row["created_at"],
    )


def _environment_id(connection: Connection, environment: Environment | None) -> int | None:
    if environment is None:
        return None
    values = rows.environment_values(environment)
    found: int = find_or_insert(connection, EnvironmentRow, ["fingerprint"], values)
    return found


def _size(name: str, value: int | None) -> int | None:
    return None if value is None else checked_integer(name, value)


def _size3(row: RowMapping, name: str) -> Size3 | None:
    if row[f"{name}_x"] is None:
        return None
    return (row[f"{name}_x"], row[f"{name}_y"], row[f"{name}_z"])


def _text(text: str | None) -> str | None:
    return None if text is None else rows.clean_text(text, rows.MESSAGE_LIMIT_BYTES)
