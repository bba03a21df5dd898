"""Small, plausible studies and reports for tests of stores. Deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tuner.domain.device import Telemetry
from tuner.domain.environment import Environment
from tuner.domain.identity import Scalar
from tuner.domain.identity import text_hash
from tuner.domain.job import LaunchGeometry
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Protocol
from tuner.domain.records import BuildReport
from tuner.domain.records import Failure
from tuner.domain.records import ProcessReport
from tuner.domain.records import TrialReport
from tuner.domain.records import ValidationReport
from tuner.domain.study import SourceText
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import make_workload
from tuner.domain.workload import Workload

WORKLOAD = make_workload("vector_add", (1024, 4096), "float32", {"scale": 0.1})
GEOMETRY = LaunchGeometry((16, 1, 1), 256, 1024)
BYTES_MOVED = 33_554_432


def make_source(name: str = "serial", text: str = "void add() {}") -> SourceText:
    """Return a source text."""
    digest = text_hash(name + text)
    return SourceText(digest, "hip", "add", f"{name}.hip", {f"{name}.hip": text})


def make_environment(driver: str = "1.0", clock: str = "2.4 GHz") -> Environment:
    """Return an environment; the driver is part of its identity, the clock is not."""
    identity = {"architecture": "x86_64", "driver": driver}
    return Environment(identity, {"clock": clock, "name": "Test device"})


def make_definition(name: str = "nightly", **changes: Any) -> StudyDefinition:
    """Return a study of two implementations."""
    definition = StudyDefinition(
        name=name,
        operator="vector_add",
        spec={"name": name, "shapes": ["1024x4096"]},
        device_id="cpu",
        environment=make_environment(),
        protocol=Protocol(samples=5, processes=2),
        sources={each: make_source(each) for each in ("serial", "block")},
        languages={"serial": "hip", "block": "hip"},
        sampler="exhaustive",
        sampler_seed=7,
        planned=4,
    )
    return replace(definition, **changes)


def make_point(
    block: int = 64, implementation: str = "block", workload: Workload = WORKLOAD, **more: Scalar
) -> TrialPoint:
    """Return a point with one parameter, or more."""
    config: Mapping[str, Scalar] = {"BLOCK": block, **more}
    return TrialPoint(workload, implementation, config)


def make_report(samples_us: Sequence[float] = (10.0, 11.0, 10.5), **changes: Any) -> TrialReport:
    """Return the report of a valid trial."""
    report = TrialReport(
        failure=None,
        build=BuildReport(
            build_s=0.25,
            binary_hash=text_hash("binary"),
            compiler="testcc 1.0",
            options=("-O2", "-DBLOCK=64"),
            registers=32,
            shared_bytes=1024,
            code_bytes=4096,
        ),
        validations=(
            ValidationReport("before", "normal", 1, True, 1e-7, 2e-7),
            ValidationReport("after", "normal", 2, True, 3e-7, None),
        ),
        process=ProcessReport(
            samples_us=tuple(samples_us),
            launches_per_sample=100,
            buffer_sets=1,
            submission="stream",
            before=Telemetry(clock_mhz=2400.0),
            after=Telemetry(clock_mhz=2350.0, temperature_c=51.5),
        ),
        validate_s=0.125,
        measure_s=0.5,
    )
    return replace(report, **changes)


def make_failure(
    outcome: Outcome = Outcome.COMPILE_ERROR,
    stage: Stage = Stage.BUILD,
    message: str = "error: no such thing",
    log: str = "",
) -> TrialReport:
    """Return the report of a trial that failed."""
    return TrialReport(Failure(outcome, stage, message, log))
