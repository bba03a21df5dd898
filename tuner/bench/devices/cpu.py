"""The host as a device: HIP through its C++ compiler, Triton through its interpreter.

It checks kernels where there is no GPU. Its times say nothing of a GPU's and are marked as
host-clock times.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import platform
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import cast
from typing import Literal
from typing import Protocol

import numpy as np

from tuner.bench.devices import cpu_machine
from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.base import TritonTarget
from tuner.bench.devices.cpu_compiler import find_compiler
from tuner.bench.devices.cpu_compiler import HostCompiler
from tuner.bench.devices.cpu_compiler import NO_COMPILER
from tuner.bench.devices.cpu_kernel import HipOnCpuKernel
from tuner.bench.devices.cpu_memory import GuardedBuffer
from tuner.bench.devices.cpu_memory import memory_bytes
from tuner.domain.device import DeviceFacts
from tuner.domain.device import Telemetry
from tuner.domain.environment import unknown
from tuner.errors import LaunchFailed
from tuner.errors import OutOfResources

__all__ = ["CpuDevice", "CpuKernel", "find_compiler"]

MAX_THREADS_PER_BLOCK = 1024
MAX_GRID = (2**31 - 1, 65_535, 65_535)
MAX_SHARED_BYTES = 65_536
ASSUMED_CACHE_BYTES = 64 * 1024**2  # flushed where the cache's size is unknown


class CpuKernel(Protocol):
    """What ``LoadedKernel.handle`` is on the CPU, for every language."""

    def launch(self, launch: Launch) -> None:
        """Run the whole grid and return."""


class CpuDevice:
    """The host's processor, behind the ``Device`` protocol.

    Args:
        wave_size: Wave size that HIP kernels see, 32 or 64.
        cache_dir: Where built kernels are kept between processes; None for no cache.
        compiler: Name or path of the C++ compiler; None looks for g++ and clang++.
    """

    def __init__(
        self,
        *,
        wave_size: int = 32,
        cache_dir: Path | None = None,
        compiler: str | None = None,
    ) -> None:
        if wave_size not in (32, 64):
            raise ValueError(f"wave size {wave_size} is neither 32 nor 64")
        self._compiler = HostCompiler(find_compiler(compiler), cache_dir)
        self._buffers: list[GuardedBuffer] = []
        self._flush: Array | None = None
        self._facts = DeviceFacts(
            device_id="cpu",
            kind="cpu",
            architecture=platform.machine(),
            name=cpu_machine.model_name(),
            compute_units=cpu_machine.cores(),
            wave_size=wave_size,
            max_threads_per_block=MAX_THREADS_PER_BLOCK,
            max_grid=MAX_GRID,
            max_grid_threads=2**63 - 1,
            max_shared_bytes=MAX_SHARED_BYTES,
            max_registers_per_thread=None,
            memory_bytes=memory_bytes(),
            cache_bytes=cpu_machine.last_level_cache_bytes(),
            timer="host-clock",
            languages={"hip": self._why_no_hip(compiler), "triton": _why_no_triton()},
            target=platform.machine(),
        )

    @property
    def facts(self) -> DeviceFacts:
        """Limits and identity."""
        return self._facts

    @property
    def triton_target(self) -> TritonTarget | None:
        """None: Triton kernels are interpreted here."""
        return None

    def identity(self) -> dict[str, str]:
        """Return the identity fields of the processor and of what builds for it."""
        facts = self._facts
        return {
            "architecture": facts.architecture or unknown("the system does not tell"),
            "compute_units": str(facts.compute_units),
            "cpu": facts.name,
            "memory": f"{round(facts.memory_bytes / 1024**3)} GiB",
            "compiler": self._compiler.version,
            "c_library": cpu_machine.c_library(),
            "wave_size": str(facts.wave_size),
        }

    def context(self) -> dict[str, str]:
        """Return load and frequency governor."""
        return {
            "load_average": cpu_machine.load_average(),
            "frequency_governor": cpu_machine.frequency_governor(),
        }

    def compile_hip(self, source: HipSource) -> CodeObject:
        """Build a HIP source as a shared library, or take it from the cache.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            MissingDependency: There is no compiler.
        """
        return self._compiler.compile(source)

    def load(self, code: CodeObject, dynamic_shared_bytes: int) -> LoadedKernel:
        """Load a library built by ``compile_hip``.

        Raises:
            BuildFailed: The system's loader refuses it.
            OutOfResources: It needs more shared memory than the device has.
        """
        kernel = HipOnCpuKernel(code, self._facts.wave_size)
        static_bytes = kernel.static_shared_bytes
        if static_bytes + dynamic_shared_bytes > MAX_SHARED_BYTES:
            raise OutOfResources(
                f"kernel {code.entry}: LDS {static_bytes + dynamic_shared_bytes} > "
                f"{MAX_SHARED_BYTES} bytes of the device"
            )
        return LoadedKernel(handle=kernel, shared_bytes=static_bytes)

    def allocate(self, size_bytes: int) -> GuardedBuffer:
        """Allocate memory that ends at an inaccessible page.

        Raises:
            OutOfDeviceMemory: There is not enough.
        """
        buffer = GuardedBuffer(size_bytes)
        self._buffers.append(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Give memory back; the buffer must come from ``allocate``."""
        guarded = cast("GuardedBuffer", buffer)
        guarded.release()
        self._buffers = [each for each in self._buffers if each is not guarded]

    def write(self, buffer: Buffer, array: Array) -> None:
        """Copy a contiguous host array to the start of a buffer."""
        _check_fits(buffer, array)
        ctypes.memmove(buffer.address, array.ctypes.data, array.nbytes)

    def read(self, buffer: Buffer, array: Array) -> None:
        """Copy the start of a buffer into a contiguous host array."""
        _check_fits(buffer, array)
        ctypes.memmove(array.ctypes.data, buffer.address, array.nbytes)

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte of a buffer."""
        ctypes.memset(buffer.address, byte, buffer.size_bytes)

    def launch(self, launch: Launch) -> None:
        """Launch once and wait for the end.

        Raises:
            LaunchFailed: Geometry or arguments are impossible, or the kernel's threads can't
                go on (not all reach the same barrier).
        """
        self._call(launch)()

    def prepare(
        self, launches: Sequence[Launch], submission: Literal["auto", "graph", "stream"]
    ) -> CpuLaunches:
        """Make launches ready to be timed together by the host's clock.

        Raises:
            LaunchFailed: Geometry or arguments are impossible, or a graph was demanded.
        """
        if submission == "graph":
            raise LaunchFailed("the CPU has no graphs: submission must be auto or stream")
        return CpuLaunches([self._call(launch) for launch in launches])

    def flush_cache(self) -> None:
        """Write twice the last-level cache's size."""
        if self._flush is None:
            size_bytes = 2 * (self._facts.cache_bytes or ASSUMED_CACHE_BYTES)
            self._flush = np.zeros(size_bytes // 8, np.int64)
        self._flush += 1

    def telemetry(self) -> Telemetry:
        """Read core 0's clock, where there is a frequency driver."""
        return Telemetry(clock_mhz=cpu_machine.clock_mhz())

    def close(self) -> None:
        """Give all buffers back."""
        for buffer in self._buffers:
            buffer.release()
        self._buffers = []
        self._flush = None

    def _call(self, launch: Launch) -> Callable[[], None]:
        handle = launch.kernel.handle
        if isinstance(handle, HipOnCpuKernel):
            self._check_geometry(launch)
            return handle.bind(launch)
        kernel = cast("CpuKernel", handle)
        return functools.partial(kernel.launch, launch)

    def _check_geometry(self, launch: Launch) -> None:
        geometry = launch.geometry
        if not 1 <= geometry.threads <= MAX_THREADS_PER_BLOCK:
            raise LaunchFailed(
                f"{geometry.threads} threads a block, the device has 1 to {MAX_THREADS_PER_BLOCK}"
            )
        for axis, size, limit in zip("xyz", geometry.grid, MAX_GRID, strict=True):
            if not 1 <= size <= limit:
                raise LaunchFailed(f"grid.{axis} {size}, the device has 1 to {limit}")
        shared_bytes = geometry.shared_bytes + (launch.kernel.shared_bytes or 0)
        if not 0 <= geometry.shared_bytes <= shared_bytes <= MAX_SHARED_BYTES:
            raise LaunchFailed(f"LDS {shared_bytes} > {MAX_SHARED_BYTES} bytes of the device")

    def _why_no_hip(self, asked: str | None) -> str:
        if self._compiler.path is not None:
            return ""
        return f"C++ compiler {asked!r} not found" if asked else NO_COMPILER


class CpuLaunches:
    """Launches with their arguments converted, timed by the host's monotonic clock."""

    def __init__(self, calls: Sequence[Callable[[], None]]) -> None:
        self._calls = tuple(calls)

    @property
    def submission(self) -> Literal["graph", "stream"]:
        """One call after the other."""
        return "stream"

    def elapsed_us(self) -> float:
        """Run all launches once and return their time together, in microseconds.

        Raises:
            LaunchFailed: A kernel's threads can't go on.
        """
        calls = self._calls
        start_ns = time.perf_counter_ns()
        for call in calls:
            call()
        return (time.perf_counter_ns() - start_ns) / 1000

    def close(self) -> None:
        """Let the arguments go."""
        self._calls = ()


def _why_no_triton() -> str:
    return "" if importlib.util.find_spec("triton") else "triton is not installed"


def _check_fits(buffer: Buffer, array: Array) -> None:
    if not array.flags.c_contiguous:
        raise ValueError("the array is not contiguous")
    if array.nbytes > buffer.size_bytes:
        raise ValueError(f"{array.nbytes} bytes do not fit a buffer of {buffer.size_bytes}")
