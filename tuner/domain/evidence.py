"""Results that others measured, as far as a file states them, and verdicts of reruns.

Nothing is filled in: what a source does not state is None, or missing from a mapping. Figures are
kept as they were written, so that a table can show them unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from decimal import InvalidOperation
from enum import StrEnum
from typing import Literal
from typing import TypeAlias

from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.stats import median

Unit: TypeAlias = Literal["s", "ms", "us", "ns"]
OriginalKind: TypeAlias = Literal["trial", "record", "study", "folder"]
Verdict: TypeAlias = Literal["same", "faster", "slower", "ambiguous", "wrong", "not_comparable"]

UNITS: tuple[Unit, ...] = ("s", "ms", "us", "ns")
ORIGINAL_KINDS: tuple[OriginalKind, ...] = ("trial", "record", "study", "folder")
VERDICTS: tuple[Verdict, ...] = (
    *("same", "faster", "slower", "ambiguous", "wrong", "not_comparable"),
)
AGAIN = "-again"  # what the study of a second look is called, after the first one's

_TO_US = {"s": 6, "ms": 3, "us": 0, "ns": -3}  # powers of ten
_DECIMAL = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_FIGURE_CHARACTERS = 64
_SHOWN_CHARACTERS = 40
_LEAST_US = 1e-9
_MOST_US = 1e15  # 31 years


class Timer(StrEnum):
    """What a time was read from. Figures of different timers are never compared."""

    EVENT = "event"  # a pair of device events around the launches
    KERNEL_TRACE = "kernel_trace"  # the profiler's begin and end of the kernel itself
    UNSTATED = "unstated"


class Statistic(StrEnum):
    """What a figure is of the times it sums up."""

    MEDIAN = "median"
    MEDIAN_OF_PROCESS_MEDIANS = "median_of_process_medians"
    MEAN = "mean"


def exact_us(text: str, unit: Unit) -> float:
    """Return the double nearest to a written time in microseconds; the shift is decimal.

    Raises:
        ValueError: The text is no decimal number, or no time above 0 and below 31 years.
    """
    clean = text.strip()
    if len(clean) > _FIGURE_CHARACTERS or not _DECIMAL.fullmatch(clean):
        raise ValueError(f"{clean[:_SHOWN_CHARACTERS]!r} is not a time")
    try:
        value = float(Decimal(clean).scaleb(_TO_US[unit]))
    except (InvalidOperation, OverflowError) as error:
        raise ValueError(f"{clean[:_SHOWN_CHARACTERS]!r} is not a time") from error
    if not _LEAST_US <= value <= _MOST_US:
        raise ValueError(f"{clean[:_SHOWN_CHARACTERS]!r} {unit} can't be the time of a kernel")
    return value


@dataclass(frozen=True, slots=True)
class RecordedTimes:
    """Times as a source writes them.

    Attributes:
        unit: Of all texts.
        timer: What they were read from.
        statistic: What ``median`` is; a source may give a mean instead.
        median: The figure; None where only samples are given, or nothing.
        low: Smallest process median.
        high: Largest process median.
        samples: Single times in the order taken; empty where none are given.
    """

    unit: Unit = "ms"
    timer: Timer = Timer.UNSTATED
    statistic: Statistic = Statistic.MEDIAN
    median: str | None = None
    low: str | None = None
    high: str | None = None
    samples: tuple[str, ...] = ()

    @property
    def samples_us(self) -> tuple[float, ...]:
        """Samples in microseconds.

        Raises:
            ValueError: A text is no time.
        """
        return tuple(exact_us(text, self.unit) for text in self.samples)

    @property
    def median_us(self) -> float | None:
        """The figure in microseconds, or the median of the samples where no figure is given.

        Raises:
            ValueError: A text is no time.
        """
        if self.median is not None:
            return exact_us(self.median, self.unit)
        return median(self.samples_us) if self.samples else None

    @property
    def range_us(self) -> tuple[float, float] | None:
        """Smallest and largest process median in microseconds.

        Raises:
            ValueError: A text is no time.
        """
        if self.low is None or self.high is None:
            return None
        return exact_us(self.low, self.unit), exact_us(self.high, self.unit)


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """One result as a file states it.

    Attributes:
        line: Line of the file, from 1; in a JSON file, the number of the entry.
        outcome: How it ended.
        message: Why it is not ok; "" where it is.
        operator: Name of the operator.
        implementation: Name the source gives to the kernel.
        language: ``hip``, ``triton``, ...
        runtime: What launched it.
        shape: E.g. ``1024x4096``.
        dtype: Element type.
        scalars: Scalar arguments.
        config: Parameters, with the source's own names.
        protocol: Of the measurement, with our names where they mean the same.
        environment: With the names of our fingerprint where they mean the same.
        times: Figures and samples; none unless it is ok.
        max_abs_error: Largest absolute error of the output.
        max_rel_error: Largest relative error of the output.
        measured_on: Day, ISO 8601.
        extra: Everything else the source states.
    """

    line: int
    outcome: Outcome = Outcome.OK
    message: str = ""
    operator: str | None = None
    implementation: str | None = None
    language: str | None = None
    runtime: str | None = None
    shape: str | None = None
    dtype: str | None = None
    scalars: Mapping[str, float] = field(default_factory=dict)
    config: Config = field(default_factory=dict)
    protocol: Mapping[str, Plain] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    times: RecordedTimes = RecordedTimes()
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    measured_on: str | None = None
    extra: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def rerun(self) -> tuple[str, Config] | None:
        """Implementation and config of ours that do the same, where the file names them."""
        named = self.extra.get("rerun")
        return (named["implementation"], named["config"]) if isinstance(named, dict) else None


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file with evidence.

    Attributes:
        sha256: Of its bytes.
        name: Without its folder.
        format: Name of the format it was read as.
        size_bytes: Of the file.
    """

    sha256: str
    name: str
    format: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with where it came from.

    Attributes:
        id: Row of the record.
        evidence: Name of its set.
        file: File it was imported from.
        imported_at: UTC.
        record: What the file states.
    """

    id: int
    evidence: str
    file: EvidenceFile
    imported_at: datetime
    record: EvidenceRecord


@dataclass(frozen=True, slots=True)
class EvidenceSummary:
    """A set of records as a list shows it.

    Attributes:
        name: Of the set.
        records: How many.
        ok: Of them valid.
        operators: Names, as far as stated.
        architectures: As far as stated.
        measured_on: Days, as far as stated.
        files: Names of the files it came from.
        formats: Of those files.
        imported_at: When the newest of them was imported, UTC.
    """

    name: str
    records: int
    ok: int
    operators: tuple[str, ...]
    architectures: tuple[str, ...]
    measured_on: tuple[str, ...]
    files: tuple[str, ...]
    formats: tuple[str, ...]
    imported_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio that follows from two records of a set: how often one is as fast as the other.

    Attributes:
        faster: Implementation as the source names it.
        slower: The one it is compared with.
        ratio: Time of ``slower`` over time of ``faster``.
    """

    faster: str
    slower: str
    ratio: float


def derived_claims(records: Sequence[EvidenceRecord]) -> tuple[Claim, ...]:
    """Return the ratios that rows of an evidence file ask for, in the order of the file."""
    times_us = {each.implementation: each.times.median_us for each in records}
    claims = []
    for record in records:
        own_us = record.times.median_us
        for other in record.extra.get("faster_than", ()):
            other_us = times_us.get(other)
            if own_us is not None and other_us is not None and record.implementation is not None:
                claims.append(Claim(record.implementation, other, other_us / own_us))
    return tuple(claims)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A rerun compared with what was stored before.

    Attributes:
        original_kind: ``trial``, ``record``, ``study`` or ``folder``.
        original_id: Row of a trial, record or study; SHA-256 of a folder's manifest.
        verdict: What came out.
        rerun_study_id: Study that holds the rerun.
        rerun_trial_id: Trial of the rerun, where it is one.
        ratio: Rerun over original: above 1 is slower. None where it means nothing.
        ratio_low: Lower end of its interval.
        ratio_high: Upper end of its interval.
        threshold: Relative change below which it counts as the same, e.g. 0.03.
        differences: What differs between then and now, JSON-ready.
    """

    original_kind: OriginalKind
    original_id: str
    verdict: Verdict
    rerun_study_id: int | None = None
    rerun_trial_id: int | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    threshold: float | None = None
    differences: Sequence[Plain] = ()


@dataclass(frozen=True, slots=True)
class StoredReproduction:
    """A reproduction with its row.

    Attributes:
        id: Row.
        created_at: UTC.
        reproduction: What was found.
        again_study_id: Study of the second look, which the verdict rests on too.
        again_trial_id: Trial of the second look.
    """

    id: int
    created_at: datetime
    reproduction: Reproduction
    again_study_id: int | None = None
    again_trial_id: int | None = None
