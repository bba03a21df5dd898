"""What a kernel language must do: turn source text into an executable for a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.base import Toolchain
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.domain.records import BuildReport


@dataclass(frozen=True, slots=True)
class Executable:
    """A built kernel: what validate and measure see of any language.

    Attributes:
        loaded: The kernel on its device.
        geometry: Grid, resolved threads and dynamic shared memory.
        arguments: Kernel parameters in call order.
        report: How it was built.
    """

    loaded: LoadedKernel
    geometry: LaunchGeometry
    arguments: tuple[KernelArgument, ...]
    report: BuildReport

    def bind(self, buffers: Mapping[str, Buffer]) -> Launch:
        """Return a launch with buffers for the array arguments."""
        return Launch(self.loaded, self.geometry, self.arguments, buffers)


class Language(Protocol):
    """A kernel language."""

    def build(self, kernel: Kernel, device: Device) -> Executable:
        """Compile and load a kernel for a device.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            OutOfResources: It needs more than the device has.
        """

    def compile(self, kernel: Kernel, toolchain: Toolchain) -> CodeObject | None:
        """Compile a kernel as ``build`` does, into the cache that ``build`` looks into.

        Returns:
            The code, or None where the kernel is interpreted and there is nothing to compile.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            OutOfResources: It needs more than the device has.
        """

    def compile_for(self, kernel: Kernel, architecture: str, wave_size: int) -> CodeObject:
        """Compile for an architecture without a device of it.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            MissingDependency: Nothing here compiles this language for that architecture.
        """
