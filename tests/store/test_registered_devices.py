"""Which environment a device of another host stands for, once its process is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tuner.api.known_devices import DeviceMemory
from tuner.domain.environment import Environment
from tuner.errors import Conflict
from tuner.errors import DeviceUnavailable
from tuner.settings import load_settings
from tuner.settings import Settings
from tuner.store import Store
from tuner.store.job_devices import register_device
from tuner.store.job_devices import release_devices
from tuner.store.job_models import DeviceRow
from tuner.store.job_running import RUNNER_SILENCE
from tuner.store.known_devices import registered_devices
from tuner.store.leases import database_time
from tuner.store.owner import Owner
from tuner.store.table import update_row
from tuner.testing.store_values import make_environment

OLD, NEW, THIRD = (Owner(digit * 16, 1, "boot-1") for digit in "abc")


def register(store: Store, owner: Owner, driver: str) -> None:
    with store.transaction() as connection:
        register_device(connection, owner, "hip:0", "a GPU", make_environment(driver=driver))


def no_device(device_id: str, _settings: Settings) -> Environment:
    raise DeviceUnavailable(f"no {device_id} here")


def driver_found(store: Store) -> object:
    with store.session() as session:
        registered = registered_devices(session)
    return DeviceMemory(no_device).find("hip:0", load_settings(), registered).identity["driver"]


@pytest.mark.parametrize("how", ["released", "silent"])
def test_a_device_that_is_gone_stands_for_nothing_beside_one_that_lives(
    store: Store, how: str
) -> None:
    """A container that is made anew is another host: its old row stays."""
    register(store, OLD, "1.0")
    register(store, NEW, "2.0")
    with pytest.raises(Conflict, match="2 machines have a device hip:0"):
        driver_found(store)
    with store.transaction() as connection:
        if how == "released":
            release_devices(connection, OLD)
        else:
            seen_at = database_time(connection) - RUNNER_SILENCE
            update_row(connection, DeviceRow, 1, {"seen_at": seen_at})
    assert driver_found(store) == "2.0"


def test_where_none_lives_the_last_one_counts(store: Store) -> None:
    with store.transaction() as connection:
        now = database_time(connection)
    for row_id, owner, age_days in ((1, OLD, 2), (2, NEW, 1), (3, THIRD, 3)):
        register(store, owner, f"{row_id}.0")
        with store.transaction() as connection:
            release_devices(connection, owner)
            seen_at = now - timedelta(days=age_days)
            update_row(connection, DeviceRow, row_id, {"seen_at": seen_at})
    assert driver_found(store) == "2.0"
