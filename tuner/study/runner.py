"""Drives a study: ask, run, store, tell; then confirms the finalists of each workload.

Our rows are the record. The search only proposes, and is rebuilt from the rows when a study
is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Protocol

from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.domain.stats import median
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import EnvironmentProblem
from tuner.kernel_source import KernelSource
from tuner.operator import Operator
from tuner.study import events
from tuner.study.confirm import confirm_once
from tuner.study.confirm import finalists
from tuner.study.confirm import FreshWorker
from tuner.study.confirm import sampling_of
from tuner.study.plan import Plan
from tuner.study.plan import WorkloadPlan
from tuner.study.recorder import Recorder
from tuner.study.search import interleave
from tuner.study.search import make_search
from tuner.study.search import Search
from tuner.study.spec import Budget
from tuner.study.spec import StudySpec


class WarmWorker(FreshWorker, Protocol):
    """The long-lived worker of the quick stage."""

    def run_trial(self, job: TrialJob, limits: Limits) -> TrialReport:
        """Build, validate, sample and validate again."""


@dataclass(slots=True)
class StudyRunner:
    """One run of one study.

    Attributes:
        operator: The operator under study.
        spec: The study file.
        plan: Its configs on this device.
        definition: What is stored of it.
        sources: Source text by implementation.
        recorder: Where it is stored.
        worker: Warm worker of the quick stage.
        start_worker: Starts a fresh worker for a confirming process.
        listener: Is told what happens.
        budget: When to stop early.
        fresh: Measure again what was measured before.
        go_on: Go on with the newest study of this key even so.
    """

    operator: Operator
    spec: StudySpec
    plan: Plan
    definition: StudyDefinition
    sources: Mapping[str, KernelSource]
    recorder: Recorder
    worker: WarmWorker
    start_worker: Callable[[], FreshWorker]
    listener: events.Listener
    budget: Budget = field(default_factory=Budget)
    fresh: bool = False
    go_on: bool = False
    _study_id: int = 0
    _begun: float = field(default_factory=time.monotonic)
    _trials_run: int = 0
    _stored: dict[tuple[str, str, str], StoredTrial] = field(default_factory=dict)
    _cut_off: dict[tuple[str, str, str], StoredTrial] = field(default_factory=dict)

    def run(self) -> tuple[int, bool]:
        """Run until everything planned is stored, or the budget is used up.

        Returns:
            The study's id, and whether it is finished.

        Raises:
            EnvironmentProblem: Another process drives this study, or the device is gone.
        """
        opened = self.recorder.open_study(self.definition, fresh=self.fresh and not self.go_on)
        self._study_id = opened.study_id
        self._load_stored()
        self.listener(
            events.StudyOpened(opened.study_id, opened.state, self.definition, len(self._stored))
        )
        if opened.state == "finished":
            return opened.study_id, True
        self.recorder.skip_points(opened.study_id, self.plan.skipped)
        for workload_plan in self.plan.workloads:
            complete = self._search(workload_plan)
            self._confirm(workload_plan.workload)
            if not complete:
                self.listener(events.StudyEnded(opened.study_id, finished=False))
                return opened.study_id, False
        self.recorder.finish_study(opened.study_id)
        self.listener(events.StudyEnded(opened.study_id, finished=True))
        return opened.study_id, True

    def _load_stored(self) -> None:
        """Read the study's trials; of several attempts at a point the last one counts."""
        trials = self.recorder.stored_trials(self._study_id)
        last = {trial.point.key: trial for trial in trials}
        is_cut_off = {key: trial.outcome is Outcome.INTERRUPTED for key, trial in last.items()}
        self._stored = {key: trial for key, trial in last.items() if not is_cut_off[key]}
        self._cut_off = {key: trial for key, trial in last.items() if is_cut_off[key]}

    def _search(self, workload_plan: WorkloadPlan) -> bool:
        """Run a workload's trials; False when the budget ended it."""
        # First what was cut off: a sampler that has moved on might not propose it again.
        for point in self._cut_off_points(workload_plan.workload):
            if self._budget_used():
                return False
            self._run_trial(point)
        trials = [
            trial
            for trial in self._trials_of(workload_plan.workload)
            if trial.outcome is not Outcome.SKIPPED
        ]
        searches: dict[str, Search] = {}
        for space in workload_plan.spaces:
            history = [
                (trial.point.config, trial.quick_median_us)
                for trial in trials
                if trial.point.implementation == space.implementation
            ]
            searches[space.implementation] = make_search(
                space, space.sampler, self.spec.search.seed, history
            )
        # In turns, so that a budget that ends early has tried every implementation's default.
        for implementation, config in interleave(searches):
            if self._budget_used():
                return False
            point = TrialPoint(workload_plan.workload, implementation, config)
            searches[implementation].tell(config, self._run_trial(point))
        return True

    def _run_trial(self, point: TrialPoint) -> float | None:
        """Run or reuse one trial, store it, and return its quick median if it is ok."""
        if not self.fresh:
            origin = self.recorder.find_reusable(self.definition, point)
            if origin is not None:
                trial = self.recorder.reuse_trial(self._study_id, point, origin)
                self._stored[point.key] = trial
                outcome = trial.outcome or Outcome.INTERRUPTED
                self._tell_ended(point, outcome, "reused", trial.quick_median_us)
                return trial.quick_median_us
        self.listener(events.TrialBegun(point))
        job = self._trial_job(point)
        trial_id = self.recorder.start_trial(self._study_id, point, job.kernel.geometry)
        moved = self.operator.workload_bytes(point.workload, point.implementation)
        try:
            report = self.worker.run_trial(job, self.spec.limits)
        except BaseException as error:
            failure = Failure(Outcome.INTERRUPTED, Stage.BUILD, _why_interrupted(error))
            self.recorder.finish_trial(trial_id, TrialReport(failure), bytes_moved=moved)
            raise
        self.recorder.finish_trial(trial_id, report, bytes_moved=moved)
        self._trials_run += 1
        timed = report.process if report.failure is None else None
        quick_us = median(timed.samples_us) if timed else None
        self._stored[point.key] = StoredTrial(trial_id, point, 0, report.outcome, quick_us)
        message = report.failure.message if report.failure else ""
        self._tell_ended(point, report.outcome, message, quick_us)
        return quick_us

    def _confirm(self, workload: Workload) -> None:
        """Confirm a workload's finalists; where one fails, the next in rank takes its place."""
        while True:
            chosen = finalists(self._trials_of(workload), self.spec.search.finalists)
            open_ones = [trial for trial in chosen if not trial.confirmed]
            if not open_ones:
                return
            for process in range(self.definition.protocol.processes):
                missing = [
                    trial
                    for trial in self._reload(open_ones)
                    if trial.outcome is Outcome.OK and process not in trial.confirm_processes
                ]
                if missing:
                    self._confirm_process(workload, missing, process)
            self._load_stored()
            still_open = [
                trial
                for trial in self._reload(open_ones)
                if trial.outcome is Outcome.OK and not trial.confirmed
            ]
            if still_open:
                raise EnvironmentProblem(
                    f"{still_open[0].point} could not be confirmed: the device was lost again "
                    "and again",
                    hint="check the device with `tuner doctor`, then run the study again",
                )

    def _confirm_process(self, workload: Workload, trials: list[StoredTrial], process: int) -> None:
        protocol = self.definition.protocol
        self.listener(events.Confirming(workload, process, protocol.processes, len(trials)))
        kernels = [self._trial_job(trial.point).kernel for trial in trials]
        reports = confirm_once(
            self.start_worker,
            kernels,
            self.operator.problem(workload),
            sampling_of(protocol),
            self.spec.limits,
            process=process,
        )
        pairs = [
            (trial.trial_id, report)
            for trial, report in zip(trials, reports, strict=True)
            if report.outcome is not Outcome.INTERRUPTED
        ]
        self.recorder.record_confirmation(process, pairs, required=protocol.processes)
        self._load_stored()

    def _trial_job(self, point: TrialPoint) -> TrialJob:
        implementation = self.operator.implementation(point.implementation)
        kernel = self.operator.kernel(
            implementation, self.sources[point.implementation], point.config, point.workload
        )
        quick = self.spec.quick
        sampling = sampling_of(self.definition.protocol, warmup=quick.warmup, samples=quick.samples)
        return TrialJob(kernel, self.operator.problem(point.workload), sampling)

    def _cut_off_points(self, workload: Workload) -> list[TrialPoint]:
        points = [trial.point for trial in self._cut_off.values()]
        return [point for point in points if point.workload == workload]

    def _trials_of(self, workload: Workload) -> list[StoredTrial]:
        return [each for each in self._stored.values() if each.point.workload == workload]

    def _reload(self, trials: list[StoredTrial]) -> list[StoredTrial]:
        return [self._stored[trial.point.key] for trial in trials]

    def _budget_used(self) -> bool:
        trials, seconds = self.budget.trials, self.budget.seconds
        out_of_trials = trials is not None and self._trials_run >= trials
        return out_of_trials or (seconds is not None and time.monotonic() - self._begun >= seconds)

    def _tell_ended(
        self, point: TrialPoint, outcome: Outcome, message: str, quick_us: float | None
    ) -> None:
        self.listener(events.TrialEnded(point, outcome, message, quick_us))


def _why_interrupted(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]
