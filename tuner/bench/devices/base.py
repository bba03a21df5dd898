"""What a device must do. Devices do not know each other; languages know only this."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Literal
from typing import Protocol
from typing import TypeAlias

from numpy.typing import NDArray

from tuner.domain.device import DeviceFacts
from tuner.domain.device import Telemetry
from tuner.domain.identity import Scalar
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class HipSource:
    """A HIP C++ kernel to compile: files, macros and flags."""

    files: Mapping[str, str]
    main: str
    entry: str
    macros: Mapping[str, Scalar]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A compiled kernel.

    Attributes:
        content: Bytes of the cubin, hsaco or shared library.
        entry: Symbol of the kernel.
        compiler: Name and version of what built it.
        options: Options as given to the compiler.
        log: What the compiler printed.
        registers: Vector registers per thread, where the compiler tells.
        spills: Registers spilled per thread, where the compiler tells.
        spill_bytes: Local (scratch) memory per thread, where the compiler tells.
        shared_bytes: Static shared memory per block, where the compiler tells.
        cached: It came from a cache, not from the compiler.
    """

    content: bytes
    entry: str
    compiler: str
    options: tuple[str, ...] = ()
    log: str = ""
    registers: int | None = None
    spills: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class TritonTarget:
    """Arguments of Triton's GPUTarget: backend, architecture and wave size."""

    backend: Literal["cuda", "hip"]
    arch: int | str
    wave_size: int


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel ready to launch on the device that loaded it.

    Attributes:
        handle: The device's own object (CUfunction, hipFunction_t, a Python callable).
        registers: Vector registers per thread, where the driver tells.
        spill_bytes: Local memory per thread in bytes, where the driver tells.
        shared_bytes: Static shared memory per block, where the driver tells.
        owner: Keeps the module alive as long as the kernel.
    """

    handle: Any
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    owner: Any = field(default=None, repr=False)


class Buffer(Protocol):
    """Memory of a device."""

    @property
    def size_bytes(self) -> int:
        """Size as asked for."""

    @property
    def address(self) -> int:
        """Address as the kernel gets it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: what, how wide, and with which arguments.

    Attributes:
        kernel: Loaded by the same device.
        geometry: Grid, threads and dynamic shared memory; threads already resolved.
        arguments: The kernel's parameters in call order.
        buffers: A buffer for each argument of type ``buffer``, by name.
    """

    kernel: LoadedKernel
    geometry: LaunchGeometry
    arguments: tuple[KernelArgument, ...]
    buffers: Mapping[str, Buffer]


class PreparedLaunches(Protocol):
    """Launches made ready to be timed together."""

    @property
    def submission(self) -> Literal["graph", "stream"]:
        """How they are submitted."""

    def elapsed_us(self) -> float:
        """Run all launches once and return the device time of all of them together.

        Only the launches lie between the two timer readings.

        Raises:
            DeviceFault: The kernel broke the context.
            LaunchFailed: The device refused a launch.
        """

    def close(self) -> None:
        """Free what was prepared."""


class Toolchain(Protocol):
    """What builds kernels for a device: the part of it that needs no hardware."""

    @property
    def triton_target(self) -> TritonTarget | None:
        """What Triton compiles for; None where its interpreter is used."""

    def compile_hip(self, source: HipSource) -> CodeObject:
        """Compile HIP C++ for the device, or take the result from the cache.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
        """


@dataclass(frozen=True, slots=True)
class OfflineToolchain:
    """A toolchain without its device.

    Attributes:
        triton_target: What Triton compiles for; None where its interpreter is used.
        compile_hip: Compiles HIP C++, as ``Toolchain.compile_hip``.
    """

    triton_target: TritonTarget | None
    compile_hip: Callable[[HipSource], CodeObject]


class Device(Toolchain, Protocol):
    """A device of one kind. All calls are made from one thread."""

    @property
    def facts(self) -> DeviceFacts:
        """Limits and identity."""

    def identity(self) -> dict[str, str]:
        """Return the environment's identity fields: driver, runtime, compiler, PCI id, ..."""

    def context(self) -> dict[str, str]:
        """Return the environment's context fields of the device: VBIOS, clocks, power, ..."""

    def load(self, code: CodeObject, dynamic_shared_bytes: int) -> LoadedKernel:
        """Load a code object and find its entry.

        Raises:
            BuildFailed: The entry is missing.
            OutOfResources: It needs more shared memory than the device has.
        """

    def allocate(self, size_bytes: int) -> Buffer:
        """Allocate memory aligned to at least 256 bytes on GPUs.

        Raises:
            OutOfDeviceMemory: There is not enough.
        """

    def free(self, buffer: Buffer) -> None:
        """Give memory back."""

    def write(self, buffer: Buffer, array: Array) -> None:
        """Copy a contiguous host array to the start of a buffer."""

    def read(self, buffer: Buffer, array: Array) -> None:
        """Copy the start of a buffer into a contiguous host array, after all launches."""

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Set every byte of a buffer. 0xFF makes NaNs of every IEEE dtype."""

    def launch(self, launch: Launch) -> None:
        """Launch once and wait for the end.

        Raises:
            DeviceFault: The kernel broke the context.
            LaunchFailed: The device refused the launch.
        """

    def prepare(
        self, launches: Sequence[Launch], submission: Literal["auto", "graph", "stream"]
    ) -> PreparedLaunches:
        """Make launches ready to be timed together.

        Raises:
            LaunchFailed: The device refused a launch, or has no graphs and one was demanded.
        """

    def flush_cache(self) -> None:
        """Evict the last-level cache by writing more bytes than it holds, and wait."""

    def telemetry(self) -> Telemetry:
        """Read clocks, temperature and power where the vendor library gives them."""

    def close(self) -> None:
        """Give everything back."""
