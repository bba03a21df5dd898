"""Measures the controls of a run: as soon as a workload has a sentinel, regularly, at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from datetime import UTC
from typing import Protocol

from tuner.domain.controls import ControlPoint
from tuner.domain.controls import ControlRound
from tuner.domain.controls import copy_bytes_for
from tuner.domain.job import ControlJob
from tuner.domain.job import Kernel
from tuner.domain.job import Sampling
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Limits
from tuner.domain.records import TrialReport
from tuner.domain.study import StoredTrial
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.operator import Operator
from tuner.study.recorder import Recorder

# Regular rounds take no larger part of the time than this, and come no closer: they are stored
# one and all. Those at start and end are taken in any case: without two there is no drift.
MAX_PART = 0.01
MIN_PAUSE_S = 5.0


class ControlWorker(Protocol):
    """A worker that measures controls."""

    def run_controls(self, job: ControlJob, limits: Limits) -> list[TrialReport]:
        """Measure null kernel, copy and sentinel: a report for each, in this order."""


@dataclass(slots=True)
class _OfWorkload:
    """The controls of one workload in this run."""

    point: ControlPoint
    sentinel: TrialPoint
    rounds: int = 0
    due_at_s: float = 0.0


@dataclass(slots=True)
class ControlRounds:
    """The controls of one run.

    They are measured for each workload by itself: figures of different workloads are never
    compared, and a study may be at one for an hour before it comes to the next. The sentinel is
    the fastest config that is known when the workload's first batch is through, or those of an
    earlier run are: it is limited by what limits the winner, and it does not change within the
    run. All three are sampled as the quick stage samples.

    Attributes:
        operator: The operator under study.
        recorder: Where they are stored.
        worker: The warm worker of the quick stage, between two batches.
        sampling: How they are sampled.
        limits: Deadlines.
        kernel_of: Returns a point's kernel.
        started_at: When the run began, UTC.
        clock_s: A clock of seconds that never goes back.
    """

    operator: Operator
    recorder: Recorder
    worker: ControlWorker
    sampling: Sampling
    limits: Limits
    kernel_of: Callable[[TrialPoint], Kernel]
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock_s: Callable[[], float] = time.monotonic
    _known: dict[Workload, _OfWorkload] = field(default_factory=dict)

    def begun(self, workload: Workload) -> bool:
        """Tell whether this run has measured the controls of a workload."""
        return workload in self._known

    def due(self, workload: Workload) -> bool:
        """Tell whether a round is due: the first one, or a regular one."""
        known = self._known.get(workload)
        return known is None or self.clock_s() >= known.due_at_s

    def measure(self, study_id: int, workload: Workload, trials: Iterable[StoredTrial]) -> None:
        """Measure a round and store it, unless no valid config is known yet.

        Args:
            study_id: Row of the study.
            workload: The workload.
            trials: Stored trials on it, from which the run's first round takes its sentinel.
        """
        known = self._known.get(workload) or self._begin(workload, trials)
        if known is None:
            return
        begun_s = self.clock_s()
        job = ControlJob(
            self.kernel_of(known.sentinel),
            self.operator.problem(workload),
            self.sampling,
            known.point.copy_bytes,
        )
        reports = tuple(self.worker.run_controls(job, self.limits))
        measured = ControlRound(self.started_at, known.rounds, known.point, reports)
        self.recorder.record_controls(study_id, measured)
        known.rounds += 1
        ended_s = self.clock_s()
        known.due_at_s = ended_s + max(MIN_PAUSE_S, (ended_s - begun_s) / MAX_PART)

    def _begin(self, workload: Workload, trials: Iterable[StoredTrial]) -> _OfWorkload | None:
        valid = [
            (each.quick_median_us, each.trial_id, each)
            for each in trials
            if each.outcome is Outcome.OK and each.quick_median_us is not None
        ]
        if not valid:
            return None
        _, trial_id, trial = min(valid)
        moved = self.operator.workload_bytes(workload, trial.point.implementation)
        point = ControlPoint(workload, trial_id, copy_bytes_for(moved))
        self._known[workload] = _OfWorkload(point, trial.point)
        return self._known[workload]
