"""What a device name stands for: as registered, or as this machine says and is remembered."""

from __future__ import annotations

import traceback
from datetime import datetime
from datetime import UTC

import pytest

from tuner.api.known_devices import DeviceMemory
from tuner.api.known_devices import MAX_AGE_OF_A_FAILURE_S
from tuner.api.known_devices import MAX_AGE_S
from tuner.domain.environment import Environment
from tuner.errors import Conflict
from tuner.errors import DeviceUnavailable
from tuner.errors import UsageError
from tuner.settings import Settings
from tuner.store.known_devices import RegisteredDevice
from tuner.store.owner import Owner
from tuner.store.owner import this_process

SETTINGS = Settings(db="none.db")
HERE = this_process()
ELSEWHERE = Owner("elsewhere", 1, "then")
PROBED = Environment({"architecture": "probed"}, {})


class Machine:
    """Devices of this machine, and a clock."""

    def __init__(self, *device_ids: str) -> None:
        self.device_ids = device_ids
        self.asked: list[str] = []
        self.now_s = 0.0
        self.memory = DeviceMemory(self._probe, lambda: self.now_s)

    def _probe(self, device_id: str, _settings: Settings) -> Environment:
        self.asked.append(device_id)
        if device_id not in self.device_ids:
            raise DeviceUnavailable(f"no {device_id}", hint="buy one")
        return PROBED

    def find(self, device_id: str, *registered: RegisteredDevice) -> str:
        """Return the architecture of the environment that is found."""
        return self.memory.find(device_id, SETTINGS, registered).identity["architecture"]


def registered(
    device_id: str, architecture: str, owner: Owner | None = HERE, host: str = HERE.host
) -> RegisteredDevice:
    environment = Environment({"architecture": architecture}, {})
    name = None if owner is None else str(owner)
    return RegisteredDevice(device_id, host == HERE.host, environment, name, datetime.now(UTC))


def there(device_id: str, architecture: str) -> RegisteredDevice:
    return registered(device_id, architecture, ELSEWHERE, "elsewhere")


def test_auto_is_what_it_is_for_jobs() -> None:
    machine = Machine("auto", "cpu")
    own = registered("cpu", "registered")
    assert machine.find("auto", own) == "registered"
    gone = registered("hip:0", "gone", Owner(HERE.host, HERE.pid, "gone"))
    assert machine.find("auto", own, gone) == "registered"
    assert machine.find("auto", own, there("cuda:1", "sm_90"), gone) == "sm_90"
    assert machine.asked == ["cuda:1"]  # which is not here
    assert machine.find("auto") == "probed"
    assert machine.asked == ["cuda:1", "auto"]


def test_what_is_registered_is_not_remembered() -> None:
    machine = Machine("cpu")
    assert machine.find("cpu", registered("cpu", "before")) == "before"
    assert machine.find("cpu", registered("cpu", "after")) == "after"
    assert machine.asked == []
    # Nobody takes its jobs any more: what it says now counts.
    assert machine.find("cpu", registered("cpu", "after", None)) == "probed"
    assert machine.find("cpu", registered("cpu", "before")) == "before"


def test_what_was_probed_is_remembered_for_a_time() -> None:
    machine = Machine("cpu")
    for now_s, count in ((0.0, 1), (MAX_AGE_S - 1, 1), (MAX_AGE_S + 1, 2)):
        machine.now_s = now_s
        assert machine.find("cpu") == "probed"
        assert machine.asked == ["cpu"] * count


def test_a_failure_is_remembered_shortly_and_told_anew() -> None:
    machine = Machine()
    traces = []
    for _ in range(3):
        with pytest.raises(DeviceUnavailable, match="no hip:0") as caught:
            machine.find("hip:0")
        assert caught.value.hint == "buy one"
        traces.append(len(traceback.extract_tb(caught.value.__traceback__)))
    assert len(set(traces)) == 1
    assert machine.asked == ["hip:0"]
    machine.now_s = MAX_AGE_OF_A_FAILURE_S + 1
    machine.device_ids = ("hip:0",)
    assert machine.find("hip:0") == "probed"


def test_machines_that_differ_are_no_answer_and_not_asked_for_each_lookup() -> None:
    machine = Machine()
    both = [
        there("cuda:0", "sm_90"),
        registered("cuda:0", "sm_80", Owner("third", 1, "then"), "third"),
    ]
    for _ in range(3):
        with pytest.raises(Conflict, match="2 machines have a device cuda:0"):
            machine.find("cuda:0", *both)
    assert machine.asked == ["cuda:0"]
    assert machine.find("cuda:0", both[0]) == "sm_90"


@pytest.mark.parametrize("name", ["", "gpu", "cuda", "cuda:٣", "cuda:1\n", "cpu:0", "hip:12345"])
def test_only_names_of_devices_are_asked_about(name: str) -> None:
    machine = Machine()
    with pytest.raises(UsageError, match="is not understood"):
        machine.find(name)
    assert machine.asked == []


def test_recalling_a_device_asks_nothing() -> None:
    machine = Machine("cpu")
    assert machine.memory.recall("cpu", ()) is None
    assert machine.asked == []
    assert machine.memory.recall("cpu", (registered("cpu", "taken"),)) is not None
    machine.find("cpu")
    assert machine.memory.recall("cpu", ()) == PROBED
    machine.now_s += MAX_AGE_S
    assert machine.memory.recall("cpu", ()) is None
    assert machine.asked == ["cpu"]


def test_a_device_that_is_not_there_is_not_recalled() -> None:
    """What other machines say of it, or the error, is for the finder to tell."""
    machine = Machine()
    with pytest.raises(DeviceUnavailable):
        machine.find("cuda:0")
    assert machine.memory.recall("cuda:0", (there("cuda:0", "sm_90"),)) is None


def test_auto_is_recalled_as_what_it_is_for_jobs() -> None:
    machine = Machine()
    found = machine.memory.recall("auto", (registered("cpu", "x"), registered("cuda:0", "sm_90")))
    assert found is not None
    assert found.identity["architecture"] == "sm_90"
