"""HIP C++ as a kernel language: one source, compiled by whatever the device compiles with."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.base import Toolchain
from tuner.bench.languages.base import build_steps
from tuner.bench.languages.base import BuiltStep
from tuner.bench.languages.base import code_report
from tuner.bench.languages.base import Executable
from tuner.bench.languages.hip_offline import compile_offline
from tuner.domain.job import Kernel
from tuner.domain.records import BuildReport
from tuner.errors import BuildFailed
from tuner.errors import MissingDependency


class HipLanguage:
    """Builds HIP C++ kernels; see ``Language``."""

    def load(self) -> None:
        """Load nothing: compilers of HIP C++ belong to the devices."""

    def build(self, kernel: Kernel, device: Device) -> Executable:
        """Compile and load a kernel, all its launches, for a device.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            OutOfResources: It needs more than the device has.
        """
        return build_steps(kernel, partial(_build, device))

    def compile(self, kernel: Kernel, toolchain: Toolchain) -> CodeObject:
        """Compile a kernel, or take it from the device's cache.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
        """
        return toolchain.compile_hip(hip_source(kernel))

    def compile_for(self, kernel: Kernel, architecture: str, wave_size: int) -> CodeObject:
        """Compile for an AMD architecture with clang, without a device of it.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            MissingDependency: No clang for AMD is installed, or the architecture is not AMD's.
        """
        if not architecture.startswith("gfx"):
            raise MissingDependency(
                f"HIP can't be compiled for {architecture} without its device: NVRTC does it "
                "on the machine with the GPU",
                hint="give an AMD architecture (gfx...), or run the study on the device",
            )
        return compile_offline(hip_source(kernel), architecture, wave_size)


def hip_source(kernel: Kernel) -> HipSource:
    """Return what a device compiles: the constants as macros, the option ``flags`` split.

    Raises:
        BuildFailed: The flags have an unbalanced quote.
    """
    flags = str(kernel.options.get("flags", ""))
    try:
        split = tuple(shlex.split(flags))
    except ValueError as error:
        raise BuildFailed(f"compiler flags {flags!r}: {error}") from error
    return HipSource(kernel.files, kernel.main, kernel.entry, dict(kernel.constants), split)


def _build(device: Device, kernel: Kernel) -> BuiltStep:
    start_s = time.perf_counter()
    code = device.compile_hip(hip_source(kernel))
    loaded = device.load(code, kernel.geometry.shared_bytes)
    report = _with_drivers_figures(code, loaded, kernel.geometry.shared_bytes)
    report = replace(report, build_s=time.perf_counter() - start_s)
    return BuiltStep(loaded, kernel.geometry, kernel.arguments, report)


def _with_drivers_figures(
    code: CodeObject, loaded: LoadedKernel, dynamic_shared_bytes: int
) -> BuildReport:
    """Put a build's facts together; the driver's figures go before the compiler's."""
    known = replace(
        code,
        registers=_first_known(loaded.registers, code.registers),
        spill_bytes=_first_known(loaded.spill_bytes, code.spill_bytes),
        shared_bytes=_first_known(loaded.shared_bytes, code.shared_bytes),
    )
    return code_report(known, dynamic_shared_bytes)


def _first_known(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
