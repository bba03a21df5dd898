"""Values that a study and the store exchange: definitions, trials under way, stored trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime

from tuner.domain.environment import Environment
from tuner.domain.identity import Config
from tuner.domain.identity import config_text
from tuner.domain.identity import content_hash
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Protocol
from tuner.domain.workload import Workload

# Key in what is stored as a rerun's study file: what it reproduces. A study file can't have it.
REPRODUCES = "reproduces"
# Key in that, beside the record: chosen at random by each rerun, the same in all of its studies.
RERUN_KEY = "run"


@dataclass(frozen=True, slots=True)
class SourceText:
    """Full text of a kernel's source, stored once per hash."""

    source_hash: str
    language: str
    entry: str
    main: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """One question, with everything that makes its answers comparable.

    Attributes:
        name: From the study file; several studies can share it, the newest is meant.
        operator: Name of the operator.
        spec: The validated study file as plain values.
        device_id: Device it runs on.
        environment: Machine and toolchain.
        protocol: Full measurement of the finalists.
        sources: Source text of each implementation, by implementation name.
        languages: Language of each implementation, by implementation name.
        sampler: What proposes configs, e.g. ``exhaustive``.
        sampler_seed: Its seed.
        planned: Trials the study will hold when it is finished.
    """

    name: str
    operator: str
    spec: Mapping[str, Plain]
    device_id: str
    environment: Environment
    protocol: Protocol
    sources: Mapping[str, SourceText]
    languages: Mapping[str, str]
    sampler: str
    sampler_seed: int
    planned: int

    @property
    def key(self) -> str:
        """SHA-256 of what must be equal for a run to go on with a stored study."""
        return content_hash(
            {
                "name": self.name,
                "spec": dict(self.spec),
                "environment": self.environment.key,
                "sources": {name: each.source_hash for name, each in self.sources.items()},
                "protocol": self.protocol.key,
            }
        )


@dataclass(frozen=True, slots=True)
class OpenedStudy:
    """A study ready to be driven.

    Attributes:
        study_id: Row of the study.
        state: ``new``, ``resumed`` or ``finished``.
        previous_id: Newest study of the same name with another key, or None.
        interrupted: Trials found running without an owner and marked interrupted.
    """

    study_id: int
    state: str
    previous_id: int | None = None
    interrupted: int = 0


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """What a trial is about: one implementation and config on one workload."""

    workload: Workload
    implementation: str
    config: Config

    @property
    def config_key(self) -> str:
        """SHA-256 of the config."""
        return content_hash(dict(self.config))

    @property
    def key(self) -> tuple[str, str, str]:
        """Hashable identity within a study: workload, implementation, config."""
        return (self.workload.key, self.implementation, self.config_key)

    def __str__(self) -> str:
        return f"{self.workload.shape_text} {self.implementation} {config_text(self.config)}"


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A stored trial as a study needs it to resume, rank and finish.

    Attributes:
        trial_id: Row of the trial.
        point: What it is about.
        attempt: 0 for the first; an interrupted trial is tried again as the next attempt.
        outcome: None while it runs.
        quick_median_us: Median of the quick stage, microseconds a launch.
        confirmed: Measured by the full protocol in fresh processes, all valid.
        process_medians_us: Medians of its confirming processes.
        confirm_processes: Positions of the confirming processes stored so far.
    """

    trial_id: int
    point: TrialPoint
    attempt: int
    outcome: Outcome | None
    quick_median_us: float | None = None
    confirmed: bool = False
    process_medians_us: tuple[float, ...] = ()
    confirm_processes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BestCandidate:
    """A confirmed, valid trial that could answer ``best``.

    Attributes:
        trial_id: Row of the trial.
        study_id: Row of its study.
        study_name: Name of its study.
        implementation: Name of the implementation.
        language: ``hip`` or ``triton``.
        config: Its config.
        workload: What it was measured on.
        median_us: Median of the process medians.
        process_medians_us: Each process's median.
        samples_us: Raw samples per process, in order; empty unless asked for.
        bandwidth_gb_s: Fewest bytes of the workload over the median.
        source_hash: Of its kernel.
        environment: Where it was measured.
        protocol: How it was measured.
        warnings: Stability warnings.
        finished_at: UTC.
        max_abs_error: Largest error of its validations.
    """

    trial_id: int
    study_id: int
    study_name: str
    implementation: str
    language: str
    config: Config
    workload: Workload
    median_us: float
    process_medians_us: tuple[float, ...]
    bandwidth_gb_s: float
    source_hash: str
    environment: Environment
    protocol: Protocol
    warnings: tuple[str, ...]
    finished_at: datetime
    max_abs_error: float | None = None
    samples_us: tuple[tuple[float, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class NearbyResults:
    """What an implementation gave on another workload of its operator, or on another device.

    Attributes:
        workload: What was solved.
        same_device: On a device of the same architecture; else of the same family.
        results: Configs with their quick medians in microseconds, valid ones only.
    """

    workload: Workload
    same_device: bool
    results: tuple[tuple[Config, float], ...]


@dataclass(frozen=True, slots=True)
class SkippedPoint:
    """A config that a constraint refused before launch."""

    point: TrialPoint
    reason: str
    stage: Stage = Stage.PLAN
