"""NVIDIA devices: facts, identity and NVRTC. May import cuda-bindings and nvidia-ml-py, late.

Needs cuda-bindings 12.8 or newer, 13 preferred.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.bench.devices import rtc
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import OfflineToolchain
from tuner.bench.devices.base import TritonTarget
from tuner.bench.devices.code_cache import CodeCache
from tuner.bench.devices.gpu import GpuDevice
from tuner.bench.devices.nvidia_launch import checked_calls
from tuner.bench.devices.nvidia_launch import CudaApi
from tuner.bench.devices.telemetry import nvidia_driver
from tuner.bench.devices.telemetry import NvmlReader
from tuner.bench.devices.telemetry import pci_model
from tuner.bench.devices.vendor import import_vendor
from tuner.bench.devices.vendor import text_of
from tuner.bench.devices.vendor import why_no_triton
from tuner.domain.device import DeviceFacts
from tuner.domain.device import Telemetry
from tuner.errors import DeviceUnavailable
from tuner.errors import MissingDependency
from tuner.errors import TrialError

_MAX_GRID_THREADS = 2**63 - 1  # CUDA has no limit on grid.x * block.x beyond those of each
_REGISTERS_PER_THREAD = 255  # of every architecture since Kepler
_FALLBACK_FLUSH_BYTES = 256 * 1024 * 1024
_DRIVER_REMEDY = "install the NVIDIA driver; in a container, start it with --gpus all"
_NVRTC_REMEDY = "install the CUDA toolkit, or pip install nvidia-cuda-nvrtc"

# HIP's names over CUDA's, for kernels that are written once. HIP's shuffles have no mask: all
# lanes that are still running take part. By macro, since NVRTC still declares the old functions
# without a mask, and only refuses their use.
_HIP_PRELUDE = """\
#pragma once
#define __HIP_PLATFORM_NVIDIA__ 1
namespace tuner_hip {
constexpr unsigned all_lanes = 0xffffffffu;
template <class T> __device__ inline T shfl(T value, int lane, int width = 32)
{ return __shfl_sync(all_lanes, value, lane, width); }
template <class T> __device__ inline T shfl_up(T value, unsigned delta, int width = 32)
{ return __shfl_up_sync(all_lanes, value, delta, width); }
template <class T> __device__ inline T shfl_down(T value, unsigned delta, int width = 32)
{ return __shfl_down_sync(all_lanes, value, delta, width); }
template <class T> __device__ inline T shfl_xor(T value, int mask, int width = 32)
{ return __shfl_xor_sync(all_lanes, value, mask, width); }
__device__ inline unsigned long long ballot(int predicate)
{ return __ballot_sync(all_lanes, predicate); }
__device__ inline int any(int predicate) { return __any_sync(all_lanes, predicate); }
__device__ inline int all(int predicate) { return __all_sync(all_lanes, predicate); }
}
#define __shfl(...) ::tuner_hip::shfl(__VA_ARGS__)
#define __shfl_up(...) ::tuner_hip::shfl_up(__VA_ARGS__)
#define __shfl_down(...) ::tuner_hip::shfl_down(__VA_ARGS__)
#define __shfl_xor(...) ::tuner_hip::shfl_xor(__VA_ARGS__)
#define __ballot(...) ::tuner_hip::ballot(__VA_ARGS__)
#define __any(...) ::tuner_hip::any(__VA_ARGS__)
#define __all(...) ::tuner_hip::all(__VA_ARGS__)
"""
_HEADERS = {
    "tuner_hip_prelude.h": _HIP_PRELUDE,
    "hip/hip_runtime.h": '#include "tuner_hip_prelude.h"\n',
}


class NvidiaDevice(GpuDevice):
    """An NVIDIA GPU through the CUDA driver.

    Args:
        index: CUDA's device ordinal.
        cache_dir: Where compiled kernels are kept; None for nowhere.
        driver: Stand-in for ``cuda.bindings.driver`` in tests.
        nvrtc: Stand-in for ``cuda.bindings.nvrtc`` in tests.
        nvml: Stand-in for ``pynvml`` in tests.

    Raises:
        MissingDependency: cuda-bindings is not installed.
        DeviceUnavailable: There is no driver, or no device of that index.
    """

    def __init__(
        self,
        index: int,
        *,
        cache_dir: Path | None = None,
        driver: Any = None,
        nvrtc: Any = None,
        nvml: Any = None,
    ) -> None:
        driver = driver or _driver_module()
        self._compiler = _nvrtc_compiler(nvrtc)
        self._cache = CodeCache(cache_dir)
        self._calls = checked_calls(driver)
        count = device_count(driver)
        if not 0 <= index < count:
            raise DeviceUnavailable(
                f"cuda:{index} does not exist: the driver shows {count} device(s)",
                hint="tuner devices lists them; CUDA_VISIBLE_DEVICES may hide some",
            )
        try:
            facts = read_facts(driver, index, self._compiler)
            device = self._calls("cuDeviceGet", index)
            self._bus_id = text_of(self._calls("cuDeviceGetPCIBusId", 16, device)).lower()
            api = CudaApi(driver, self._calls, device)
        except TrialError as error:
            raise DeviceUnavailable(
                f"cuda:{index} can't be opened: {error.message}", hint="see nvidia-smi"
            ) from error
        flush_bytes = 2 * facts.cache_bytes or _FALLBACK_FLUSH_BYTES
        super().__init__(facts, api, auto_submission="graph", flush_bytes=flush_bytes)
        self._nvml = NvmlReader(self._bus_id, nvml or _optional_module("pynvml"))

    @property
    def triton_target(self) -> TritonTarget:
        """What Triton compiles for: compute capability as one number, 32 lanes."""
        return _triton_target(self.facts.target, self.facts.wave_size)

    def identity(self) -> dict[str, str]:
        """Return driver, runtime, compiler and what the device is."""
        version = int(self._calls("cuDriverGetVersion"))
        model = self._nvml.read(lambda m, h: int(m.nvmlDeviceGetPciInfo(h).pciDeviceId))
        return {
            "architecture": self.facts.architecture,
            "compute_units": str(self.facts.compute_units),
            "wave_size": str(self.facts.wave_size),
            "memory_bytes": str(self.facts.memory_bytes),
            # NVML packs the device id above the vendor id.
            "pci_device_id": pci_model(self._bus_id)
            if model is None
            else f"{model & 0xFFFF:04x}:{model >> 16:04x}",
            "driver": nvidia_driver(self._nvml),
            "runtime": f"cuda {version // 1000}.{version % 1000 // 10}",
            "compiler": self._compiler.identity(),
        }

    def context(self) -> dict[str, str]:
        """Return name, address, VBIOS, clocks, limits and who else uses the device."""
        return {"name": self.facts.name, "pci_bus_id": self._bus_id, **self._nvml.context()}

    def compile_hip(self, source: HipSource) -> CodeObject:
        """Compile HIP C++ with NVRTC to a cubin for this device.

        Raises:
            BuildFailed: NVRTC refused it; carries its log.
            MissingDependency: NVRTC is not found.
        """
        return _compile(source, self.facts.architecture, self._compiler, self._cache)

    def telemetry(self) -> Telemetry:
        """Read clocks, temperature and power from NVML."""
        return self._nvml.telemetry()


def compile_hip_for(
    source: HipSource, architecture: str, *, cache_dir: Path | None = None, nvrtc: Any = None
) -> CodeObject:
    """Compile HIP C++ for an NVIDIA architecture (``sm_90``). Needs no GPU and no driver.

    Raises:
        BuildFailed: NVRTC refused it; carries its log.
        MissingDependency: cuda-bindings or NVRTC is not found.
    """
    return _compile(source, architecture, _nvrtc_compiler(nvrtc), CodeCache(cache_dir))


def toolchain(target: str, wave_size: int, *, cache_dir: Path | None = None) -> OfflineToolchain:
    """Return what builds for a device whose facts name this target (``sm_90``).

    Raises:
        MissingDependency: cuda-bindings is not installed.
    """
    compiler, cache = _nvrtc_compiler(None), CodeCache(cache_dir)
    return OfflineToolchain(
        _triton_target(target, wave_size),
        lambda source: _compile(source, target, compiler, cache),
    )


def device_count(driver: Any = None) -> int:
    """Return how many devices the CUDA driver shows.

    Raises:
        MissingDependency: cuda-bindings is not installed.
        DeviceUnavailable: The driver is missing or shows none.
    """
    driver = driver or _driver_module()
    calls = checked_calls(driver)
    try:
        calls("cuInit", 0)
        return int(calls("cuDeviceGetCount"))
    except TrialError as error:
        raise DeviceUnavailable(
            f"the CUDA driver shows no device: {error.message}", hint=_DRIVER_REMEDY
        ) from error
    except RuntimeError as error:
        # The bindings load libcuda.so.1 at the first call.
        raise DeviceUnavailable(
            "the CUDA driver (libcuda.so.1) is not found", hint=_DRIVER_REMEDY
        ) from error


def all_facts() -> list[DeviceFacts]:
    """Return the facts of each device, without making a context on any.

    Raises:
        MissingDependency: The vendor package is not installed.
        DeviceUnavailable: The driver is missing or shows no device.
    """
    driver = _driver_module()
    try:
        return [read_facts(driver, index) for index in range(device_count(driver))]
    except (TrialError, RuntimeError) as error:
        raise DeviceUnavailable(
            f"the CUDA devices can't be read: {error}", hint=_DRIVER_REMEDY
        ) from error


def read_facts(driver: Any, index: int, compiler: rtc.RuntimeCompiler | None = None) -> DeviceFacts:
    """Read a device's facts without making a context on it."""
    calls = checked_calls(driver)
    device = calls("cuDeviceGet", index)
    kinds = driver.CUdevice_attribute

    def read(name: str) -> int:
        return int(
            calls("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), device)
        )

    major, minor = read("COMPUTE_CAPABILITY_MAJOR"), read("COMPUTE_CAPABILITY_MINOR")
    return DeviceFacts(
        device_id=f"cuda:{index}",
        kind="cuda",
        architecture=f"sm_{major}{minor}",
        name=text_of(calls("cuDeviceGetName", 128, device)),
        compute_units=read("MULTIPROCESSOR_COUNT"),
        wave_size=read("WARP_SIZE"),
        max_threads_per_block=read("MAX_THREADS_PER_BLOCK"),
        max_grid=(read("MAX_GRID_DIM_X"), read("MAX_GRID_DIM_Y"), read("MAX_GRID_DIM_Z")),
        max_grid_threads=_MAX_GRID_THREADS,
        max_shared_bytes=read("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        max_registers_per_thread=_REGISTERS_PER_THREAD,
        memory_bytes=int(calls("cuDeviceTotalMem", device)),
        cache_bytes=read("L2_CACHE_SIZE"),
        timer="device-event",
        languages={
            "hip": (compiler or _nvrtc_compiler(None)).why_unusable(),
            "triton": why_no_triton(),
        },
        target=f"sm_{major}{minor}",
    )


def _triton_target(target: str, wave_size: int) -> TritonTarget:
    return TritonTarget("cuda", int(target.removeprefix("sm_")), wave_size)


def _driver_module() -> Any:
    return import_vendor("cuda.bindings.driver", "cuda-bindings", "nvidia")


def _nvrtc_compiler(nvrtc: Any) -> rtc.RuntimeCompiler:
    return rtc.RuntimeCompiler(
        module=nvrtc or import_vendor("cuda.bindings.nvrtc", "cuda-bindings", "nvidia"),
        prefix="nvrtc",
        code="CUBIN",
        reference=lambda program: program,
        remedy=_NVRTC_REMEDY,
    )


def _compile(
    source: HipSource, architecture: str, compiler: rtc.RuntimeCompiler, cache: CodeCache
) -> CodeObject:
    options = (
        f"--gpu-architecture={architecture}",
        "--std=c++17",
        "--pre-include=tuner_hip_prelude.h",
        *source.flags,
    )
    return compiler.build(source, _HEADERS, options, cache)


def _optional_module(name: str) -> Any | None:
    try:
        return import_vendor(name, "nvidia-ml-py", "nvidia")
    except MissingDependency:
        return None
