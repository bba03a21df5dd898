"""The device contract over every kind of device that is here, the fake's script, the registry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.metadata import EntryPoints
from pathlib import Path

import numpy as np
import pytest

from tuner.bench.devices import registry
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.registry import DeviceOptions
from tuner.domain.device import DeviceListing
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import DeviceFault
from tuner.errors import DeviceUnavailable
from tuner.errors import OutOfDeviceMemory
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.testing.device_contract import DeviceContract
from tuner.testing.device_contract import FAKE_KERNELS
from tuner.testing.fake_device import FakeDevice
from tuner.testing.fake_device import FakeScript


def _open_or_skip(device_id: str, cache_dir: Path | None, wave_size: int = 32) -> Device:
    try:
        return registry.open_device(
            device_id, DeviceOptions(cache_dir=cache_dir, cpu_wave_size=wave_size)
        )
    except TunerError as error:
        pytest.skip(f"{error.message} ({error.hint})")


@pytest.fixture(scope="session")
def code_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("code-cache")


class TestFakeDevice(DeviceContract):
    @pytest.fixture(params=[32, 64])
    def device(self, request: pytest.FixtureRequest) -> FakeDevice:
        return FakeDevice(FAKE_KERNELS, wave_size=request.param)


class TestCpuDevice(DeviceContract):
    @pytest.fixture(params=[32, 64])
    def device(self, request: pytest.FixtureRequest, code_cache: Path) -> Iterator[Device]:
        device = _open_or_skip("cpu", code_cache, request.param)
        yield device
        device.close()


@pytest.mark.gpu_nvidia
class TestNvidiaDevice(DeviceContract):
    @pytest.fixture
    def device(self, code_cache: Path) -> Iterator[Device]:
        device = _open_or_skip("cuda:0", code_cache)
        yield device
        device.close()


@pytest.mark.gpu_amd
class TestAmdDevice(DeviceContract):
    @pytest.fixture
    def device(self, code_cache: Path) -> Iterator[Device]:
        device = _open_or_skip("hip:0", code_cache)
        yield device
        device.close()


def _noop_launch(device: FakeDevice) -> Launch:
    code = device.compile_hip(HipSource({"k.hip": "noop()"}, "k.hip", "noop", {}))
    return Launch(device.load(code, 0), LaunchGeometry((1, 1, 1), 32), (), {})


def _fake(script: FakeScript) -> FakeDevice:
    return FakeDevice({"noop": lambda _call: None}, script)


def test_the_fake_timer_follows_its_script() -> None:
    device = _fake(FakeScript(timer_us=(3.0, 0.0, -1.0, math.nan)))
    prepared = device.prepare([_noop_launch(device)], "stream")
    values = [prepared.elapsed_us() for _ in range(5)]
    assert values[:3] == [3.0, 0.0, -1.0]
    assert math.isnan(values[3])
    assert values[4] == 3.0


def test_the_fake_noise_is_seeded() -> None:
    def samples() -> list[float]:
        device = _fake(FakeScript(launch_us=5.0, noise=0.03, seed=4))
        prepared = device.prepare([_noop_launch(device)] * 2, "auto")
        return [prepared.elapsed_us() for _ in range(200)]

    first = samples()
    assert first == samples()
    assert np.mean(first) == pytest.approx(10.0, rel=0.01)
    assert np.std(first) == pytest.approx(0.3, rel=0.2)


def test_a_fake_fault_is_sticky_and_cleaning_up_still_works() -> None:
    device = _fake(FakeScript(fault_at_launch=3))
    launch = _noop_launch(device)
    buffer = device.allocate(4)
    device.launch(launch)
    device.launch(launch)
    for _ in range(2):
        with pytest.raises(DeviceFault):
            device.launch(launch)
    with pytest.raises(DeviceFault):
        device.allocate(4)
    device.free(buffer)
    device.close()


def test_the_fake_runs_out_of_memory_and_recovers() -> None:
    device = _fake(FakeScript(memory_bytes=1000))
    first = device.allocate(600)
    with pytest.raises(OutOfDeviceMemory):
        device.allocate(600)
    device.free(first)
    assert device.allocate(600).size_bytes == 600


def test_the_fake_compiler_fails_by_script() -> None:
    device = _fake(FakeScript(compile_error="line 1: no"))
    with pytest.raises(BuildFailed) as failure:
        _noop_launch(device)
    assert failure.value.log == "line 1: no"


class _PluggedKind:
    """A third party's kind of device."""

    def open(self, index: int, _options: DeviceOptions) -> FakeDevice:
        if index:
            raise DeviceUnavailable("there is one only")
        return FakeDevice({})

    def listings(self, _options: DeviceOptions) -> list[DeviceListing]:
        return [registry.listing_of(FakeDevice({}).facts)]


PLUGGED = _PluggedKind()


@dataclass
class _Points:
    """Entry points as an installed package would declare them."""

    points: tuple[EntryPoint, ...]

    def __call__(self, *, group: str) -> EntryPoints:
        return EntryPoints(each for each in self.points if each.group == group)


def _declare(monkeypatch: pytest.MonkeyPatch, name: str, target: str) -> None:
    points = _Points((EntryPoint(name, target, "tuner.devices"),))
    monkeypatch.setattr(registry, "entry_points", points)


def test_a_device_kind_can_be_plugged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    _declare(monkeypatch, "fake", f"{__name__}:PLUGGED")
    options = DeviceOptions()
    assert registry.open_device("fake:0", options).facts.device_id == "fake:0"
    assert "fake:0" in [each.device_id for each in registry.list_devices(options) if each.usable]
    with pytest.raises(DeviceUnavailable):
        registry.open_device("fake:1", options)


def test_a_broken_plug_in_is_one_unusable_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _declare(monkeypatch, "ghost", "no_such_module:KIND")
    lines = {each.device_id: each for each in registry.list_devices(DeviceOptions())}
    assert not lines["ghost"].usable
    assert "no_such_module" in lines["ghost"].reason
    assert len(lines) > 1
    with pytest.raises(DeviceUnavailable, match="ghost"):
        registry.open_device("ghost:0", DeviceOptions())


@pytest.mark.parametrize("device_id", ["", "tpu:0", "cuda:", "cuda:-1", "cuda:x", "CPU", "cpu "])
def test_an_unknown_device_is_a_usage_error(device_id: str) -> None:
    with pytest.raises(UsageError, match="no device"):
        registry.open_device(device_id, DeviceOptions())


def test_every_unusable_kind_has_a_reason_and_a_remedy() -> None:
    lines = registry.list_devices(DeviceOptions())
    assert {each.device_id.partition(":")[0] for each in lines} >= {"hip", "cuda", "cpu"}
    for line in lines:
        assert line.usable or (line.reason and line.remedy), line


@pytest.mark.parametrize(
    ("usable", "chosen"),
    [
        (["cpu", "cuda:0", "hip:1", "hip:0"], "hip:1"),
        (["cpu", "fake:0", "cuda:0"], "cuda:0"),
        (["cpu", "fake:0"], "fake:0"),
        (["cpu"], "cpu"),
    ],
)
def test_auto_prefers_gpus(monkeypatch: pytest.MonkeyPatch, usable: list[str], chosen: str) -> None:
    lines = [DeviceListing("cuda:9", usable=False)]
    lines += [DeviceListing(device_id, usable=True) for device_id in usable]
    monkeypatch.setattr(registry, "list_devices", lambda _options: lines)
    assert registry.choose_auto(DeviceOptions()) == chosen


def test_auto_without_any_device_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "list_devices", lambda _options: [])
    with pytest.raises(DeviceUnavailable):
        registry.choose_auto(DeviceOptions())
