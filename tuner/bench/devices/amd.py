"""AMD devices: facts, identity and hiprtc. May import hip-python, late.

Nothing here has run on AMD hardware yet. hiprtc, device enumeration and its errors are
exercised against a real ROCm runtime without a GPU; the rest against a recording stand-in.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

from tuner.bench.devices import rtc
from tuner.bench.devices.amd_launch import checked_calls
from tuner.bench.devices.amd_launch import HipApi
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import OfflineToolchain
from tuner.bench.devices.base import TritonTarget
from tuner.bench.devices.code_cache import CodeCache
from tuner.bench.devices.gpu import GpuDevice
from tuner.bench.devices.telemetry import amd_last_level_cache_bytes
from tuner.bench.devices.telemetry import amdgpu_driver
from tuner.bench.devices.telemetry import AmdSysfsReader
from tuner.bench.devices.telemetry import pci_model
from tuner.bench.devices.vendor import CheckedCalls
from tuner.bench.devices.vendor import import_vendor
from tuner.bench.devices.vendor import text_of
from tuner.bench.devices.vendor import why_no_triton
from tuner.domain.device import DeviceFacts
from tuner.domain.device import Telemetry
from tuner.domain.environment import unknown
from tuner.errors import DeviceUnavailable
from tuner.errors import MissingDependency
from tuner.errors import TrialError

_MAX_GRID_THREADS = 2**32 - 1  # HIP refuses 2^32 work-items along an axis
_REGISTERS_PER_THREAD = 256  # VGPRs a wave's lane can address on RDNA; 512 with AGPRs on CDNA
# The largest Infinity Cache so far is 256 MB (MI300); HIP reports the L2 only.
_MIN_FLUSH_BYTES = 512 * 1024 * 1024
_DRIVER_REMEDY = "install ROCm; in a container, pass --device /dev/kfd --device /dev/dri"
_RUNTIME_REMEDY = "install ROCm (libamdhip64.so must be on the loader's path)"
_HIPRTC_REMEDY = "install ROCm (libhiprtc.so must be on the loader's path)"

_PROBE_TIMEOUT_S = 60.0
_PROBE = """
import sys
from hip import hiprtc
program = hiprtc.hiprtcCreateProgram(b"__global__ void probe() {}", b"probe.hip", 0, [], [])[1]
status = hiprtc.hiprtcCompileProgram(program, 1, [sys.argv[1].encode()])[0]
sys.exit(1 if status else 0)
"""

# hiprtc knows the HIP runtime by itself; the usual include then needs no file.
_HEADERS = {"hip/hip_runtime.h": "#pragma once\n"}


class AmdDevice(GpuDevice):
    """An AMD GPU through the HIP runtime.

    Args:
        index: HIP's device ordinal.
        cache_dir: Where compiled kernels are kept; None for nowhere.
        hip: Stand-in for hip-python's ``hip`` in tests.
        hiprtc: Stand-in for hip-python's ``hiprtc`` in tests.

    Raises:
        MissingDependency: hip-python is not installed.
        DeviceUnavailable: There is no ROCm runtime, or no device of that index.
    """

    def __init__(
        self, index: int, *, cache_dir: Path | None = None, hip: Any = None, hiprtc: Any = None
    ) -> None:
        hip = hip or _hip_module()
        self._compiler = _hiprtc_compiler(hip, hiprtc)
        self._cache = CodeCache(cache_dir)
        self._calls = checked_calls(hip)
        count = device_count(hip)
        if not 0 <= index < count:
            raise DeviceUnavailable(
                f"hip:{index} does not exist: the runtime shows {count} device(s)",
                hint="tuner devices lists them; HIP_VISIBLE_DEVICES may hide some",
            )
        try:
            facts = read_facts(hip, index, self._compiler)
            self._target = _gcn_name(_properties(self._calls, hip, index))
            self._bus_id = _bus_id(self._calls, hip, index)
            self._physical_units = _attribute_or_none(
                self._calls, hip, index, "PhysicalMultiProcessorCount"
            )
            api = HipApi(hip, self._calls, index)
        except (TrialError, RuntimeError) as error:
            # RuntimeError: the installed ROCm lacks a function that this hip-python calls.
            raise DeviceUnavailable(
                f"hip:{index} can't be opened: {error}",
                hint="install the hip-python release that matches ROCm; see rocminfo",
            ) from error
        flush_bytes = max(2 * facts.cache_bytes, _MIN_FLUSH_BYTES)
        # A graph node costs RDNA about 4 us by public reports, a stream launch less.
        super().__init__(facts, api, auto_submission="stream", flush_bytes=flush_bytes)
        self._sysfs = AmdSysfsReader(self._bus_id)

    @property
    def triton_target(self) -> TritonTarget:
        """What Triton compiles for, at the device's own wave size."""
        return _triton_target(self.facts.target, self.facts.wave_size)

    def identity(self) -> dict[str, str]:
        """Return driver, runtime, compiler and what the device is.

        ``compute_units`` is what HIP counts: work-group processors on RDNA, two compute units
        each.
        """
        physical = self._physical_units
        return {
            "architecture": self.facts.architecture,
            "target_features": self._target.partition(":")[2] or "none",
            "compute_units": str(self.facts.compute_units),
            "physical_compute_units": unknown("HIP does not tell")
            if physical is None
            else str(physical),
            "wave_size": str(self.facts.wave_size),
            "memory_bytes": str(self.facts.memory_bytes),
            "pci_device_id": pci_model(self._bus_id),
            "driver": amdgpu_driver(),
            "runtime": f"hip {self._calls('hipRuntimeGetVersion')}",
            "compiler": self._compiler.identity(),
        }

    def context(self) -> dict[str, str]:
        """Return name, address, VBIOS, power limit and performance level."""
        return {"name": self.facts.name, "pci_bus_id": self._bus_id, **self._sysfs.context()}

    def compile_hip(self, source: HipSource) -> CodeObject:
        """Compile HIP C++ with hiprtc for this device, its target features included.

        Raises:
            BuildFailed: hiprtc refused it; carries its log.
            MissingDependency: hiprtc is not found.
        """
        return _compile(source, self._target, self._compiler, self._cache)

    def telemetry(self) -> Telemetry:
        """Read clocks, temperature and power from the kernel driver."""
        return self._sysfs.telemetry()


def compile_hip_for(
    source: HipSource, architecture: str, *, cache_dir: Path | None = None
) -> CodeObject:
    """Compile HIP C++ for an AMD architecture (``gfx1201``). Needs hiprtc, but no GPU.

    Raises:
        BuildFailed: hiprtc refused it; carries its log.
        MissingDependency: hip-python or hiprtc is not found, or hiprtc is too old for the
            architecture.
    """
    compiler = _hiprtc_compiler(None, None)
    version = compiler.version()
    if not _hiprtc_knows(architecture):
        raise MissingDependency(
            f"{version} can't compile for {architecture}", hint="install a newer ROCm"
        )
    return _compile(source, architecture, compiler, CodeCache(cache_dir))


def toolchain(target: str, wave_size: int, *, cache_dir: Path | None = None) -> OfflineToolchain:
    """Return what builds for a device whose facts name this target (``gfx90a:sramecc+:xnack-``).

    hiprtc is not asked whether it knows the target: the device's own runtime named it.

    Raises:
        MissingDependency: hip-python is not installed.
    """
    compiler, cache = _hiprtc_compiler(None, None), CodeCache(cache_dir)
    return OfflineToolchain(
        _triton_target(target, wave_size),
        lambda source: _compile(source, target, compiler, cache),
    )


def device_count(hip: Any = None) -> int:
    """Return how many devices the HIP runtime shows.

    Raises:
        MissingDependency: hip-python is not installed.
        DeviceUnavailable: The runtime is missing or shows none.
    """
    hip = hip or _hip_module()
    try:
        return int(checked_calls(hip)("hipGetDeviceCount"))
    except TrialError as error:
        raise DeviceUnavailable(
            f"the HIP runtime shows no device: {error.message}", hint=_DRIVER_REMEDY
        ) from error
    except RuntimeError as error:
        # hip-python loads libamdhip64.so at the first call.
        raise DeviceUnavailable(
            "the HIP runtime (libamdhip64.so) is not found", hint=_DRIVER_REMEDY
        ) from error


def all_facts() -> list[DeviceFacts]:
    """Return the facts of each device, without making a context on any.

    Raises:
        MissingDependency: The vendor package is not installed.
        DeviceUnavailable: The runtime is missing or shows no device.
    """
    hip = _hip_module()
    try:
        return [read_facts(hip, index) for index in range(device_count(hip))]
    except (TrialError, RuntimeError) as error:
        raise DeviceUnavailable(
            f"the HIP devices can't be read: {error}", hint=_DRIVER_REMEDY
        ) from error


def read_facts(hip: Any, index: int, compiler: rtc.RuntimeCompiler | None = None) -> DeviceFacts:
    """Read a device's facts."""
    calls = checked_calls(hip)
    properties = _properties(calls, hip, index)

    def read(name: str) -> int:
        kind = getattr(hip.hipDeviceAttribute_t, f"hipDeviceAttribute{name}")
        return int(calls("hipDeviceGetAttribute", kind, index))

    last_level = amd_last_level_cache_bytes(_bus_id(calls, hip, index))
    return DeviceFacts(
        device_id=f"hip:{index}",
        kind="hip",
        architecture=_gcn_name(properties).partition(":")[0],
        name=text_of(properties.name),
        compute_units=read("MultiprocessorCount"),
        wave_size=read("WarpSize"),
        max_threads_per_block=read("MaxThreadsPerBlock"),
        max_grid=(read("MaxGridDimX"), read("MaxGridDimY"), read("MaxGridDimZ")),
        max_grid_threads=_MAX_GRID_THREADS,
        max_shared_bytes=read("MaxSharedMemoryPerBlock"),
        max_registers_per_thread=_REGISTERS_PER_THREAD,
        memory_bytes=int(calls("hipDeviceTotalMem", index)),
        cache_bytes=max(last_level, read("L2CacheSize")),
        timer="device-event",
        languages={
            "hip": (compiler or _hiprtc_compiler(hip, None)).why_unusable(),
            "triton": why_no_triton(),
        },
        target=_gcn_name(properties),
    )


def _triton_target(target: str, wave_size: int) -> TritonTarget:
    return TritonTarget("hip", target.partition(":")[0], wave_size)


def _hip_module() -> Any:
    # hip.hip, not rocm.bindings.hip: the old name works in every release.
    return import_vendor("hip", "hip-python", "amd").hip


def _hiprtc_compiler(hip: Any, hiprtc: Any) -> rtc.RuntimeCompiler:
    hip = hip or _hip_module()

    def release() -> str:
        # hiprtc answered 9.0 in several ROCm releases (5.2.3 among them); it comes with the
        # runtime, whose version does change.
        try:
            return f"(hip {checked_calls(hip)('hipRuntimeGetVersion')})"
        except RuntimeError as error:  # hiprtc is there, libamdhip64.so is not
            raise MissingDependency(
                f"the ROCm runtime can't be loaded: {error}", hint=_RUNTIME_REMEDY
            ) from error

    return rtc.RuntimeCompiler(
        module=hiprtc or import_vendor("hip", "hip-python", "amd").hiprtc,
        prefix="hiprtc",
        code="Code",
        reference=lambda program: program.createRef(),
        remedy=_HIPRTC_REMEDY,
        release=release,
    )


@functools.lru_cache
def _hiprtc_knows(architecture: str) -> bool:
    """Tell whether hiprtc compiles an empty kernel for an architecture.

    Asked in a process of its own: hiprtc of ROCm 5.2.3 aborts the process it runs in when it
    does not know the architecture.
    """
    command = [sys.executable, "-c", _PROBE, f"--offload-arch={architecture}"]
    finished = subprocess.run(command, capture_output=True, timeout=_PROBE_TIMEOUT_S, check=False)
    return finished.returncode == 0


def _compile(
    source: HipSource, target: str, compiler: rtc.RuntimeCompiler, cache: CodeCache
) -> CodeObject:
    options = (f"--offload-arch={target}", "-std=c++17", *source.flags)
    return compiler.build(source, _HEADERS, options, cache)


def _properties(calls: CheckedCalls, hip: Any, index: int) -> Any:
    try:
        return calls("hipGetDeviceProperties", index)
    except TypeError:  # releases before 7 fill a structure that is handed in
        properties = hip.hipDeviceProp_t()
        calls("hipGetDeviceProperties", properties, index)
        return properties


def _gcn_name(properties: Any) -> str:
    """Return the full target, e.g. ``gfx90a:sramecc+:xnack-``."""
    return text_of(properties.gcnArchName)


def _bus_id(calls: CheckedCalls, hip: Any, index: int) -> str:
    # From attributes: hip-python's hipDeviceGetPCIBusId hands the runtime a null buffer.
    domain, bus, slot = (
        _attribute_or_none(calls, hip, index, name)
        for name in ("PciDomainID", "PciBusId", "PciDeviceId")
    )
    return f"{domain or 0:04x}:{bus or 0:02x}:{slot or 0:02x}.0"


def _attribute_or_none(calls: CheckedCalls, hip: Any, index: int, name: str) -> int | None:
    kind = getattr(hip.hipDeviceAttribute_t, f"hipDeviceAttribute{name}", None)
    if kind is None:
        return None
    try:
        return int(calls("hipDeviceGetAttribute", kind, index))
    except TrialError:
        return None
