"""What a vendor's profiler tells of a kernel. What it does not tell is None, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Literal
from typing import TypeAlias

from tuner.domain.identity import Plain
from tuner.domain.stats import median

Size3: TypeAlias = tuple[int, int, int]
ProfileOrigin: TypeAlias = Literal["run", "file"]
PROFILE_ORIGINS: tuple[ProfileOrigin, ...] = ("run", "file")


class ProfilerName(StrEnum):
    """A profiler whose output is understood."""

    NCU = "ncu"  # NVIDIA Nsight Compute
    ROCPROFV3 = "rocprofv3"  # AMD ROCprofiler-SDK


class NcuMetric(StrEnum):
    """The metrics of Nsight Compute that are asked for and read."""

    DURATION = "gpu__time_duration.sum"
    REGISTERS = "launch__registers_per_thread"
    STATIC_SHARED = "launch__shared_mem_per_block_static"
    DYNAMIC_SHARED = "launch__shared_mem_per_block_dynamic"


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a kernel takes of the device.

    Attributes:
        registers: Vector registers per thread.
        accumulation_registers: Accumulation registers per thread (AMD matrix units).
        scalar_registers: Scalar registers per wave.
        shared_static_bytes: Shared memory (LDS) per block that is fixed in the code.
        shared_dynamic_bytes: Shared memory (LDS) per block that is asked for at launch.
        scratch_bytes: Local (scratch) memory per thread.
    """

    registers: int | None = None
    accumulation_registers: int | None = None
    scalar_registers: int | None = None
    shared_static_bytes: int | None = None
    shared_dynamic_bytes: int | None = None
    scratch_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One kernel launch as a profiler saw it.

    Attributes:
        line: Line of the file it is from, from 1.
        kernel_name: As written: plain, mangled or demangled.
        time_us: From the kernel's begin to its end on the device.
        grid: Blocks per axis.
        block: Threads per axis.
        resources: What the kernel takes.
        extra: Columns that have no field here, as written.
    """

    line: int
    kernel_name: str
    time_us: float | None = None
    grid: Size3 | None = None
    block: Size3 | None = None
    resources: KernelResources = KernelResources()
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """All dispatches of one file, in the order in which they began.

    Attributes:
        profiler: What wrote it.
        dispatches: At least one.
        shows_copies: Copies and fills that run as kernels are among them.
    """

    profiler: ProfilerName
    dispatches: tuple[Dispatch, ...]
    shows_copies: bool


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """The dispatches of one kernel out of a trace.

    Attributes:
        profiler: What measured it.
        profiler_version: As it names itself.
        kernel_name: As the profiler writes it.
        dispatches: Launches of the kernel in the trace.
        excluded_dispatches: Of them launches that checked the output or warmed up: not timed.
        samples_us: Time of each other launch, in the order in which they began.
        copy_dispatches: Copies that ran as kernels.
        fill_dispatches: Memory fills that ran as kernels.
        other_dispatches: Launches of other kernels, or of this one with another geometry.
        grid: Blocks per axis.
        block: Threads per axis.
        resources: What the kernel takes.
        extra: Columns without a field here: a text, or a list where dispatches differ.
    """

    profiler: ProfilerName
    profiler_version: str | None
    kernel_name: str
    dispatches: int
    excluded_dispatches: int
    samples_us: tuple[float, ...]
    copy_dispatches: int | None
    fill_dispatches: int | None
    other_dispatches: int
    grid: Size3 | None
    block: Size3 | None
    resources: KernelResources
    extra: Mapping[str, Plain]

    @property
    def median_us(self) -> float | None:
        """Median of the samples; None where the profiler gave no times."""
        return median(self.samples_us) if self.samples_us else None


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """Where a profile is from.

    Attributes:
        origin: ``run`` here, or read from a ``file``.
        file_name: Without its folder; None for a run.
        file_sha256: Of the file's bytes; None for a run.
    """

    origin: ProfileOrigin
    file_name: str | None = None
    file_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A profile with its row.

    Attributes:
        id: Row of the profile.
        trial_id: Trial whose kernel was profiled.
        profile: What the profiler told.
        source: Where it is from.
        environment_key: Identity of machine and toolchain of a run; None for a file.
        created_at: UTC.
    """

    id: int
    trial_id: int
    profile: KernelProfile
    source: ProfileSource
    environment_key: str | None
    created_at: datetime
