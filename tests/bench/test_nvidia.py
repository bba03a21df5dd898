"""NVIDIA's device over a recording stand-in of the driver, and NVRTC itself where it is here."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import vendor_standins
from vendor_standins import KERNEL_US

from tuner.bench.devices import nvidia
from tuner.bench.devices import vendor
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import TritonTarget
from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.devices.nvidia_gate import MAX_HOLD_S
from tuner.bench.devices.nvidia_gate import MAX_OVERDUE
from tuner.bench.devices.telemetry import nvidia_driver
from tuner.bench.devices.telemetry import NvmlReader
from tuner.bench.devices.telemetry import pci_model
from tuner.domain.environment import UNKNOWN_PREFIX
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import DeviceFault
from tuner.errors import DeviceUnavailable
from tuner.errors import LaunchFailed
from tuner.errors import MissingDependency
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources
from tuner.testing.device_contract import BLOCK_SUM
from tuner.testing.device_contract import DeviceContract
from tuner.testing.device_contract import SCALE
from tuner.testing.device_contract import SHIFT_H

enums = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
SUCCESS = enums.CUresult.CUDA_SUCCESS
SCALE_SOURCE = HipSource(
    {"sub/scale.hip": SCALE, "sub/shift.h": SHIFT_H}, "sub/scale.hip", "scale", {"SHIFT": 2}
)


@pytest.fixture
def machine() -> vendor_standins.Machine:
    return vendor_standins.Machine(SUCCESS, enums.CUresult.CUDA_ERROR_NOT_FOUND)


@pytest.fixture
def compiler() -> vendor_standins.Compiler:
    return vendor_standins.Compiler("nvrtc", "CUBIN", 0, 6)


@pytest.fixture
def device(
    machine: vendor_standins.Machine, compiler: vendor_standins.Compiler, tmp_path: Path
) -> NvidiaDevice:
    driver = vendor_standins.cuda(machine, enums)
    return NvidiaDevice(0, cache_dir=tmp_path, driver=driver, nvrtc=compiler, nvml=_nvml())


def _nvml() -> Any:
    class NVMLError(Exception):
        pass

    def refuse(*_: Any) -> None:
        raise NVMLError("Not Supported")

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus_id: bus_id,
        nvmlDeviceGetClockInfo=lambda _handle, kind: 1980 if kind == 1 else 3201,
        nvmlDeviceGetTemperature=refuse,
        nvmlDeviceGetPowerUsage=lambda _handle: 112_500,
        nvmlSystemGetDriverVersion=lambda: b"580.95.05",
        nvmlDeviceGetPciInfo=lambda _handle: SimpleNamespace(pciDeviceId=0x233510DE),
        nvmlDeviceGetVbiosVersion=lambda _handle: "96.00.CF",
        nvmlDeviceGetEccMode=lambda _handle: [1, 1],
        nvmlDeviceGetComputeRunningProcesses=lambda _handle: [SimpleNamespace(pid=-1)],
    )


class TestNvidiaContract(DeviceContract):
    """The whole contract, over the stand-in: the shared logic and the packing of arguments."""

    @pytest.fixture
    def device(self, machine: Any, compiler: Any) -> NvidiaDevice:
        driver = vendor_standins.cuda(machine, enums)
        return NvidiaDevice(0, driver=driver, nvrtc=compiler, nvml=_nvml())

    def test_a_missing_entry_is_a_build_error(self, device: NvidiaDevice, machine: Any) -> None:
        machine.fail["cuModuleGetFunction"] = machine.not_found
        with pytest.raises(BuildFailed, match="no kernel 'scale'"):
            device.load(device.compile_hip(SCALE_SOURCE), 0)


def _noop_launch(device: NvidiaDevice, threads: int = 32) -> Launch:
    source = HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "block_sum", {})
    kernel = device.load(device.compile_hip(source), 0)
    buffers = {"out": device.allocate(4096), "in": device.allocate(4096)}
    arguments = (KernelArgument("out", "buffer"), KernelArgument("in", "buffer"))
    return Launch(kernel, LaunchGeometry((1, 1, 1), threads), arguments, buffers)


def test_facts_and_triton_target(device: NvidiaDevice) -> None:
    assert device.facts.architecture == "sm_90"
    assert device.facts.name == "Stand-in GPU"
    assert device.facts.max_shared_bytes == 232448
    assert device.facts.max_grid_threads == 2**63 - 1
    assert device.triton_target == TritonTarget("cuda", 90, 32)


def test_identity_names_the_model_and_not_its_slot(device: NvidiaDevice) -> None:
    identity = device.identity()
    assert identity["pci_device_id"] == "10de:2335"
    assert identity["driver"] == "580.95.05"
    assert identity["runtime"] == "cuda 13.0"
    assert identity["compiler"] == "nvrtc 13.0"
    assert "ff:00" not in str(identity)
    context = device.context()
    assert context["pci_bus_id"] == "0000:ff:00.0"
    assert context["other_compute_processes"] == "1"
    assert context["persistence_mode"].startswith(UNKNOWN_PREFIX)


def test_telemetry_gives_none_for_what_is_not_told(device: NvidiaDevice) -> None:
    reading = device.telemetry()
    assert (reading.clock_mhz, reading.memory_clock_mhz) == (1980.0, 3201.0)
    assert reading.temperature_c is None
    assert reading.power_w == 112.5


def test_only_the_launches_lie_between_the_events(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    prepared = device.prepare([_noop_launch(device)] * 3, "stream")
    machine.calls.clear()
    assert prepared.elapsed_us() == pytest.approx(3 * KERNEL_US)
    assert machine.calls == [
        "cuStreamWaitValue32",
        "cuEventRecord",
        *["cuLaunchKernel"] * 3,
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventElapsedTime",
    ]


def test_a_graph_is_uploaded_before_and_only_launched_between_the_events(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    prepared = device.prepare([_noop_launch(device)] * 3, "auto")
    assert prepared.submission == "graph"
    assert "cuGraphUpload" in machine.calls
    machine.calls.clear()
    assert prepared.elapsed_us() == pytest.approx(3 * KERNEL_US)
    assert machine.calls[:4] == [
        "cuStreamWaitValue32",
        "cuEventRecord",
        "cuGraphLaunch",
        "cuEventRecord",
    ]
    machine.calls.clear()
    prepared.close()
    assert machine.calls == ["cuGraphExecDestroy"]


def test_more_launches_than_the_queue_holds_are_not_held_back(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    prepared = device.prepare([_noop_launch(device)] * 2000, "stream")
    machine.calls.clear()
    prepared.elapsed_us()
    assert machine.calls[0] == "cuEventRecord"


def test_the_stream_is_let_go_although_a_launch_is_refused(
    device: NvidiaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = device.prepare([_noop_launch(device)], "stream")
    released: list[bool] = []
    monkeypatch.setattr(device._api, "release", lambda: released.append(True))

    def refuse(_event: object) -> None:
        raise LaunchFailed("refused")

    monkeypatch.setattr(device._api, "record", refuse)
    with pytest.raises(LaunchFailed):
        prepared.elapsed_us()
    assert released


def test_a_driver_that_waits_for_each_kernel_does_not_hang(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    # As under a profiler, a sanitizer or CUDA_LAUNCH_BLOCKING: a launch returns when its kernel
    # has run, which a held stream does not let begin.
    gate = device._api._gate
    prepared = device.prepare([_noop_launch(device)], "stream")
    real_record = device._api.record

    def record_and_wait(event: object) -> None:
        real_record(event)
        deadline = time.monotonic() + 20
        while gate._word.value != gate._turn:
            assert time.monotonic() < deadline, "the stream was never let go"
            time.sleep(0.01)

    device._api.record = record_and_wait  # type: ignore[method-assign]
    for _ in range(MAX_OVERDUE):
        assert prepared.elapsed_us() > 0
    machine.calls.clear()
    begun = time.monotonic()
    prepared.elapsed_us()
    assert time.monotonic() - begun < MAX_HOLD_S / 2
    assert "cuStreamWaitValue32" not in machine.calls


def test_one_launch_needs_no_graph_unless_it_is_demanded(device: NvidiaDevice) -> None:
    launch = _noop_launch(device)
    assert device.prepare([launch], "auto").submission == "stream"
    assert device.prepare([launch], "graph").submission == "graph"


def test_a_launch_that_fails_in_capture_ends_the_capture(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    launch = _noop_launch(device)
    machine.fail["cuLaunchKernel"] = enums.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchFailed):
        device.prepare([launch] * 2, "graph")
    assert machine.capturing is None
    device.launch(launch)


@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [
        ("cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", LaunchFailed),
        ("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", OutOfResources),
        ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_MISALIGNED_ADDRESS", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_LAUNCH_FAILED", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_ASSERT", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_INSTRUCTION", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_HARDWARE_STACK_ERROR", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_INVALID_PC", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_INVALID_ADDRESS_SPACE", DeviceFault),
        ("cuStreamSynchronize", "CUDA_ERROR_LAUNCH_TIMEOUT", DeviceFault),
    ],
)
def test_statuses_become_trial_errors(
    device: NvidiaDevice, machine: vendor_standins.Machine, call: str, status: str, kind: type
) -> None:
    launch = _noop_launch(device)
    machine.fail[call] = getattr(enums.CUresult, status)
    with pytest.raises(kind, match=f"{call}: {status}: text of {status}"):
        device.launch(launch)


def test_out_of_memory(device: NvidiaDevice, machine: vendor_standins.Machine) -> None:
    machine.fail["cuMemAlloc"] = enums.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(OutOfDeviceMemory):
        device.allocate(1024)
    device.free(device.allocate(1024))


def test_a_fault_is_sticky_and_cleaning_up_is_silent(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    launch = _noop_launch(device)
    prepared = device.prepare([launch] * 2, "graph")
    machine.fail["cuEventSynchronize"] = enums.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceFault):
        prepared.elapsed_us()
    machine.calls.clear()
    for use in (
        lambda: device.launch(launch),
        lambda: device.prepare([launch], "stream"),
        prepared.elapsed_us,
        lambda: device.allocate(4),
        lambda: device.read(launch.buffers["out"], np.zeros(1, np.float32)),
        device.flush_cache,
    ):
        with pytest.raises(DeviceFault, match="ILLEGAL_ADDRESS"):
            use()
    prepared.close()
    device.free(launch.buffers["out"])
    device.close()
    assert machine.calls == []


def test_more_than_48_kib_of_shared_memory_is_opted_in(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    code = device.compile_hip(HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "block_sum", {}))
    device.load(code, 48 * 1024)
    assert "cuFuncSetAttribute" not in machine.calls
    device.load(code, 48 * 1024 + 4)
    assert machine.arguments["cuFuncSetAttribute"][2] == 48 * 1024 + 4


def test_close_gives_everything_back_once(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    device.prepare([_noop_launch(device)], "stream")
    device.flush_cache()
    device.close()
    assert machine.memory == {}
    assert machine.calls.count("cuDevicePrimaryCtxRelease") == 1
    machine.calls.clear()
    device.close()
    assert machine.calls == []


def test_the_flush_writes_twice_the_cache(
    device: NvidiaDevice, machine: vendor_standins.Machine
) -> None:
    device.flush_cache()
    assert machine.arguments["cuMemsetD8Async"][2] == 2 * device.facts.cache_bytes
    assert machine.calls[-1] == "cuStreamSynchronize"


def test_sources_are_built_with_their_headers_for_the_real_architecture(
    device: NvidiaDevice, compiler: vendor_standins.Compiler
) -> None:
    device.compile_hip(SCALE_SOURCE)
    (program,) = compiler.programs
    assert "--gpu-architecture=sm_90" in program.options
    assert "-DSHIFT=2" in program.options
    # By path and by bare name: NVRTC does not search the including file's folder.
    assert program.headers[b"shift.h"] == program.headers[b"sub/shift.h"] == SHIFT_H.encode()
    assert compiler.destroyed == 1


def test_a_second_build_comes_from_the_cache(
    device: NvidiaDevice, compiler: vendor_standins.Compiler, tmp_path: Path
) -> None:
    first = device.compile_hip(SCALE_SOURCE)
    again = device.compile_hip(SCALE_SOURCE)
    assert (first.cached, again.cached) == (False, True)
    assert again.content == first.content
    assert len(compiler.programs) == 1
    changed = HipSource({**SCALE_SOURCE.files, "sub/shift.h": "//"}, *_rest(SCALE_SOURCE))
    assert not device.compile_hip(changed).cached


@pytest.mark.parametrize("damage", [b"", b"not json\n", b"{}\n", None])
def test_a_damaged_cache_entry_is_only_a_miss(
    device: NvidiaDevice, tmp_path: Path, damage: bytes | None
) -> None:
    device.compile_hip(SCALE_SOURCE)
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] if damage is None else damage)
    rebuilt = device.compile_hip(SCALE_SOURCE)
    assert not rebuilt.cached
    assert device.compile_hip(SCALE_SOURCE).cached


def _rest(source: HipSource) -> tuple[Any, ...]:
    return source.main, source.entry, source.macros


def test_an_index_out_of_range_is_unavailable(machine: vendor_standins.Machine) -> None:
    with pytest.raises(DeviceUnavailable, match="cuda:3 does not exist"):
        NvidiaDevice(3, driver=vendor_standins.cuda(machine, enums))


def test_no_driver_and_no_package_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing_library(_flags: int) -> None:
        raise RuntimeError("libcuda.so.1: cannot open shared object file")

    driver = SimpleNamespace(cuInit=missing_library, CUresult=enums.CUresult)
    with pytest.raises(DeviceUnavailable, match=r"libcuda\.so\.1") as failure:
        nvidia.device_count(driver)
    assert "driver" in failure.value.hint
    with pytest.raises(MissingDependency) as absent:
        vendor.import_vendor("no_such_vendor_module", "cuda-bindings", "nvidia")
    assert absent.value.hint == "pip install 'tuner[nvidia]'"


def test_the_driver_version_is_read_without_nvml(tmp_path: Path) -> None:
    version = tmp_path / "version"
    reader = NvmlReader("0000:00:00.0", None)
    assert nvidia_driver(reader, version).startswith(UNKNOWN_PREFIX)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n")
    assert nvidia_driver(reader, version) == "580.95.05"


def test_the_pci_model_is_read_from_sysfs(tmp_path: Path) -> None:
    folder = tmp_path / "0000:0a:00.0"
    assert pci_model("0000:0A:00.0", tmp_path).startswith(UNKNOWN_PREFIX)
    folder.mkdir()
    (folder / "vendor").write_text("0x10de\n")
    (folder / "device").write_text("0x2335\n")
    assert pci_model("0000:0A:00.0", tmp_path) == "10de:2335"


class TestRealNvrtc:
    """NVRTC needs no GPU: these run wherever its library is found."""

    @pytest.fixture(autouse=True)
    def need_nvrtc(self) -> None:
        try:
            nvidia.compile_hip_for(HipSource({"k": "// empty"}, "k", "k", {}), "sm_90")
        except MissingDependency as error:
            pytest.skip(error.message)

    def test_hip_spellings_compile(self) -> None:
        text = """
        #include <hip/hip_runtime.h>
        extern "C" __global__ void k(float* x, int* y)
        {
            float v = __shfl(x[threadIdx.x], 0) + __shfl_up(x[0], 1) + __shfl_down(x[1], 2, 16);
            for (int step = warpSize / 2; step > 0; step /= 2) v += __shfl_xor(v, step);
            unsigned long long lanes = __ballot(v > 0.0f);
            if (__any(v > 1.0f) && !__all(v > 2.0f)) y[threadIdx.x] = (int)(lanes >> 3);
            x[threadIdx.x] = v;
        }
        """
        code = nvidia.compile_hip_for(HipSource({"k.hip": text}, "k.hip", "k", {}), "sm_90")
        assert code.content[:4] == b"\x7fELF"
        assert code.compiler.startswith("nvrtc ")

    def test_equal_sources_build_equal_binaries(self) -> None:
        first, again = (nvidia.compile_hip_for(SCALE_SOURCE, "sm_90") for _ in range(2))
        assert first.content == again.content

    def test_errors_name_file_and_line(self) -> None:
        source = HipSource({"k.hip": "\nint x = no_such_name;\n"}, "k.hip", "k", {})
        with pytest.raises(BuildFailed, match=r"k\.hip\(2\)") as failure:
            nvidia.compile_hip_for(source, "sm_90")
        assert "no_such_name" in failure.value.log
