"""The objects of ``/api/v1`` as the API's description shows them, and the columns of their CSV.

Handlers answer with what ``tuner.api`` gives, unchanged; tests hold that it is as said here.
"""

from __future__ import annotations

from typing import Any
from typing import Literal
from typing import TypeAlias

from typing_extensions import TypedDict

JsonObject: TypeAlias = dict[str, Any]


def columns(item: type) -> tuple[str, ...]:
    """Return the keys of an item in order: the header of its list as CSV."""
    return tuple(item.__annotations__)


StudyStateName: TypeAlias = Literal[
    "queued", "running", "paused", "stopped", "cancelled", "failed", "finished"
]


class OperatorItem(TypedDict):
    """An implementation of an operator."""

    operator: str
    implementation: str
    language: str
    dims: list[str]
    dtypes: list[str]
    scalars: dict[str, float]
    description: str


class OperatorList(TypedDict):
    """Operators."""

    schema: Literal["tuner.operators/1"]
    items: list[OperatorItem]
    next: None


class DeviceItem(TypedDict):
    """A device that jobs can run on."""

    device_id: str
    host: str
    state: str
    architecture: str
    name: str
    job_id: int | None
    environment_key: str
    seen_at: str


class DeviceList(TypedDict):
    """Devices of all hosts."""

    schema: Literal["tuner.job_devices/1"]
    items: list[DeviceItem]
    next: None


class EnvironmentItem(TypedDict):
    """A machine with its toolchain; fingerprint and context are those that were seen last."""

    environment_id: int
    environment_key: str
    fingerprint: str
    architecture: str
    studies: int
    identity: dict[str, str]
    context: dict[str, str]


class EnvironmentList(TypedDict):
    """Environments, newest first."""

    schema: Literal["tuner.environments/1"]
    items: list[EnvironmentItem]
    next: str | None


class StudyItem(TypedDict):
    """A study in a list."""

    study_id: int
    study: str
    operator: str
    device_id: str
    architecture: str
    environment_key: str
    state: StudyStateName
    planned: int
    created_at: str
    finished_at: str | None
    trials: int
    ok: int
    failed: int
    skipped: int
    interrupted: int
    running: int
    is_driven: bool


class StudyList(TypedDict):
    """Studies, newest first."""

    schema: Literal["tuner.studies/1"]
    items: list[StudyItem]
    next: str | None


class Study(TypedDict):
    """A study with what was asked for."""

    schema: Literal["tuner.study/1"]
    study_id: int
    study: str
    key: str
    generation: int
    operator: str
    spec: JsonObject
    device_id: str
    architecture: str
    environment_key: str
    protocol_key: str
    sampler: str
    sampler_seed: int
    planned: int
    state: StudyStateName
    counts: dict[str, int]
    previous_id: int | None
    created_at: str
    finished_at: str | None
    trials: int


class TrialItem(TypedDict):
    """A trial in a list. What was not measured is null."""

    trial_id: int
    study_id: int
    operator: str
    shape: str
    dtype: str
    scalars: dict[str, float]
    implementation: str
    language: str
    config: JsonObject
    attempt: int
    outcome: str
    stage: str | None
    message: str
    confirmed: bool
    median_us: float | None
    low_us: float | None
    high_us: float | None
    quick_median_us: float | None
    bandwidth_gb_s: float | None
    max_abs_error: float | None
    max_rel_error: float | None
    warnings: list[str]
    source_hash: str
    reused_from: int | None
    device_id: str
    started_at: str
    finished_at: str | None


class TrialList(TypedDict):
    """Trials of a study in the order they were started."""

    schema: Literal["tuner.trials/1"]
    items: list[TrialItem]
    next: str | None


class Trial(TypedDict):
    """A trial down to its raw samples."""

    schema: Literal["tuner.trial/1"]
    claim: JsonObject | None
    summary: JsonObject
    log: str
    geometry: JsonObject | None
    build: JsonObject | None
    validate_s: float | None
    measure_s: float | None
    bytes_moved: int | None
    processes: list[JsonObject]
    validations: list[JsonObject]
    environment: JsonObject
    protocol: JsonObject
    source: JsonObject
    origin: str
    controls: list[JsonObject]
    notes: list[str]
    reproductions: list[JsonObject]


class Best(TypedDict):
    """Which config is best: the JSON of ``tuner best --format json``."""

    schema: Literal["tuner.best/1"]
    match: Literal["exact", "same-arch", "nearest-shape"]
    asked: JsonObject
    best: JsonObject
    ties: list[JsonObject]
    runner_up: JsonObject | None
    differences: list[JsonObject]
    notes: list[str]


class EvidenceItem(TypedDict):
    """A set of imported records."""

    evidence: str
    records: int
    ok: int
    operators: list[str]
    architectures: list[str]
    measured_on: list[str]
    files: list[str]
    formats: list[str]
    imported_at: str


class EvidenceList(TypedDict):
    """Sets of evidence, by name."""

    schema: Literal["tuner.evidence/1"]
    items: list[EvidenceItem]
    next: None


class RecordItem(TypedDict):
    """A record, every figure as its source writes it."""

    record_id: int
    file: str
    file_sha256: str
    line: int
    origin: Literal["imported"]
    operator: str | None
    implementation: str | None
    language: str | None
    runtime: str | None
    shape: str | None
    dtype: str | None
    scalars: JsonObject
    config: JsonObject
    outcome: str
    message: str
    unit: str | None
    median: str | None
    low: str | None
    high: str | None
    median_us: float | None
    low_us: float | None
    high_us: float | None
    samples_us: list[float]
    timer: str
    statistic: str
    max_abs_error: float | None
    max_rel_error: float | None
    measured_on: str | None
    environment: JsonObject
    protocol: JsonObject
    extra: JsonObject


class EvidenceSet(TypedDict):
    """A set's records, and the ratios that follow from them."""

    schema: Literal["tuner.evidence.set/1"]
    evidence: str
    rows: list[RecordItem]
    claims: list[JsonObject]


class ReproductionItem(TypedDict):
    """A rerun of a record, and what came of it; again: of the second look, where there was one."""

    reproduction_id: int
    original_kind: str
    original_id: str
    verdict: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    threshold: float | None
    rerun_study_id: int | None
    rerun_trial_id: int | None
    again_study_id: int | None
    again_trial_id: int | None
    differences: list[Any]
    created_at: str


class ReproductionList(TypedDict):
    """Reruns, newest first."""

    schema: Literal["tuner.reproductions/1"]
    items: list[ReproductionItem]
    next: str | None


class ComparisonItem(TypedDict):
    """A workload on both sides. The ratio is B over A."""

    shape: str
    dtype: str
    winner_a: str | None
    config_a: JsonObject | None
    median_a_us: float | None
    winner_b: str | None
    config_b: JsonObject | None
    median_b_us: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    threshold: float | None
    change: str
    winner: str
    trial_a: int | None
    trial_b: int | None
    reasons: list[str]
    scalars: dict[str, float]


class Comparison(TypedDict):
    """Two studies, environments or sources: the JSON of ``tuner compare --format json``."""

    schema: Literal["tuner.compare/1"]
    a: dict[str, str]
    b: dict[str, str]
    counts: dict[str, int]
    environment: list[JsonObject]
    protocol: list[str]
    sources: list[str]
    workloads: list[ComparisonItem]


class JobItem(TypedDict):
    """A job of the queue; subject: what it runs, with its kind, such as ``trial 10``.

    study: name of the study, or the record to reproduce as it was asked for; shapes: where they
    replace those of the study, or of the record.
    """

    job_id: int
    kind: Literal["study", "reproduce"]
    study: str
    subject: str
    shapes: list[str] | None
    request: JsonObject
    device_id: str
    state: Literal["queued", "running", "paused", "finished", "failed", "cancelled"]
    wish: Literal["run", "pause", "cancel"]
    study_id: int | None
    message: str
    result: JsonObject | None
    verdict: Literal["same", "faster", "slower", "ambiguous", "wrong", "not_comparable"] | None
    ending: Literal["good", "partial", "bad"] | None
    summary: str
    created_at: str
    started_at: str | None
    finished_at: str | None


class JobList(TypedDict):
    """Jobs."""

    schema: Literal["tuner.jobs/1"]
    items: list[JobItem]
    next: str | None


class Job(JobItem):
    """One job."""

    schema: Literal["tuner.job/1"]


class State(TypedDict):
    """How the service is."""

    schema: Literal["tuner.state/1"]
    state: Literal["ok"]
