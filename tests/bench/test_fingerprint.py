"""The environment of a measurement: which variables count, and what is never guessed."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from tuner.bench import fingerprint
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.fingerprint import environment_of
from tuner.domain.environment import differences
from tuner.domain.environment import MOMENTARY
from tuner.domain.environment import UNKNOWN_PREFIX
from tuner.testing.fake_device import FakeDevice


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice({})


@pytest.mark.parametrize(
    "name",
    [
        "HIP_FORCE_DEV_KERNARG",
        "CUDA_LAUNCH_BLOCKING",
        "TRITON_DISABLE_LINE_INFO",
        "TRITON_PTXAS_PATH",
        "HSA_ENABLE_SDMA",
        "ROCM_VERSION",
        "GPU_MAX_HW_QUEUES",
    ],
)
def test_a_variable_that_changes_code_or_timing_changes_the_identity(
    device: FakeDevice, name: str
) -> None:
    without, with_it = environment_of(device, {}), environment_of(device, {name: "1"})
    assert without.key != with_it.key
    assert f"env.{name}" in [each.name for each in differences(without, with_it)]


@pytest.mark.parametrize(
    "name",
    ["TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "CUDA_HOME", "ROCM_PATH", "HOME", "TRITON_INTERPRET"],
)
def test_a_variable_that_only_says_where_things_lie_does_not(device: FakeDevice, name: str) -> None:
    assert environment_of(device, {}).key == environment_of(device, {name: "/x"}).key


def test_the_choice_of_visible_devices_is_context(device: FakeDevice) -> None:
    shown = environment_of(device, {"CUDA_VISIBLE_DEVICES": "3"})
    assert shown.context["env.CUDA_VISIBLE_DEVICES"] == "3"
    assert shown.key == environment_of(device, {}).key


def test_device_and_host_are_merged(device: FakeDevice) -> None:
    environment = environment_of(device, {})
    assert environment.identity["driver"] == "fake 1"
    assert {"os", "kernel", "architecture"} <= set(environment.identity)
    assert {"name", "host_hash", "container", "python", "host_load_1min"} <= set(
        environment.context
    )
    fields = {**environment.identity, **environment.context}
    assert all(isinstance(value, str) and value for value in fields.values())


def test_two_readings_have_the_same_identity(device: FakeDevice) -> None:
    assert environment_of(device, {}).key == environment_of(device, {}).key


def test_on_an_unchanged_machine_only_momentary_context_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []
    for load in (0.25, 7.5):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        monkeypatch.setattr("psutil.getloadavg", lambda load=load: (load, load, load))
        readings.append(environment_of(CpuDevice(cache_dir=tmp_path), {}))
    first, second = readings

    changed = {each.name for each in differences(first, second)}
    assert changed == {"host_load_1min", "load_average"}
    assert first.steady_context == second.steady_context
    assert set(first.context) - set(first.steady_context) == changed
    assert changed < MOMENTARY


def test_the_host_name_is_not_stored(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "secret-lab-machine")
    environment = environment_of(device, {})
    assert "secret-lab-machine" not in str(environment)


def test_triton_counts_only_where_it_is_usable(device: FakeDevice) -> None:
    assert "triton" not in environment_of(device, {}).identity
    device.facts.languages["triton"] = ""
    assert "triton" in environment_of(device, {}).identity


def test_tritons_compiler_is_identified_without_importing_it() -> None:
    pytest.importorskip("importlib.metadata")
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        pytest.skip("triton is not installed")
    imported_before = "triton" in sys.modules
    found = fingerprint.triton_identity()
    assert found["triton"] == version
    assert "sha256" in found["triton_llvm"] or found["triton_llvm"].startswith(UNKNOWN_PREFIX)
    assert ("triton" in sys.modules) == imported_before


def test_an_absent_triton_is_unknown_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(fingerprint.metadata, "distribution", absent)
    found = fingerprint.triton_identity()
    assert all(value.startswith(UNKNOWN_PREFIX) for value in found.values())


def test_an_unreadable_os_release_is_unknown(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> None:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr("platform.freedesktop_os_release", unreadable)
    first, second = environment_of(device, {}), environment_of(device, {})
    assert first.identity["os"].startswith(UNKNOWN_PREFIX)
    assert "os" in [each.name for each in differences(first, second)]
