"""Controls: what is measured in every run beside the trials, so that the run can be judged.

A *run* is one process that drives a study; a study that is gone on with has several. In each one
the same three kernels are measured again and again for each workload, since figures are only
compared within a workload:

- the *null kernel* does nothing: what it takes is the floor under every time of the protocol;
- the *copy* moves as many bytes as the workload must: what the device's memory gives;
- the *sentinel* is one config of the study: it takes as long at the end as at the start, unless
  clocks, temperature or other work on the device have changed, and with them every trial.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import groupby

from tuner.domain.records import TrialReport
from tuner.domain.workload import Workload

# A sentinel whose medians lie further apart than this, as a fraction, marks its run: what moves
# a winner among kernels that differ by a few percent. The one place where it is said.
MAX_SENTINEL_DRIFT = 0.02
# A null kernel that takes a larger part than this of a trial's time leaves the kernel itself the
# smaller one: configs then differ less than what they do.
LARGE_FLOOR = 0.5
# The copy moves whole words of 16 bytes, each read and written.
_COPY_STEP_BYTES = 32


class ControlKind(StrEnum):
    """Which of the three, in the order in which a worker measures them."""

    NULL = "null"
    COPY = "copy"
    SENTINEL = "sentinel"


@dataclass(frozen=True, slots=True)
class ControlPoint:
    """What a run measures controls of.

    Attributes:
        workload: Whose trials they stand beside.
        sentinel_id: Trial of the study whose config is the sentinel.
        copy_bytes: Bytes that the copy reads and writes, together.
    """

    workload: Workload
    sentinel_id: int
    copy_bytes: int


@dataclass(frozen=True, slots=True)
class ControlRound:
    """One measurement of all controls.

    Attributes:
        run_started_at: When the run began, UTC: which run of the study it is.
        position: 0 for the workload's first round of the run.
        point: What was measured.
        reports: One for each ``ControlKind``, in order.
    """

    run_started_at: datetime
    position: int
    point: ControlPoint
    reports: tuple[TrialReport, ...]


@dataclass(frozen=True, slots=True)
class ControlSummary:
    """One control in all rounds of a run, as a database sums it up.

    Attributes:
        study_id: Row of the study.
        workload: Whose trials it stands beside.
        run_started_at: Which run, UTC.
        kind: Which of the three.
        rounds: How often it was measured.
        valid: How often that gave a time.
        low_us: Smallest of its medians; None where none is valid.
        high_us: Largest of them.
        trial_id: The sentinel's trial; None for the others.
        bytes_moved: Bytes the copy read and wrote; None for the others.
        message: Why it failed, the first in alphabetical order; None where it never did.
    """

    study_id: int
    workload: Workload
    run_started_at: datetime
    kind: ControlKind
    rounds: int
    valid: int
    low_us: float | None
    high_us: float | None
    trial_id: int | None
    bytes_moved: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class RunControls:
    """What the controls of one run say of one workload.

    Attributes:
        study_id: Row of the study.
        workload: The workload.
        run_started_at: When the run began, UTC.
        next_run_at: When the next run of the study on this workload began; None for the last.
        null_us: Smallest median of the null kernel; None where none is valid.
        copy_us: Likewise of the copy.
        copy_bytes: Bytes it reads and writes.
        sentinel_id: Trial whose config is the sentinel.
        sentinel_low_us: Smallest median of the sentinel; None where none is valid.
        sentinel_high_us: Largest of them.
        sentinel_count: How many there are.
        failures: Why controls failed, a line for each that did.
    """

    study_id: int
    workload: Workload
    run_started_at: datetime
    next_run_at: datetime | None
    null_us: float | None
    copy_us: float | None
    copy_bytes: int | None
    sentinel_id: int
    sentinel_low_us: float | None
    sentinel_high_us: float | None
    sentinel_count: int
    failures: tuple[str, ...] = ()

    @property
    def drift(self) -> float | None:
        """How far the sentinel's medians lie apart, as a fraction of the smallest.

        Between any two of them, not from first to last alone: a device that was slow for a
        while has been slow for some trials. None where there are not two.
        """
        low_us, high_us = self.sentinel_low_us, self.sentinel_high_us
        if self.sentinel_count < 2 or low_us is None or high_us is None:
            return None
        return high_us / low_us - 1.0

    @property
    def is_marked(self) -> bool:
        """Whether the sentinel drifted by more than ``MAX_SENTINEL_DRIFT``."""
        return self.drift is not None and self.drift > MAX_SENTINEL_DRIFT

    @property
    def copy_gb_s(self) -> float | None:
        """What the copy reached, in 10^9 bytes a second."""
        if self.copy_us is None or self.copy_bytes is None:
            return None
        return self.copy_bytes / self.copy_us / 1e3

    def covers(self, moments: Sequence[datetime]) -> bool:
        """Tell whether something was measured in this run at one of these times."""
        return any(
            self.run_started_at <= each and (self.next_run_at is None or each < self.next_run_at)
            for each in moments
        )

    def drift_text(self) -> str:
        """Say how the sentinel drifted; "" where there are no two measurements of it."""
        if self.drift is None:
            return ""
        return (
            f"the sentinel of {self.workload.shape_text} (trial {self.sentinel_id}) took "
            f"{self.sentinel_low_us:.4g} to {self.sentinel_high_us:.4g} us, "
            f"{self.drift:.1%} apart in {self.sentinel_count} measurements (run of "
            f"{self.run_started_at:%Y-%m-%d %H:%M:%S} UTC)"
        )

    def floor_text(self, median_us: float) -> str:
        """Say that the null kernel is a large part of a time; "" where it is not."""
        if self.null_us is None or self.null_us <= LARGE_FLOOR * median_us:
            return ""
        return (
            f"a kernel that does nothing takes {self.null_us:.4g} us, "
            f"{self.null_us / median_us:.0%} of this time: configs differ by the rest alone"
        )


def copy_bytes_for(workload_bytes: int) -> int:
    """Return how many bytes the copy beside a workload moves: as many, but whole words."""
    return max(1, -(-workload_bytes // _COPY_STEP_BYTES)) * _COPY_STEP_BYTES


def fastest_copy(runs: Iterable[RunControls]) -> RunControls | None:
    """Return the run with the fastest copy; None where none is valid."""
    copied = (run for run in runs if run.copy_us is not None)
    return min(copied, key=lambda run: run.copy_us or 0.0, default=None)


def run_controls(summaries: Iterable[ControlSummary]) -> list[RunControls]:
    """Put the controls of each run and workload together.

    Args:
        summaries: Those of a study's workload one after the other, its runs in the order in which
            they began.
    """
    found: list[RunControls] = []
    by_workload = groupby(summaries, key=lambda each: (each.study_id, each.workload))
    for (_, workload), of_workload in by_workload:
        runs = [
            {each.kind: each for each in run}
            for _, run in groupby(of_workload, key=lambda each: each.run_started_at)
        ]
        begins = [run[ControlKind.SENTINEL].run_started_at for run in runs]
        found += [
            _of_run(workload, run, end) for run, end in zip(runs, [*begins[1:], None], strict=True)
        ]
    return found


def _of_run(
    workload: Workload, run: Mapping[ControlKind, ControlSummary], next_run_at: datetime | None
) -> RunControls:
    null, copy, sentinel = (run[kind] for kind in ControlKind)
    assert sentinel.trial_id is not None  # the database holds that a sentinel is a trial
    return RunControls(
        study_id=sentinel.study_id,
        workload=workload,
        run_started_at=sentinel.run_started_at,
        next_run_at=next_run_at,
        null_us=null.low_us,
        copy_us=copy.low_us,
        copy_bytes=copy.bytes_moved,
        sentinel_id=sentinel.trial_id,
        sentinel_low_us=sentinel.low_us,
        sentinel_high_us=sentinel.high_us,
        sentinel_count=sentinel.valid,
        failures=tuple(
            f"{each.kind}: {each.message} ({each.rounds - each.valid} of {each.rounds} rounds)"
            for each in (null, copy, sentinel)
            if each.message is not None
        ),
    )
