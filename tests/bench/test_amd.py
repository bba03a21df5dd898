"""AMD's device over a recording stand-in of hip-python, and a real ROCm runtime without a GPU."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vendor_standins
from vendor_standins import KERNEL_US

from tuner.bench.devices import amd
from tuner.bench.devices.amd import AmdDevice
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import TritonTarget
from tuner.bench.devices.telemetry import amd_last_level_cache_bytes
from tuner.bench.devices.telemetry import AmdSysfsReader
from tuner.domain.environment import UNKNOWN_PREFIX
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import DeviceFault
from tuner.errors import DeviceUnavailable
from tuner.errors import LaunchFailed
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources
from tuner.testing.device_contract import BLOCK_SUM
from tuner.testing.device_contract import DeviceContract
from tuner.testing.device_contract import SCALE
from tuner.testing.device_contract import SHIFT_H

enums = pytest.importorskip("hip", reason="hip-python is not installed").hip
ROOT = Path(__file__).parents[2]


@pytest.fixture
def machine() -> vendor_standins.Machine:
    return vendor_standins.Machine(enums.hipError_t.hipSuccess, enums.hipError_t.hipErrorNotFound)


@pytest.fixture
def compiler() -> vendor_standins.Compiler:
    return vendor_standins.Compiler("hiprtc", "Code", 0, 6)


@pytest.fixture
def device(machine: vendor_standins.Machine, compiler: vendor_standins.Compiler) -> AmdDevice:
    return AmdDevice(0, hip=vendor_standins.hip(machine, enums), hiprtc=compiler)


class TestAmdContract(DeviceContract):
    """The whole contract, over the stand-in: the shared logic and the packing of arguments."""

    @pytest.fixture
    def device(self, machine: Any, compiler: Any, monkeypatch: pytest.MonkeyPatch) -> AmdDevice:
        monkeypatch.setattr(amd, "_MIN_FLUSH_BYTES", 1 << 20)  # host memory stands in for it
        return AmdDevice(0, hip=vendor_standins.hip(machine, enums), hiprtc=compiler)

    def test_a_missing_entry_is_a_build_error(self, device: AmdDevice, machine: Any) -> None:
        source = HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "block_sum", {})
        machine.fail["hipModuleGetFunction"] = machine.not_found
        with pytest.raises(BuildFailed, match="no kernel 'block_sum'"):
            device.load(device.compile_hip(source), 0)


def _noop_launch(device: AmdDevice, grid: int = 1, threads: int = 32) -> Launch:
    source = HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "block_sum", {})
    kernel = device.load(device.compile_hip(source), 0)
    buffers = {"out": device.allocate(4096), "in": device.allocate(4096)}
    arguments = (KernelArgument("out", "buffer"), KernelArgument("in", "buffer"))
    return Launch(kernel, LaunchGeometry((grid, 1, 1), threads), arguments, buffers)


def test_facts_take_the_architecture_from_the_target(device: AmdDevice) -> None:
    assert device.facts.architecture == "gfx1201"
    assert device.facts.name == "Stand-in Radeon"
    assert device.facts.wave_size == 32
    assert device.facts.max_grid_threads == 2**32 - 1
    assert device.triton_target == TritonTarget("hip", "gfx1201", 32)


def test_identity_records_both_counts_of_compute_units(device: AmdDevice) -> None:
    identity = device.identity()
    assert identity["compute_units"] == "32"
    assert identity["physical_compute_units"] == "64"
    assert identity["target_features"] == "xnack-"
    assert identity["runtime"] == "hip 60443484"
    assert "60443484" in identity["compiler"]


def test_the_compiler_gets_the_whole_target_and_the_headers(
    device: AmdDevice, compiler: vendor_standins.Compiler
) -> None:
    files = {"a/k.hip": '#include "reduce.hpp"', "a/reduce.hpp": "// reduce"}
    device.compile_hip(HipSource(files, "a/k.hip", "k", {"BLOCK": 256}, ("-O2",)))
    (program,) = compiler.programs
    assert program.options[0] == "--offload-arch=gfx1201:xnack-"
    assert {"-O2", "-DBLOCK=256"} <= set(program.options)
    assert program.headers[b"reduce.hpp"] == b"// reduce"


def test_a_compile_error_keeps_the_whole_log(device: AmdDevice) -> None:
    source = HipSource({"k.hip": "#error one\n#error two"}, "k.hip", "k", {})
    with pytest.raises(BuildFailed, match=r"k\.hip: #error one") as failure:
        device.compile_hip(source)
    assert failure.value.log == "#error one\n#error two\n1 error"


def test_only_the_launches_lie_between_the_events(
    device: AmdDevice, machine: vendor_standins.Machine
) -> None:
    prepared = device.prepare([_noop_launch(device)] * 3, "auto")
    assert prepared.submission == "stream"
    machine.calls.clear()
    assert prepared.elapsed_us() == pytest.approx(3 * KERNEL_US)
    assert machine.calls == [
        "hipEventRecord",
        *["hipModuleLaunchKernel"] * 3,
        "hipEventRecord",
        "hipEventSynchronize",
        "hipEventElapsedTime",
    ]


def test_a_graph_is_used_where_it_is_demanded(
    device: AmdDevice, machine: vendor_standins.Machine
) -> None:
    prepared = device.prepare([_noop_launch(device)] * 3, "graph")
    machine.calls.clear()
    assert prepared.elapsed_us() == pytest.approx(3 * KERNEL_US)
    assert machine.calls[:3] == ["hipEventRecord", "hipGraphLaunch", "hipEventRecord"]


def test_a_runtime_without_graphs_refuses_one(
    device: AmdDevice, machine: vendor_standins.Machine
) -> None:
    launch = _noop_launch(device)
    machine.fail["hipStreamBeginCapture"] = enums.hipError_t.hipErrorNotSupported
    with pytest.raises(LaunchFailed, match="hipErrorNotSupported"):
        device.prepare([launch] * 2, "graph")
    device.launch(launch)


def test_a_grid_of_2_to_the_32_threads_is_refused_before_the_launch(
    device: AmdDevice, machine: vendor_standins.Machine
) -> None:
    launch = _noop_launch(device, grid=2**23, threads=512)
    with pytest.raises(LaunchFailed, match=r"grid\.x \* block\.x is 4294967296"):
        device.launch(launch)
    assert "hipModuleLaunchKernel" not in machine.calls


@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [
        ("hipModuleLaunchKernel", "hipErrorInvalidValue", LaunchFailed),
        ("hipModuleLaunchKernel", "hipErrorLaunchOutOfResources", OutOfResources),
        ("hipStreamSynchronize", "hipErrorIllegalAddress", DeviceFault),
        ("hipStreamSynchronize", "hipErrorLaunchFailure", DeviceFault),
        ("hipStreamSynchronize", "hipErrorAssert", DeviceFault),
        ("hipStreamSynchronize", "hipErrorLaunchTimeOut", DeviceFault),
    ],
)
def test_statuses_become_trial_errors(
    device: AmdDevice, machine: vendor_standins.Machine, call: str, status: str, kind: type
) -> None:
    launch = _noop_launch(device)
    machine.fail[call] = getattr(enums.hipError_t, status)
    with pytest.raises(kind, match=f"{call}: {status}: text of {status}"):
        device.launch(launch)
    if kind is DeviceFault:
        with pytest.raises(DeviceFault, match="earlier"):
            device.launch(launch)


def test_out_of_memory(device: AmdDevice, machine: vendor_standins.Machine) -> None:
    machine.fail["hipMalloc"] = enums.hipError_t.hipErrorOutOfMemory
    with pytest.raises(OutOfDeviceMemory):
        device.allocate(1024)
    device.free(device.allocate(1024))


def test_a_negative_time_is_handed_on(
    machine: vendor_standins.Machine,
    compiler: vendor_standins.Compiler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller must see it: clamped to zero, a config would look infinitely fast."""
    monkeypatch.setattr(machine, "elapsed_ms", lambda *_: -0.00178)
    device = AmdDevice(0, hip=vendor_standins.hip(machine, enums), hiprtc=compiler)
    prepared = device.prepare([_noop_launch(device)], "stream")
    assert prepared.elapsed_us() == pytest.approx(-1.78)


def test_the_flush_covers_the_infinity_cache_where_it_is_not_told(
    machine: vendor_standins.Machine,
    compiler: vendor_standins.Compiler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(machine, "allocate", lambda size: sizes.append(size) or 4096)
    monkeypatch.setattr(machine, "fill", lambda *_: None)
    device = AmdDevice(0, hip=vendor_standins.hip(machine, enums), hiprtc=compiler)
    device.flush_cache()
    assert sizes == [512 << 20]


def test_an_index_out_of_range_is_unavailable(machine: vendor_standins.Machine) -> None:
    hip = vendor_standins.hip(machine, enums)
    with pytest.raises(DeviceUnavailable, match="hip:1 does not exist"):
        AmdDevice(1, hip=hip, hiprtc=vendor_standins.Compiler("hiprtc", "Code", 0, 6))


def test_a_runtime_that_lacks_a_function_is_unavailable(machine: vendor_standins.Machine) -> None:
    def missing(_index: int) -> None:
        raise RuntimeError("undefined symbol: hipGetDevicePropertiesR0600")

    hip = vendor_standins.hip(machine, enums)
    hip.hipGetDeviceProperties = missing
    with pytest.raises(DeviceUnavailable, match="R0600") as failure:
        AmdDevice(0, hip=hip, hiprtc=vendor_standins.Compiler("hiprtc", "Code", 0, 6))
    assert "matches ROCm" in failure.value.hint


def test_old_releases_fill_properties_that_are_handed_in(
    machine: vendor_standins.Machine, compiler: vendor_standins.Compiler
) -> None:
    hip = vendor_standins.hip(machine, enums)
    _, given = hip.hipGetDeviceProperties(0)

    def fill(properties: Any, _index: int) -> tuple[Any]:
        properties.name, properties.gcnArchName = given.name, given.gcnArchName
        return (machine.ok,)

    hip.hipGetDeviceProperties = fill
    hip.hipDeviceProp_t = type("Properties", (), {})
    assert AmdDevice(0, hip=hip, hiprtc=compiler).facts.architecture == "gfx1201"


def test_readings_come_from_the_kernel_driver(tmp_path: Path) -> None:
    reader = AmdSysfsReader("0000:03:00.0", tmp_path)
    assert reader.telemetry().clock_mhz is None
    assert reader.context()["vbios"].startswith(UNKNOWN_PREFIX)
    monitor = tmp_path / "0000:03:00.0" / "hwmon" / "hwmon3"
    monitor.mkdir(parents=True)
    for name, text in {
        "freq1_input": "2970000000",
        "freq2_input": "1258000000",
        "temp1_input": "47000",
        "power1_average": "31000000",
        "power1_cap": "304000000",
    }.items():
        (monitor / name).write_text(text + "\n")
    (monitor.parents[1] / "vbios_version").write_text("113-APM6893\n")
    reading = reader.telemetry()
    assert reading.clock_mhz == pytest.approx(2970)
    assert reading.memory_clock_mhz == pytest.approx(1258)
    assert reading.temperature_c == pytest.approx(47)
    assert reading.power_w == pytest.approx(31)
    assert reader.context()["vbios"] == "113-APM6893"
    assert reader.context()["power_limit_w"] == "304.0"


def test_the_last_level_cache_comes_from_the_kernel_topology(tmp_path: Path) -> None:
    node = tmp_path / "1"
    for index, (level, kib) in enumerate([(1, 32), (2, 8192), (3, 65536)]):
        cache = node / "caches" / str(index)
        cache.mkdir(parents=True)
        (cache / "properties").write_text(f"level {level}\nsize {kib}\n")
    (node / "properties").write_text(f"simd_count 128\nlocation_id {3 << 8}\ndomain 0\n")
    assert amd_last_level_cache_bytes("0000:03:00.0", tmp_path) == 64 << 20
    assert amd_last_level_cache_bytes("0000:04:00.0", tmp_path) == 0


def _rocm_library() -> str | None:
    name = ctypes.util.find_library("amdhip64")
    for folder in ("/usr/lib/x86_64-linux-gnu", "/opt/rocm/lib", "/usr/lib64"):
        found = sorted(Path(folder).glob("libamdhip64.so*"))
        if found:
            return str(found[0])
    return name


class TestRealRocm:
    """A real ROCm runtime with no GPU, in a process of its own: it may abort.

    Debian's libamdhip64 holds hiprtc's functions, which hip-python looks for in libhiprtc.so; and
    its name without a version is in another package.
    """

    @pytest.fixture
    def run(self, tmp_path: Path) -> Any:
        library = _rocm_library()
        if library is None:
            pytest.skip("libamdhip64 is not installed")
        for name in ("libhiprtc.so", "libamdhip64.so"):
            (tmp_path / name).symlink_to(library)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}

        def run_code(code: str) -> str:
            command = [sys.executable, "-c", code]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=100, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run_code

    def test_enumeration_says_why_there_is_no_device(self, run: Any) -> None:
        if Path("/dev/kfd").exists():
            pytest.skip("there may be an AMD GPU here")
        told = run(
            "from tuner.bench.devices.registry import *\n"
            "line = [e for e in list_devices(DeviceOptions()) if e.device_id == 'hip'][0]\n"
            "print(line.usable, line.reason, '|', line.remedy)"
        )
        assert told.startswith("False")
        assert "hipErrorNoDevice" in told
        assert "/dev/kfd" in told

    def test_hiprtc_compiles_and_reports_errors(self, run: Any) -> None:
        told = run(
            "from tuner.bench.devices.amd import compile_hip_for\n"
            "from tuner.bench.devices.base import HipSource\n"
            "from tuner.errors import BuildFailed\n"
            "from tuner.testing.device_contract import SCALE, SHIFT_H, BLOCK_SUM\n"
            "files = {'a/scale.hip': SCALE, 'a/shift.h': SHIFT_H}\n"
            "code = compile_hip_for(HipSource(files, 'a/scale.hip', 'scale', {'SHIFT': 2}),"
            " 'gfx1030')\n"
            "print(code.content[:4], code.compiler)\n"
            "code = compile_hip_for(HipSource({'s': BLOCK_SUM}, 's', 's', {}), 'gfx1030')\n"
            "try: compile_hip_for(HipSource({'k': 'int x = no_such_name;'}, 'k', 'k', {}),"
            " 'gfx1030')\n"
            "except BuildFailed as error: print(error.log)\n"
        )
        assert r"b'\x7fELF' hiprtc " in told
        assert "no_such_name" in told

    def test_a_compiler_without_its_runtime_is_said(self, run: Any, tmp_path: Path) -> None:
        if Path("/opt/rocm").exists():
            pytest.skip("a runtime may be found there")
        (tmp_path / "libamdhip64.so").unlink()
        told = run(
            "from tuner.bench.devices.amd import compile_hip_for\n"
            "from tuner.bench.devices.base import HipSource\n"
            "from tuner.errors import MissingDependency\n"
            "try: compile_hip_for(HipSource({'k': '//'}, 'k', 'k', {}), 'gfx1030')\n"
            "except MissingDependency as error: print(error.message, '|', error.hint)\n"
        )
        assert told.startswith("the ROCm runtime can't be loaded: ")
        assert told.rstrip().endswith(
            "| install ROCm (libamdhip64.so must be on the loader's path)"
        )

    def test_every_shipped_hip_kernel_compiles(self, run: Any) -> None:
        told = run(
            "from tuner.api.machine import facts_of_architecture\n"
            "from tuner.bench.devices.amd import compile_hip_for\n"
            "from tuner.bench.languages.hip import hip_source\n"
            "from tuner.operator import load_operator\n"
            "from tuner.resources import operator_dirs\n"
            "for path in operator_dirs().values():\n"
            "    operator = load_operator(path)\n"
            "    for each in operator.implementations:\n"
            "        if each.language == 'hip':\n"
            "            source, workload = operator.source(each), operator.workload((3, 16384))\n"
            "            facts = facts_of_architecture('gfx1030')\n"
            "            config = each.default(operator.dimensions(workload), facts)\n"
            "            kernel = operator.kernel(each, source, config, workload)\n"
            "            code = compile_hip_for(hip_source(kernel), 'gfx1030')\n"
            "            assert source.entry.encode() in code.content\n"
            "            print(operator.name, each.name, code.content[:4])\n"
        )
        assert told.count(r"b'\x7fELF'") == 5
        assert "hip-serial" in told

    def test_an_architecture_that_hiprtc_does_not_know_is_refused(self, run: Any) -> None:
        told = run(
            "from tuner.bench.devices.amd import compile_hip_for\n"
            "from tuner.bench.devices.base import HipSource\n"
            "from tuner.errors import MissingDependency\n"
            "try: compile_hip_for(HipSource({'k': '//'}, 'k', 'k', {}), 'gfx77')\n"
            "except MissingDependency as error: print(error.message)\n"
        )
        assert "can't compile for gfx77" in told


def test_scalars_reach_the_kernel_as_typed(device: AmdDevice) -> None:
    """Extremes of each integer type and a float that float32 rounds."""
    files = {"scale.hip": SCALE, "shift.h": SHIFT_H}
    code = device.compile_hip(HipSource(files, "scale.hip", "scale", {"SHIFT": 0}))
    buffers = {"out": device.allocate(4), "in": device.allocate(4)}
    device.write(buffers["in"], np.array([2.0], np.float32))
    arguments = (
        KernelArgument("out", "buffer"),
        KernelArgument("in", "buffer"),
        KernelArgument("count", "int64", 1),
        KernelArgument("factor", "float32", 0.1),
        KernelArgument("offset", "int32", -(2**31)),
    )
    device.launch(Launch(device.load(code, 0), LaunchGeometry((1, 1, 1), 32), arguments, buffers))
    received = np.zeros(1, np.float32)
    device.read(buffers["out"], received)
    assert received[0] == np.float32(2.0) * np.float32(0.1) + np.float32(-(2**31))
