"""What a kernel language must do: turn source text into an executable for a device."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import Protocol

from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.base import Toolchain
from tuner.domain.identity import bytes_hash
from tuner.domain.identity import content_hash
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.domain.records import BuildReport


@dataclass(frozen=True, slots=True)
class BuiltStep:
    """One launch of a built kernel.

    Attributes:
        loaded: The kernel function on its device.
        geometry: Grid, resolved threads and dynamic shared memory.
        arguments: Kernel parameters in call order.
        report: How it was built.
    """

    loaded: LoadedKernel
    geometry: LaunchGeometry
    arguments: tuple[KernelArgument, ...]
    report: BuildReport


@dataclass(frozen=True, slots=True)
class Executable:
    """A built kernel: what validate and measure see of any language.

    Attributes:
        steps: Its launches, in order; most kernels have one.
        array_names: Names of the arrays that they take.
        report: How they were built.
    """

    steps: tuple[BuiltStep, ...]
    array_names: frozenset[str]
    report: BuildReport

    def bind(self, buffers: Mapping[str, Buffer]) -> tuple[Launch, ...]:
        """Return the launches, in order, with buffers for the array arguments."""
        return tuple(
            Launch(step.loaded, step.geometry, step.arguments, buffers) for step in self.steps
        )


def build_steps(kernel: Kernel, build_one: Callable[[Kernel], BuiltStep]) -> Executable:
    """Build each launch of a kernel."""
    steps = tuple(build_one(step) for step in kernel.launches)
    return Executable(steps, kernel.array_names, report_of_steps([step.report for step in steps]))


def code_report(code: CodeObject, dynamic_shared_bytes: int) -> BuildReport:
    """Return what a code object tells of its build; how long it took is not known here."""
    static_bytes = code.shared_bytes
    return BuildReport(
        build_s=0.0,
        binary_hash=bytes_hash(code.content),
        compiler=code.compiler,
        options=code.options,
        registers=code.registers,
        spills=code.spills,
        spill_bytes=code.spill_bytes,
        shared_bytes=None if static_bytes is None else static_bytes + dynamic_shared_bytes,
        code_bytes=len(code.content),
        cached=code.cached,
    )


def report_of_steps(reports: Sequence[BuildReport]) -> BuildReport:
    """Return one report for all launches: times and code sizes summed, of resources the most.

    The options are those of the first launch.
    """
    if len(reports) == 1:
        return reports[0]
    hashes = [each.binary_hash for each in reports]
    return replace(
        reports[0],
        build_s=sum(each.build_s for each in reports),
        binary_hash=None if None in hashes else content_hash(hashes),
        registers=_most(each.registers for each in reports),
        spills=_most(each.spills for each in reports),
        spill_bytes=_most(each.spill_bytes for each in reports),
        shared_bytes=_most(each.shared_bytes for each in reports),
        code_bytes=_sum(each.code_bytes for each in reports),
        cached=all(each.cached for each in reports),
    )


def _most(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class Language(Protocol):
    """A kernel language."""

    def load(self) -> None:
        """Load what the first build would, ahead of it.

        Raises:
            MissingDependency: What builds this language is not installed.
        """

    def build(self, kernel: Kernel, device: Device) -> Executable:
        """Compile and load a kernel, all its launches, for a device.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            OutOfResources: It needs more than the device has.
        """

    def compile(self, kernel: Kernel, toolchain: Toolchain) -> CodeObject | None:
        """Compile a kernel's one launch as ``build`` does, into the cache that it looks into.

        Returns:
            The code, or None where the kernel is interpreted and there is nothing to compile.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            OutOfResources: It needs more than the device has.
        """

    def compile_for(self, kernel: Kernel, architecture: str, wave_size: int) -> CodeObject:
        """Compile the first launch for an architecture without a device of it.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            MissingDependency: Nothing here compiles this language for that architecture.
        """
