"""A deterministic device in memory, with kernels in Python and faults by script.

It runs everything above the device (building, validating, measuring, searching) without
hardware, and gives on demand what hardware gives rarely: bad timer values, faults at a given
launch, too little memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import cast
from typing import Literal
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import LoadedKernel
from tuner.domain.constraints import INT_LIMITS
from tuner.domain.device import DeviceFacts
from tuner.domain.device import Telemetry
from tuner.domain.identity import canonical_json
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import DeviceFault
from tuner.errors import LaunchFailed
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources


@dataclass(slots=True)
class FakeBuffer:
    """Memory of the fake device."""

    address: int
    size_bytes: int
    content: Array = field(repr=False)


@dataclass(frozen=True, slots=True)
class FakeCall:
    """What a kernel of the fake device is called with.

    Attributes:
        geometry: Of the launch.
        macros: Of the build.
        scalars: Scalar arguments by name.
        buffers: Array arguments by name, as bytes.
        launch_number: 1 for the first launch since the device was made.
    """

    geometry: LaunchGeometry
    macros: Mapping[str, Any]
    scalars: Mapping[str, float | int]
    buffers: Mapping[str, Array]
    launch_number: int

    def array(self, name: str, dtype: DTypeLike = np.float32) -> Array:
        """Return a writable view of an array argument."""
        content = self.buffers[name]
        whole = content.size // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
        return cast("Array", content[:whole].view(dtype))


FakeKernel: TypeAlias = Callable[[FakeCall], None]


@dataclass(frozen=True, slots=True)
class FakeScript:
    """How the device behaves.

    Attributes:
        launch_us: Device time of one launch, or a function of the call that gives it.
        noise: Standard deviation of a sample, as a fraction of it.
        seed: Of the noise.
        timer_us: Values that ``elapsed_us`` returns instead, round and round: zero, negative,
            NaN, whatever is to be tested.
        fault_at_launch: The launch (counted from 1) that breaks the context; 0 for none.
        compile_error: Log of the compiler that then refuses every source; "" for none.
        memory_bytes: Memory of the device.
    """

    launch_us: float | Callable[[FakeCall], float] = 10.0
    noise: float = 0.0
    seed: int = 0
    timer_us: Sequence[float] = ()
    fault_at_launch: int = 0
    compile_error: str = ""
    memory_bytes: int = 1 << 30


class FakeDevice:
    """A `Device` whose kernels are Python functions, by entry name.

    Args:
        kernels: Functions that HIP sources with that entry run as.
        script: How it behaves.
        wave_size: Lanes of a wave.
        max_threads_per_block: Largest block it launches.
        max_shared_bytes: Largest shared memory of a block.
        graphs: Whether it has graphs.
    """

    def __init__(
        self,
        kernels: Mapping[str, FakeKernel],
        script: FakeScript | None = None,
        *,
        wave_size: int = 32,
        max_threads_per_block: int = 1024,
        max_shared_bytes: int = 64 * 1024,
        graphs: bool = True,
    ) -> None:
        self._kernels = dict(kernels)
        self.script = script or FakeScript()
        self._graphs = graphs
        self._random = np.random.default_rng(self.script.seed)
        self._timer: Iterator[float] = itertools.cycle(self.script.timer_us)
        self._addresses = itertools.count(1 << 20, 1 << 32)
        self._live: dict[int, FakeBuffer] = {}
        self._fault = ""
        self.launches = 0
        self.flushes = 0
        self._facts = DeviceFacts(
            device_id="fake:0",
            kind="fake",
            architecture=f"fake{wave_size}",
            name="Fake device",
            compute_units=4,
            wave_size=wave_size,
            max_threads_per_block=max_threads_per_block,
            max_grid=(2**31 - 1, 65535, 65535),
            max_grid_threads=2**32 - 1,
            max_shared_bytes=max_shared_bytes,
            max_registers_per_thread=255,
            memory_bytes=self.script.memory_bytes,
            cache_bytes=1 << 20,
            timer="device-event",
            languages={"hip": "", "triton": "the fake device runs no Triton"},
        )

    @property
    def facts(self) -> DeviceFacts:
        """Limits and identity."""
        return self._facts

    @property
    def triton_target(self) -> None:
        """None: there is nothing to compile for."""
        return

    @property
    def live_bytes(self) -> int:
        """Memory in use."""
        return sum(buffer.size_bytes for buffer in self._live.values())

    def identity(self) -> dict[str, str]:
        """Return identity fields."""
        return {
            "architecture": self._facts.architecture,
            "compute_units": str(self._facts.compute_units),
            "wave_size": str(self._facts.wave_size),
            "driver": "fake 1",
            "compiler": "fake 1",
        }

    def context(self) -> dict[str, str]:
        """Return context fields."""
        return {"name": self._facts.name}

    def compile_hip(self, source: HipSource) -> CodeObject:
        """Pretend to compile: the code names the entry and holds the source.

        Raises:
            BuildFailed: The script says so, the source has an ``#error``, or no kernel is
                registered under its entry.
        """
        self._raise_if_broken()
        if self.script.compile_error:
            raise BuildFailed("compiler error by script", log=self.script.compile_error)
        text = source.files[source.main]
        errors = [line for line in text.splitlines() if line.lstrip().startswith("#error")]
        if errors:
            raise BuildFailed(f"{source.main}: {errors[0]}", log="\n".join(errors))
        if source.entry not in self._kernels:
            raise BuildFailed(f"no kernel {source.entry!r} is registered", log=text)
        content = canonical_json(
            {
                "files": dict(source.files),
                "main": source.main,
                "macros": dict(source.macros),
                "flags": list(source.flags),
            }
        )
        return CodeObject(content.encode(), source.entry, "fake 1", source.flags)

    def load(self, code: CodeObject, dynamic_shared_bytes: int) -> LoadedKernel:
        """Return the registered function.

        Raises:
            BuildFailed: No kernel is registered under the entry.
            OutOfResources: It needs more shared memory than the device has.
        """
        self._raise_if_broken()
        if code.entry not in self._kernels:
            raise BuildFailed(f"the code object has no kernel {code.entry!r}")
        if dynamic_shared_bytes > self._facts.max_shared_bytes:
            raise OutOfResources(
                f"{code.entry} needs {dynamic_shared_bytes} bytes of shared memory, "
                f"the device has {self._facts.max_shared_bytes}"
            )
        macros = json.loads(code.content)["macros"]
        return LoadedKernel((self._kernels[code.entry], macros), registers=16, shared_bytes=0)

    def allocate(self, size_bytes: int) -> Buffer:
        """Allocate zeroed memory.

        Raises:
            OutOfDeviceMemory: The script's memory is used up.
        """
        self._raise_if_broken()
        if self.live_bytes + size_bytes > self.script.memory_bytes:
            raise OutOfDeviceMemory(
                f"{size_bytes} bytes asked for, {self.live_bytes} of "
                f"{self.script.memory_bytes} in use"
            )
        buffer = FakeBuffer(next(self._addresses), size_bytes, np.zeros(size_bytes, np.uint8))
        self._live[buffer.address] = buffer
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Give memory back."""
        self._live.pop(buffer.address, None)

    def write(self, buffer: Buffer, array: Array) -> None:
        """Copy a contiguous host array to the start of a buffer."""
        self._raise_if_broken()
        self._bytes(buffer, array)[:] = array.reshape(-1).view(np.uint8)

    def read(self, buffer: Buffer, array: Array) -> None:
        """Copy the start of a buffer into a contiguous host array."""
        self._raise_if_broken()
        array.reshape(-1).view(np.uint8)[:] = self._bytes(buffer, array)

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte of a buffer."""
        self._raise_if_broken()
        self._live[buffer.address].content[:] = byte

    def launch(self, launch: Launch) -> None:
        """Run a kernel.

        Raises:
            DeviceFault: By script, now or earlier.
            LaunchFailed: Geometry or arguments are impossible.
        """
        self._run(self._check(launch))

    def prepare(
        self, launches: Sequence[Launch], submission: Literal["auto", "graph", "stream"]
    ) -> FakePrepared:
        """Make launches ready to be timed together.

        Raises:
            LaunchFailed: A launch is impossible, or the device has no graphs and one was demanded.
        """
        if submission == "graph" and not self._graphs:
            raise LaunchFailed("the fake device has no graphs")
        as_graph = self._graphs and (
            submission == "graph" or (submission == "auto" and len(launches) > 1)
        )
        checked = [self._check(launch) for launch in launches]
        return FakePrepared(self, checked, "graph" if as_graph else "stream")

    def flush_cache(self) -> None:
        """Count the flush."""
        self._raise_if_broken()
        self.flushes += 1

    def telemetry(self) -> Telemetry:
        """Return fixed readings."""
        return Telemetry(clock_mhz=1000.0, temperature_c=40.0)

    def close(self) -> None:
        """Forget all memory."""
        self._live.clear()

    def elapsed_us(self, launches: Sequence[Launch]) -> float:
        """Run launches and return what the script's timer says."""
        calls = [self._run(launch) for launch in launches]
        if self.script.timer_us:
            return next(self._timer)
        cost = self.script.launch_us
        total = sum(cost(call) if callable(cost) else cost for call in calls)
        return total * (1.0 + self.script.noise * float(self._random.standard_normal()))

    def _raise_if_broken(self) -> None:
        if self._fault:
            raise DeviceFault(self._fault)

    def _bytes(self, buffer: Buffer, array: Array) -> Array:
        if not array.flags.c_contiguous:
            raise ValueError("the host array is not contiguous")
        if array.nbytes > buffer.size_bytes:
            raise ValueError(f"{array.nbytes} bytes don't fit a buffer of {buffer.size_bytes}")
        return self._live[buffer.address].content[: array.nbytes]

    def _run(self, launch: Launch) -> FakeCall:
        self._raise_if_broken()
        self.launches += 1
        if self.launches == self.script.fault_at_launch:
            self._fault = f"illegal address in launch {self.launches} (by script)"
            raise DeviceFault(self._fault)
        kernel, macros = launch.kernel.handle
        call = FakeCall(
            geometry=launch.geometry,
            macros=macros,
            scalars={each.name: each.value for each in launch.arguments if each.value is not None},
            buffers={
                name: self._live[buffer.address].content for name, buffer in launch.buffers.items()
            },
            launch_number=self.launches,
        )
        kernel(call)
        return call

    def _check(self, launch: Launch) -> Launch:
        self._raise_if_broken()
        facts, geometry = self._facts, launch.geometry
        if not 1 <= geometry.threads <= facts.max_threads_per_block:
            raise LaunchFailed(
                f"{geometry.threads} threads a block, the device takes 1 to "
                f"{facts.max_threads_per_block}"
            )
        for size, limit in zip(geometry.grid, facts.max_grid, strict=True):
            if not 1 <= size <= limit:
                raise LaunchFailed(f"grid {geometry.grid}, the device takes {facts.max_grid}")
        if geometry.grid[0] * geometry.threads > facts.max_grid_threads:
            raise LaunchFailed(f"grid.x * block.x is more than {facts.max_grid_threads}")
        for argument in launch.arguments:
            if argument.type == "buffer" and argument.name not in launch.buffers:
                raise LaunchFailed(f"no buffer is given for {argument.name!r}")
            limit = INT_LIMITS.get(argument.type, 0)
            if limit and abs(int(argument.value or 0)) > limit:
                raise LaunchFailed(f"{argument.name} {argument.value} does not fit {argument.type}")
        return launch


class FakePrepared:
    """Launches ready to be timed."""

    def __init__(
        self, device: FakeDevice, launches: Sequence[Launch], submission: Literal["graph", "stream"]
    ) -> None:
        self._device = device
        self._launches = tuple(launches)
        self._submission = submission

    @property
    def submission(self) -> Literal["graph", "stream"]:
        """How they are submitted."""
        return self._submission

    def elapsed_us(self) -> float:
        """Run all launches and return what the script's timer says."""
        return self._device.elapsed_us(self._launches)

    def close(self) -> None:
        """Forget the launches."""
        self._launches = ()
