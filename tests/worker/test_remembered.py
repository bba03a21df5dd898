"""What is remembered of a device, and what makes it be asked again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.settings import Settings
from tuner.worker import remembered
from tuner.worker.pool import DeviceWorker
from tuner.worker.remembered import recall

NVIDIA = "Kernel Module 580.1\n"


@pytest.fixture(autouse=True)
def _one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let setting up and testing be one shell to the code."""
    passing = (*remembered._PASSING, "PYTEST_CURRENT_TEST")
    monkeypatch.setattr(remembered, "_PASSING", passing)


@pytest.fixture
def settings(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    """Settings with a cache of the test's own, in which the CPU has been opened."""
    own = make_settings(cache_dir=tmp_path / "cache")
    with DeviceWorker("cpu", own):
        return own


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The /proc, /sys and /dev of another machine."""
    for name in ("proc", "sys", "dev"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(remembered, f"_{name.upper()}", tmp_path / name)
    write(tmp_path, "proc/driver/nvidia/version", NVIDIA)
    write(tmp_path, "proc/driver/nvidia/gpus/0000:19:00.0/information", "Model: H200\n")
    write(tmp_path, "sys/bus/pci/devices/0000:19:00.0/device", "0x2335\n")
    write(tmp_path, "proc/1/maps", f"7f00-7f01 r-xp 0 08:01 5 {write(tmp_path, 'libnvrtc', '1')}\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def files(settings: Settings) -> Iterator[Path]:
    return (settings.cache_dir / "devices").glob("*.json")


def test_what_a_worker_said_is_recalled(settings: Settings) -> None:
    said = recall("cpu", settings)
    assert said is not None
    with DeviceWorker("cpu", settings) as worker:
        assert said.facts == worker.facts
        assert said.environment.key == worker.environment.key


def test_the_cpu_is_not_what_auto_means_for_ever(
    make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    own = make_settings(cache_dir=tmp_path / "other")
    with DeviceWorker("auto", own) as worker:
        kind = worker.facts.kind
    assert recall(kind if kind == "cpu" else f"{kind}:0", own) is not None
    assert (recall("auto", own) is None) == (kind == "cpu")


@pytest.mark.parametrize(
    "variable", ["CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "TRITON_DEFAULT_FP_FUSION", "PATH"]
)
def test_another_environment_is_asked_again(
    settings: Settings, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setenv(variable, f"{os.environ.get(variable, '')}:/other")
        assert recall("cpu", settings) is None
    assert recall("cpu", settings) is not None


def test_another_shell_is_not(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHLVL", "OLDPWD", "SSH_CONNECTION"):
        monkeypatch.setenv(name, "something else")
    assert recall("cpu", settings) is not None


def test_another_setting_is_asked_again(settings: Settings) -> None:
    assert recall("cpu", settings.model_copy(update={"cpu_wave_size": 64})) is None


def test_an_exchanged_file_is_asked_again(settings: Settings) -> None:
    (path,) = files(settings)
    kept = json.loads(path.read_text())
    library = next(each for each in kept["files"] if "libpython" in each or "python" in each)
    kept["files"][library][0] += 1
    path.write_text(json.dumps(kept))
    assert recall("cpu", settings) is None


def test_what_is_old_is_asked_again(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = time.time()
    for age_s, known in [(60.0, True), (remembered.MAX_AGE_S, False), (-60.0, False)]:
        monkeypatch.setattr(time, "time", lambda age_s=age_s: now_s + age_s)
        assert (recall("cpu", settings) is not None) == known


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"said": 1, "at_s": "now"}'])
def test_a_damaged_file_is_nothing(settings: Settings, text: str) -> None:
    (path,) = files(settings)
    path.write_text(text)
    assert recall("cpu", settings) is None


def remember_gpu(settings: Settings, kind: str = "cuda") -> None:
    """Remember a GPU on the machine that the test has laid out."""
    said = remembered.messages.decode(
        json.loads(next(files(settings)).read_text())["said"].encode()
    )
    gpu = replace(said, facts=replace(said.facts, device_id="cuda:0", kind=kind))
    remembered.remember("auto", settings, gpu, 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("proc/driver/nvidia/version", "Kernel Module 590.1\n"),
        ("proc/sys/kernel/random/boot_id", "another\n"),
        ("proc/driver/nvidia/gpus/0000:20:00.0/information", "Model: H200\n"),
        ("proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access", ""),
        ("sys/bus/pci/devices/0000:19:00.0/device", "0x2330\n"),
        ("sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 256\n"),
        ("dev/nvidia1", ""),
        ("libnvrtc", "2"),
    ],
)
def test_a_changed_machine_is_asked_again(
    settings: Settings, machine: Path, name: str, text: str
) -> None:
    remember_gpu(settings)
    assert recall("cuda:0", settings) is not None
    assert recall("auto", settings) is not None
    time.sleep(0.02)  # the file system's clock has steps
    write(machine, name, text)
    assert recall("cuda:0", settings) is None
    assert recall("auto", settings) is None


@pytest.mark.parametrize(("library", "known"), [("libnvrtc.so", False), ("libcuda.so.580", True)])
def test_a_gpu_is_remembered_only_where_a_change_of_its_driver_shows(
    settings: Settings, machine: Path, library: str, known: bool
) -> None:
    (machine / "proc/driver/nvidia/version").unlink()
    path = write(machine, library, "1")
    write(machine, "proc/1/maps", f"7f00-7f01 r-xp 0 08:01 5 {path}\n")
    remember_gpu(settings)
    assert (recall("cuda:0", settings) is not None) == known


def test_data_that_a_worker_has_mapped_may_change(settings: Settings, machine: Path) -> None:
    path = write(machine, "cache-index", "1")
    maps = (machine / "proc/1/maps").read_text()
    write(machine, "proc/1/maps", f"{maps}7f02-7f03 rw-s 0 08:01 6 {path}\n")
    remember_gpu(settings)
    path.unlink()
    assert recall("cuda:0", settings) is not None


def test_a_device_of_a_plug_in_is_not_remembered(settings: Settings, machine: Path) -> None:
    remember_gpu(settings, "other")
    assert recall("cuda:0", settings) is None


def test_where_nothing_can_be_written_nothing_is_remembered(
    make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    own = make_settings(cache_dir=write(tmp_path, "file", ""))
    with DeviceWorker("cpu", own) as worker:
        assert worker.facts.device_id == "cpu"
    assert recall("cpu", own) is None
