"""What NVIDIA and AMD devices share: buffers, launches and timing over a small driver protocol."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal
from typing import Protocol
from typing import TypeAlias

from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.packing import PackedArguments
from tuner.domain.device import DeviceFacts
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import LaunchFailed
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources

# A driver's queue has room for about 1000 launches; the host waits when it is full, for ever if
# the stream is held.
MAX_HELD_LAUNCHES = 128

Submit: TypeAlias = Callable[[], None]
Submission: TypeAlias = Literal["graph", "stream"]


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What the driver tells of a loaded kernel. Sizes in bytes, registers per thread."""

    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None


class GpuApi(Protocol):
    """One vendor's driver: a context and one stream on one device.

    Copies, fills, launches and records are queued on the stream; only ``synchronize`` and
    ``elapsed_us`` wait. Every call checks its status (see ``vendor.CheckedCalls``).
    """

    @property
    def fault(self) -> str:
        """What broke the context, or ""."""

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def copy_in(self, address: int, host_address: int, size_bytes: int) -> None:
        """Queue a copy from the host."""

    def copy_out(self, host_address: int, address: int, size_bytes: int) -> None:
        """Queue a copy to the host."""

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue a memset."""

    def synchronize(self) -> None:
        """Wait for everything queued."""

    def load_module(self, content: bytes) -> Any:
        """Load a code object."""

    def unload_module(self, module: Any) -> None:
        """Unload it; never raises."""

    def function(self, module: Any, entry: str) -> Any | None:
        """Return a kernel of a module, or None where there is none of that name."""

    def function_facts(self, function: Any) -> FunctionFacts:
        """Return what the driver knows of a kernel."""

    def allow_dynamic_shared(self, function: Any, static_bytes: int, size_bytes: int) -> None:
        """Let launches of a kernel ask for that much dynamic shared memory."""

    def launcher(self, function: Any, geometry: LaunchGeometry, packed: PackedArguments) -> Submit:
        """Return what queues one launch, at the least cost in host time; keeps ``packed``."""

    def create_event(self) -> Any:
        """Return a timing event."""

    def record(self, event: Any) -> None:
        """Queue the recording of an event."""

    def hold(self) -> None:
        """Make what is queued from now on wait for ``release``, where the driver can."""

    def release(self) -> None:
        """Let what was queued after ``hold`` run; never raises."""

    def elapsed_us(self, start: Any, stop: Any) -> float:
        """Wait for ``stop`` and return the device time between two recorded events."""

    def capture(self, submits: Sequence[Submit]) -> Any:
        """Return an uploaded, executable graph of the launches in sequence."""

    def launch_graph(self, graph: Any) -> None:
        """Queue a graph."""

    def destroy_graph(self, graph: Any) -> None:
        """Free a graph; never raises."""

    def close(self, events: Sequence[Any]) -> None:
        """Free events, stream and context; never raises."""


@dataclass(frozen=True, slots=True)
class GpuBuffer:
    """Device memory."""

    address: int
    size_bytes: int


class GpuModule:
    """A loaded code object, unloaded when the last kernel of it is gone."""

    def __init__(self, api: GpuApi, content: bytes) -> None:
        self.handle = api.load_module(content)
        weakref.finalize(self, api.unload_module, self.handle).atexit = False


class PreparedGpuLaunches:
    """Launches between two event records on an otherwise idle stream."""

    def __init__(
        self,
        api: GpuApi,
        events: tuple[Any, Any],
        kernels: Sequence[LoadedKernel],
        submits: Sequence[Submit],
        submission: Submission,
    ) -> None:
        self._api = api
        self._events = events
        self._kernels = tuple(kernels)  # keeps their modules loaded
        self._submits = tuple(submits)
        self._submission = submission
        self._graph = api.capture(self._submits) if submission == "graph" else None

    @property
    def submission(self) -> Submission:
        """How the launches are submitted."""
        return self._submission

    def elapsed_us(self) -> float:
        """Run all launches once and return the microseconds between the two events.

        The stream is idle before. Up to ``MAX_HELD_LAUNCHES`` launches, and any graph, are
        queued whole before the device is let go, so that the pair encloses no host time. Beyond
        that, and on a driver that can't hold a stream, it encloses the host's submission of the
        first launch (or of the graph) and, with ``stream`` submission of several short kernels,
        every gap in which the device waits for the host.
        """
        start, stop = self._events
        is_held = self._graph is not None or len(self._submits) <= MAX_HELD_LAUNCHES
        if is_held:
            self._api.hold()
        try:
            self._api.record(start)
            if self._graph is None:
                for submit in self._submits:
                    submit()
            else:
                self._api.launch_graph(self._graph)
            self._api.record(stop)
        finally:
            if is_held:
                self._api.release()
        return self._api.elapsed_us(start, stop)

    def close(self) -> None:
        """Free the graph, if there is one. May be called twice."""
        if self._graph is not None:
            self._api.destroy_graph(self._graph)
            self._graph = None
        self._submits = ()


class GpuDevice:
    """The part of ``Device`` that is the same for both vendors.

    Args:
        facts: Limits, as read from the driver.
        api: The vendor's driver on that device.
        auto_submission: What ``auto`` means for several launches.
        flush_bytes: How much to write to evict the last-level cache.
    """

    def __init__(
        self, facts: DeviceFacts, api: GpuApi, *, auto_submission: Submission, flush_bytes: int
    ) -> None:
        self._facts = facts
        self._api = api
        self._auto_submission: Submission = auto_submission
        self._flush_bytes = flush_bytes
        self._flush_buffer: GpuBuffer | None = None
        self._live: dict[int, GpuBuffer] = {}
        self._events: tuple[Any, Any] | None = None
        self._closed = False

    @property
    def facts(self) -> DeviceFacts:
        """Limits and identity."""
        return self._facts

    def load(self, code: CodeObject, dynamic_shared_bytes: int) -> LoadedKernel:
        """Load a code object and find its entry.

        Raises:
            BuildFailed: The code is not for this device, or the entry is missing.
            OutOfResources: It needs more shared memory than a block can have.
        """
        try:
            module = GpuModule(self._api, code.content)
            function = self._api.function(module.handle, code.entry)
        except LaunchFailed as error:
            raise BuildFailed(
                f"{self._facts.architecture} refuses the code object of {code.entry}: "
                f"{error.message}",
                log=code.log,
            ) from error
        if function is None:
            raise BuildFailed(f"the code object has no kernel {code.entry!r}", log=code.log)
        facts = self._api.function_facts(function)
        total = (facts.shared_bytes or 0) + dynamic_shared_bytes
        if total > self._facts.max_shared_bytes:
            raise OutOfResources(
                f"{code.entry} needs {total} bytes of shared memory a block, "
                f"{self._facts.device_id} has {self._facts.max_shared_bytes}"
            )
        self._api.allow_dynamic_shared(function, facts.shared_bytes or 0, dynamic_shared_bytes)
        return LoadedKernel(
            function, facts.registers, facts.spill_bytes, facts.shared_bytes, owner=module
        )

    def allocate(self, size_bytes: int) -> Buffer:
        """Allocate memory (both drivers align to 256 bytes or more).

        Raises:
            OutOfDeviceMemory: There is not enough.
        """
        if size_bytes > self._facts.memory_bytes:
            raise OutOfDeviceMemory(
                f"{size_bytes} bytes asked for, {self._facts.device_id} has "
                f"{self._facts.memory_bytes}"
            )
        buffer = GpuBuffer(self._api.allocate(max(size_bytes, 1)), size_bytes)
        self._live[buffer.address] = buffer
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Give memory back. Silent after a fault, which leaves nothing to give back."""
        if self._live.pop(buffer.address, None) is not None and not self._api.fault:
            self._api.free(buffer.address)

    def write(self, buffer: Buffer, array: Array) -> None:
        """Copy a contiguous host array to the start of a buffer."""
        _check_copy(buffer, array)
        if array.nbytes:
            self._api.copy_in(buffer.address, array.ctypes.data, array.nbytes)
            self._api.synchronize()

    def read(self, buffer: Buffer, array: Array) -> None:
        """Copy the start of a buffer into a contiguous host array, after all launches."""
        _check_copy(buffer, array)
        if array.nbytes:
            self._api.copy_out(array.ctypes.data, buffer.address, array.nbytes)
        self._api.synchronize()

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte of a buffer."""
        if buffer.size_bytes:
            self._api.fill(buffer.address, byte, buffer.size_bytes)
        self._api.synchronize()

    def launch(self, launch: Launch) -> None:
        """Launch once and wait for the end.

        Raises:
            DeviceFault: The kernel broke the context.
            LaunchFailed: The device refused the launch.
            OutOfResources: The launch needs more registers or threads than the device has.
        """
        self._submit(launch)()
        self._api.synchronize()

    def prepare(
        self, launches: Sequence[Launch], submission: Literal["auto", "graph", "stream"]
    ) -> PreparedGpuLaunches:
        """Make launches ready to be timed together.

        Raises:
            LaunchFailed: The device refused a launch, or can't build a graph of them.
        """
        chosen: Submission = "stream"
        if submission == "auto":
            chosen = self._auto_submission if len(launches) > 1 else "stream"
        elif submission == "graph":
            chosen = "graph"
        if self._events is None:
            self._events = (self._api.create_event(), self._api.create_event())
        # A sequence repeats few launches many times: pack the arguments of each once.
        packed = {id(launch): self._submit(launch) for launch in _distinct(launches)}
        submits = [packed[id(launch)] for launch in launches]
        kernels = [launch.kernel for launch in launches]
        return PreparedGpuLaunches(self._api, self._events, kernels, submits, chosen)

    def flush_cache(self) -> None:
        """Evict the last-level cache by writing more bytes than it holds, and wait."""
        if self._flush_buffer is None:
            address = self._api.allocate(self._flush_bytes)
            self._flush_buffer = self._live[address] = GpuBuffer(address, self._flush_bytes)
        self.fill(self._flush_buffer, 0)

    def close(self) -> None:
        """Give everything back. May be called twice, and after a fault."""
        if self._closed:
            return
        self._closed = True
        for buffer in list(self._live.values()):
            self.free(buffer)
        self._api.close(self._events or ())

    def _submit(self, launch: Launch) -> Submit:
        self._check_geometry(launch.geometry)
        return self._api.launcher(launch.kernel.handle, launch.geometry, PackedArguments(launch))

    def _check_geometry(self, geometry: LaunchGeometry) -> None:
        """Refuse what would overflow the driver's integers or be launched in part only."""
        facts = self._facts
        if not 1 <= geometry.threads <= facts.max_threads_per_block:
            raise LaunchFailed(
                f"{geometry.threads} threads a block, {facts.device_id} takes 1 to "
                f"{facts.max_threads_per_block}"
            )
        for axis, size, limit in zip("xyz", geometry.grid, facts.max_grid, strict=True):
            if not 1 <= size <= limit:
                raise LaunchFailed(
                    f"grid.{axis} is {size}, {facts.device_id} takes 1 to {limit} blocks"
                )
        threads = geometry.grid[0] * geometry.threads
        if threads > facts.max_grid_threads:
            raise LaunchFailed(
                f"grid.x * block.x is {threads}, {facts.device_id} takes up to "
                f"{facts.max_grid_threads}"
            )
        if geometry.shared_bytes > facts.max_shared_bytes:
            raise OutOfResources(
                f"{geometry.shared_bytes} bytes of dynamic shared memory, {facts.device_id} has "
                f"{facts.max_shared_bytes} a block"
            )


def _distinct(launches: Sequence[Launch]) -> list[Launch]:
    return list({id(launch): launch for launch in launches}.values())


def _check_copy(buffer: Buffer, array: Array) -> None:
    if not array.flags.c_contiguous:
        raise ValueError("the host array is not contiguous")
    if array.nbytes > buffer.size_bytes:
        raise ValueError(f"{array.nbytes} bytes don't fit a buffer of {buffer.size_bytes}")
