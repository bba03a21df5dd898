"""What the parent asks of a worker: a kernel, a problem and a protocol, as plain values.

A job holds everything needed to build, check and time a kernel again: source text, not a
path; launch geometry, not the function that computed it. Only the reference is named by path.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace
from typing import Literal

from tuner.domain.identity import Scalar
from tuner.domain.workload import shape_text


@dataclass(frozen=True, slots=True)
class LaunchGeometry:
    """Grid in blocks (programs), threads of a block, dynamic shared memory.

    ``threads`` is 0 for Triton kernels, where num_warps and the wave size fix it.
    """

    grid: tuple[int, int, int]
    threads: int = 0
    shared_bytes: int = 0

    def __str__(self) -> str:
        threads = f"{self.threads} threads" if self.threads else "the compiler's threads"
        return f"grid {shape_text(self.grid)}, {threads}, {self.shared_bytes} shared bytes"


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One kernel parameter, in call order.

    Attributes:
        name: An array of the problem, a dimension or a scalar argument.
        type: ``buffer`` for arrays, else ``int32``, ``int64`` or ``float32``.
        value: The scalar's value; None for arrays.
        dtype: Element type of an array, e.g. ``float32``; "" for scalars.
    """

    name: str
    type: Literal["buffer", "int32", "int64", "float32"]
    value: float | int | None = None
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A further launch of a kernel that needs several: another entry point of the same source.

    Attributes:
        entry: Name of the kernel function.
        constants: As those of ``Kernel``.
        arguments: Parameters in call order.
        geometry: How it is launched.
    """

    entry: str
    constants: dict[str, Scalar]
    arguments: tuple[KernelArgument, ...]
    geometry: LaunchGeometry


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to build: source text with its includes, entry point and compile-time values.

    Attributes:
        language: ``hip`` or ``triton``.
        files: Text of each file of the include closure, by relative path.
        main: Which of ``files`` holds the entry point.
        entry: Name of the kernel function.
        constants: Macros (HIP) or constexpr arguments (Triton).
        options: Compiler options: Triton's ``num_warps``, ``num_stages``; HIP's ``flags``.
        arguments: Parameters in call order (without Triton's constexprs).
        geometry: How it is launched.
        then: Launches that follow, each when the one before has ended.
    """

    language: str
    files: dict[str, str]
    main: str
    entry: str
    constants: dict[str, Scalar]
    options: dict[str, Scalar]
    arguments: tuple[KernelArgument, ...]
    geometry: LaunchGeometry
    then: tuple[Step, ...] = ()

    @property
    def launches(self) -> tuple[Kernel, ...]:
        """One kernel of a single launch for each step, in order."""
        further = (
            replace(
                self,
                entry=step.entry,
                constants=step.constants,
                arguments=step.arguments,
                geometry=step.geometry,
                then=(),
            )
            for step in self.then
        )
        return (replace(self, then=()), *further)

    @property
    def array_names(self) -> frozenset[str]:
        """Names of the arrays that some step takes."""
        arguments = [*self.arguments, *(each for step in self.then for each in step.arguments)]
        return frozenset(each.name for each in arguments if each.type == "buffer")


@dataclass(frozen=True, slots=True)
class Fill:
    """How one array is filled: a distribution and a factor. See ``tuner.bench.inputs``."""

    kind: Literal["normal", "uniform", "zero", "mixed_sign", "one_row_zero"]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class InputCase:
    """A named set of inputs: a fill for each input array."""

    name: str
    fills: dict[str, Fill]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array of the problem.

    Attributes:
        name: As the kernel's arguments call it.
        shape: Elements along each axis.
        dtype: Of an element.
        role: ``input``: filled by a case and never changed; ``output``: filled with NaN before
            a check and compared with the reference; ``scratch``: all bytes 0 when the kernel
            begins, which must leave it so; ``intermediate``: filled with NaN before a check,
            written and read by the kernel's steps, of no interest afterwards.
        row_padding: Elements between the end of a row (along the last axis) and the next one.
            No kernel may write there, and what is there must not matter.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Literal["input", "output", "scratch", "intermediate"]
    row_padding: int = 0

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape with the padding of each row."""
        if not self.row_padding:
            return self.shape
        return (*self.shape[:-1], self.shape[-1] + self.row_padding)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A result is right where ``|out - ref| <= absolute + relative * |ref|``."""

    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class Problem:
    """What is computed and how it is checked.

    Attributes:
        arrays: Inputs, outputs, scratch and intermediates.
        cases: Inputs to check with; the first is also timed unless the protocol names another.
        scalars: Scalar arguments of the reference.
        tolerance: Of the comparison with the reference.
        reference_path: Python file with the reference.
        reference_function: Takes the inputs as float64 arrays and the scalars by name, and
            returns the outputs as float64 arrays in the order of ``arrays``.
    """

    arrays: tuple[ArraySpec, ...]
    cases: tuple[InputCase, ...]
    scalars: dict[str, float]
    tolerance: Tolerance
    reference_path: str
    reference_function: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many samples to take and how, for one process."""

    warmup: int
    samples: int
    launches_per_sample: int | None
    target_sample_us: float
    cache: Literal["hot", "cold"]
    submission: Literal["auto", "graph", "stream"]
    input_case: str
    input_seed: int


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Build, validate, measure and validate again, in a warm worker."""

    kernel: Kernel
    problem: Problem
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class ConfirmJob:
    """Measure several kernels of one problem, interleaved, in a fresh worker.

    Attributes:
        kernels: The finalists.
        rotation: Which finalist goes first: processes start at different ones.
    """

    kernels: tuple[Kernel, ...]
    problem: Problem
    sampling: Sampling
    rotation: int = 0


@dataclass(frozen=True, slots=True)
class ScreenJob:
    """Build, validate and briefly measure several kernels of one problem, interleaved.

    Attributes:
        kernels: The candidates of a batch.
        rotation: Which of them is sampled first.
    """

    kernels: tuple[Kernel, ...]
    problem: Problem
    sampling: Sampling
    rotation: int = 0


@dataclass(frozen=True, slots=True)
class ControlJob:
    """Measure the controls of a run, one after the other: see ``tuner.domain.controls``.

    Attributes:
        kernel: The sentinel, which a trial has checked.
        problem: What it solves.
        sampling: How each is measured.
        copy_bytes: Bytes that the copy reads and writes, together.
    """

    kernel: Kernel
    problem: Problem
    sampling: Sampling
    copy_bytes: int


@dataclass(frozen=True, slots=True)
class BuildJob:
    """Build a kernel for a device without it, into the cache that its worker builds from.

    Attributes:
        kernel: What to build.
        device_kind: ``DeviceFacts.kind``.
        target: ``DeviceFacts.target``.
        wave_size: ``DeviceFacts.wave_size``.
    """

    kernel: Kernel
    device_kind: str
    target: str
    wave_size: int


@dataclass(frozen=True, slots=True)
class CompileJob:
    """Build a kernel for an architecture without running it."""

    kernel: Kernel
    architecture: str
    wave_size: int
