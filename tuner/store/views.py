"""What the query functions return: plain, immutable values, detached from any session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tuner.domain.environment import Environment
from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.job import LaunchGeometry
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Protocol
from tuner.domain.queue import StudyState
from tuner.domain.records import BuildReport
from tuner.domain.records import ProcessReport
from tuner.domain.records import ValidationReport
from tuner.domain.study import SourceText
from tuner.domain.workload import Workload


@dataclass(frozen=True, slots=True)
class StudySummary:
    """A study as a list shows it.

    Attributes:
        id: Row of the study.
        name: From the study file; the newest study of a name is meant by it.
        key: SHA-256 of what must be equal to go on with it.
        generation: 0, or how many times it was started afresh before.
        operator: Name of the operator.
        spec: The study file as plain values.
        device_id: Device it runs on.
        architecture: Of that device.
        environment_key: Identity of machine and toolchain.
        protocol_key: Of the full measurement.
        sampler: What proposes configs.
        sampler_seed: Its seed.
        planned: Trials it will hold when it is finished.
        state: How far it is, now.
        counts: Trials by outcome, ``running`` among them; of several attempts, each counts.
        previous_id: Newest study of the same name with another key, when it was created.
        created_at: UTC.
        finished_at: UTC.
    """

    id: int
    name: str
    key: str
    generation: int
    operator: str
    spec: Mapping[str, Plain]
    device_id: str
    architecture: str
    environment_key: str
    protocol_key: str
    sampler: str
    sampler_seed: int
    planned: int
    state: StudyState
    counts: Mapping[str, int]
    previous_id: int | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """A trial as a list shows it. Units are in the names; None is not known or not measured.

    Attributes:
        id: Row of the trial.
        study_id: Row of its study.
        study_name: Name of its study.
        implementation: Name of the implementation.
        language: ``hip`` or ``triton``.
        workload: What it was measured on.
        config: Its config.
        attempt: 0 for the first.
        outcome: None while it runs.
        stage: Where it failed.
        message: Why it failed, or "".
        quick_median_us: Of the quick stage.
        confirmed: By its own fresh processes.
        median_us: Median of the process medians.
        low_us: Smallest process median.
        high_us: Largest process median.
        bandwidth_gb_s: Fewest bytes of the workload over the median.
        max_abs_error: Largest of its validations.
        max_rel_error: Largest of its validations.
        warnings: Stability warnings.
        source_hash: Of its kernel.
        reused_from_id: Trial whose verdict it took over.
        started_at: UTC.
        finished_at: UTC.
    """

    id: int
    study_id: int
    study_name: str
    implementation: str
    language: str
    workload: Workload
    config: Config
    attempt: int
    outcome: Outcome | None
    stage: Stage | None
    message: str
    quick_median_us: float | None
    confirmed: bool
    median_us: float | None
    low_us: float | None
    high_us: float | None
    bandwidth_gb_s: float | None
    max_abs_error: float | None
    max_rel_error: float | None
    warnings: tuple[str, ...]
    source_hash: str
    reused_from_id: int | None
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredProcess:
    """One process of a trial.

    Attributes:
        stage: ``quick`` or ``confirm``.
        position: Which of the stage's processes.
        outcome: How it ended for this trial.
        message: Why it failed, or "".
        median_us: Of its samples.
        report: Samples and readings; None where it failed before measuring.
        validations: Its checks.
        recorded_at: UTC.
    """

    stage: str
    position: int
    outcome: Outcome
    message: str
    median_us: float | None
    report: ProcessReport | None
    validations: tuple[ValidationReport, ...]
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class TrialDetail:
    """Everything stored of a trial: what is needed to trust it and to repeat it.

    Attributes:
        summary: As the list shows it.
        log: Compiler output or stack trace, at most 64 KiB.
        geometry: How it was launched.
        build: How it was built; None where it never was.
        validate_s: Seconds of the quick stage's checks.
        measure_s: Seconds of the quick stage's samples.
        bytes_moved: Fewest bytes of the workload.
        processes: In the order quick, then confirming by position.
        validations: Those that belong to no process (it failed before measuring).
        environment: Where it ran.
        protocol: Full measurement of its study.
        source: Text of its kernel.
        origin: ``measured`` here.
    """

    summary: TrialSummary
    log: str
    geometry: LaunchGeometry | None
    build: BuildReport | None
    validate_s: float | None
    measure_s: float | None
    bytes_moved: int | None
    processes: tuple[StoredProcess, ...]
    validations: tuple[ValidationReport, ...]
    environment: Environment
    protocol: Protocol
    source: SourceText
    origin: str
