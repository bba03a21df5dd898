"""What a worker answers: builds, checks, samples and how the trial ended."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import Literal

from tuner.domain.device import Telemetry
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage


@dataclass(frozen=True, slots=True)
class BuildReport:
    """A finished build. What the compiler does not tell is None, never 0.

    Attributes:
        build_s: Wall-clock seconds of the build.
        binary_hash: SHA-256 of the code object; None where there is none (interpreter).
        compiler: Name and version of what built it.
        options: The options as given to the compiler.
        registers: Vector registers per thread.
        spills: Registers spilled to memory, per thread.
        spill_bytes: Local (scratch) memory per thread, in bytes.
        shared_bytes: Static plus dynamic shared memory (LDS) per block.
        code_bytes: Size of the code object.
        cached: The binary came from a cache and ``build_s`` is the time to load it.
    """

    build_s: float
    binary_hash: str | None
    compiler: str
    options: tuple[str, ...] = ()
    registers: int | None = None
    spills: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    code_bytes: int | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """One comparison of the whole output with the reference.

    Attributes:
        phase: Before or after the timed samples.
        case: Name of the input case.
        seed: Seed of its inputs.
        passed: Whether every element is within the tolerance and the inputs are unchanged.
        max_abs_error: Largest ``|out - ref|`` of the finite elements; None where none is.
        max_rel_error: Largest ``|out - ref| / |ref|`` where ``ref`` is not 0; None likewise.
        mismatches: Elements outside the tolerance.
        first_bad_index: Index of the first of them.
        message: What is wrong, or "".
    """

    phase: Literal["before", "after"]
    case: str
    seed: int
    passed: bool
    max_abs_error: float | None
    max_rel_error: float | None
    mismatches: int = 0
    first_bad_index: tuple[int, ...] | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The samples of one kernel in one process.

    Attributes:
        samples_us: Microseconds a launch, one value a sample, in the order taken.
        launches_per_sample: Launches between one pair of timer readings.
        buffer_sets: Sets of buffers the launches went round.
        submission: ``graph`` or ``stream``, as done.
        before: Readings before the first warm-up.
        after: Readings after the last sample.
    """

    samples_us: tuple[float, ...]
    launches_per_sample: int
    buffer_sets: int
    submission: str
    before: Telemetry = field(default_factory=Telemetry)
    after: Telemetry = field(default_factory=Telemetry)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why and where a trial failed."""

    outcome: Outcome
    stage: Stage
    message: str
    log: str = ""


@dataclass(frozen=True, slots=True)
class TrialReport:
    """Everything one kernel gave in one process. ``failure`` is None for an ok trial."""

    failure: Failure | None
    build: BuildReport | None = None
    validations: tuple[ValidationReport, ...] = ()
    process: ProcessReport | None = None
    validate_s: float | None = None
    measure_s: float | None = None

    @property
    def outcome(self) -> Outcome:
        """``ok`` or the failure's outcome."""
        return self.failure.outcome if self.failure else Outcome.OK


@dataclass(frozen=True, slots=True)
class BuiltAhead:
    """How a build ended that was made ahead of its trial.

    Attributes:
        failure: Why there is no code; None where the worker will find it in its cache.
        build_s: Wall-clock seconds; None where nothing was built, which leaves it to the worker.
        cached: It was in the cache already.
    """

    failure: Failure | None = None
    build_s: float | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Answer to a compile job: a build, or why there is none."""

    build: BuildReport | None
    error: str = ""
    log: str = ""
