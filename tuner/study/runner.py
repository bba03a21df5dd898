"""Drives a study: ask, run, store, tell; then confirms the finalists of each workload.

Our rows are the record. The search only proposes, and is rebuilt from the rows when a study
is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import partial

from tuner.domain.job import ConfirmJob
from tuner.domain.job import Kernel
from tuner.domain.job import Sampling
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import EnvironmentProblem
from tuner.kernel_source import KernelSource
from tuner.operator import Operator
from tuner.study import events
from tuner.study.ahead import Ahead
from tuner.study.ahead import BatchSize
from tuner.study.ahead import Builds
from tuner.study.ahead import Candidate
from tuner.study.confirm import confirm_once
from tuner.study.confirm import finalists
from tuner.study.confirm import FreshWorker
from tuner.study.confirm import FreshWorkers
from tuner.study.confirm import sampling_of
from tuner.study.controls import ControlRounds
from tuner.study.coverage import Coverage
from tuner.study.coverage import uncovered_spaces
from tuner.study.interrupted import why_interrupted
from tuner.study.plan import Plan
from tuner.study.plan import WorkloadPlan
from tuner.study.recorder import Recorder
from tuner.study.samplers import LEARNING
from tuner.study.screening import quick_median_us
from tuner.study.screening import screen_batch
from tuner.study.screening import WarmWorker
from tuner.study.search import interleave
from tuner.study.search import make_searches
from tuner.study.search import Search
from tuner.study.spec import Budget
from tuner.study.spec import StudySpec


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
        start_workers: Starts fresh workers for confirming processes, several at once.
        keep_workers_ready: Is told how many will be started soon.
        builds: Builds kernels ahead of their trials.
        controls: What is measured beside the trials.
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
    start_workers: Callable[[int], Sequence[FreshWorker]]
    builds: Builds
    listener: events.Listener
    keep_workers_ready: Callable[[int], None] = lambda _count: None
    budget: Budget = field(default_factory=Budget)
    fresh: bool = False
    go_on: bool = False
    controls: ControlRounds = field(init=False)
    _study_id: int = 0
    _begun: float = field(default_factory=time.monotonic)
    _trials_taken: int = 0
    _cut_short: bool = False
    _screened: list[tuple[TrialPoint, int, TrialReport]] = field(default_factory=list)
    _stored: dict[tuple[str, str, str], StoredTrial] = field(default_factory=dict)
    _cut_off: dict[tuple[str, str, str], StoredTrial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.controls = ControlRounds(
            self.operator,
            self.recorder,
            self.worker,
            self._quick_sampling(),
            self.spec.limits,
            self._kernel,
        )

    def run(self) -> tuple[int, bool]:
        """Run until everything planned is stored, or the budget is used up.

        Returns:
            The study's id, and whether it is finished.

        Raises:
            EnvironmentProblem: Another process drives this study, or the device is gone.
        """
        opened = self.recorder.open_study(self.definition, fresh=self.fresh and not self.go_on)
        self._study_id = opened.study_id
        if opened.state != "finished":
            self.recorder.skip_points(opened.study_id, self.plan.skipped)
        self._load_stored()
        self.listener(
            events.StudyOpened(opened.study_id, opened.state, self.definition, len(self._stored))
        )
        if opened.state == "finished":
            return opened.study_id, True
        for workload_plan in self.plan.workloads:
            complete = self._search(workload_plan)
            self._confirm(workload_plan.workload)
            if self.controls.begun(workload_plan.workload):
                self._measure_controls(workload_plan.workload)
            if not complete:
                return self._ended(finished=False)
        self.recorder.finish_study(opened.study_id)
        return self._ended(finished=True)

    def uncovered(self) -> tuple[Coverage, ...]:
        """Return the spaces of which configs have not been tried."""
        return uncovered_spaces(self.plan, self._stored.values())

    def _ended(self, *, finished: bool) -> tuple[int, bool]:
        self.listener(events.StudyEnded(self._study_id, finished))
        return self._study_id, finished

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
        cut_off = self._open_points(self._cut_off_points(workload_plan.workload), {})
        if not self._run_points(cut_off, {}, learning=False):
            return False
        searches = make_searches(
            workload_plan.spaces,
            self._trials_of(workload_plan.workload),
            self.spec.search.seed,
            partial(self.recorder.nearby_results, self.definition, workload_plan.workload),
        )
        # In turns, so that a budget that ends early has tried every implementation's default.
        proposed = (
            TrialPoint(workload_plan.workload, implementation, config)
            for implementation, config in interleave(searches)
        )
        learning = any(each.sampler in LEARNING for each in workload_plan.spaces)
        return self._run_points(self._open_points(proposed, searches), searches, learning=learning)

    def _open_points(
        self, points: Iterable[TrialPoint], searches: Mapping[str, Search]
    ) -> Iterator[TrialPoint]:
        """Yield what is to be measured while the budget lasts; take over what was before."""
        for point in points:
            if self._budget_used():
                self._cut_short = True
                return
            trial = self._reuse(point)
            if trial is None:
                self._trials_taken += 1
                yield point
            elif point.implementation in searches:
                searches[point.implementation].tell(point.config, trial.quick_median_us)

    def _run_points(
        self, points: Iterator[TrialPoint], searches: Mapping[str, Search], *, learning: bool
    ) -> bool:
        """Run trials in batches, their kernels built ahead; False when the budget ended it."""
        ahead = Ahead(self.builds, points, self._kernel, learning=learning)
        size, rotation = BatchSize(), 0
        ahead.fill(size.now)
        if ahead.next_point is not None:  # while its kernel is built
            problem = self.operator.problem(ahead.next_point.workload)
            job = ConfirmJob((), problem, self._quick_sampling())
            self.worker.prepare(job, screening=True)

        def meanwhile() -> None:
            self._store_screened()
            if not learning:
                ahead.fill(size.now)

        try:
            while batch := ahead.batch(size.now):
                if self._time_used():
                    ahead.cancel()
                    return False
                if ahead.exhausted:  # builders are about to have nothing to do
                    self.keep_workers_ready(self.definition.protocol.processes)
                begun = time.monotonic()
                for each, quick_us in self._screen(batch, rotation, meanwhile):
                    if each.implementation in searches:
                        searches[each.implementation].tell(each.config, quick_us)
                size.note(len(batch), time.monotonic() - begun)
                rotation += 1
                if self.controls.due(batch[0].point.workload):
                    self._measure_controls(batch[0].point.workload)
        finally:
            self._store_screened()
        return not self._cut_short

    def _reuse(self, point: TrialPoint) -> StoredTrial | None:
        """Take over an equal, earlier trial, where there is one."""
        origin = None if self.fresh else self.recorder.find_reusable(self.definition, point)
        if origin is None:
            return None
        trial = self.recorder.reuse_trial(self._study_id, point, origin)
        self._stored[point.key] = trial
        outcome = trial.outcome or Outcome.INTERRUPTED
        self._tell_ended(point, outcome, "reused", trial.quick_median_us)
        return trial

    def _screen(
        self, batch: list[Candidate], rotation: int, meanwhile: Callable[[], None]
    ) -> list[tuple[TrialPoint, float | None]]:
        """Run a batch's trials and return the quick median of those that are ok.

        What they gave is stored while the next batch runs, where that does not disturb it.
        """
        with self.recorder.together():
            trial_ids = [
                self.recorder.start_trial(self._study_id, each.point, each.kernel.geometry)
                for each in batch
            ]
        for each in batch:
            self.listener(events.TrialBegun(each.point))
        try:
            reports = screen_batch(
                self.worker,
                [each.kernel for each in batch],
                [each.build.result() for each in batch],
                self.operator.problem(batch[0].point.workload),
                self._quick_sampling(),
                self.spec.limits,
                rotation=rotation,
                meanwhile=meanwhile if self.builds.overlaps else None,
            )
        except BaseException as error:
            failure = Failure(Outcome.INTERRUPTED, Stage.BUILD, why_interrupted(error))
            reports = [TrialReport(failure)] * len(batch)
            raise
        finally:
            self._store_screened()
            points = [each.point for each in batch]
            self._screened = list(zip(points, trial_ids, reports, strict=True))
        if not self.builds.overlaps:
            self._store_screened()
        return list(zip(points, map(quick_median_us, reports), strict=True))

    def _store_screened(self) -> None:
        """Store what the last batch gave, unless that has been done."""
        screened, self._screened = self._screened, []
        if not screened:
            return
        with self.recorder.together():
            for point, trial_id, report in screened:
                moved = self.operator.workload_bytes(point.workload, point.implementation)
                self.recorder.finish_trial(trial_id, report, bytes_moved=moved)
        for point, trial_id, report in screened:
            quick_us, failure = quick_median_us(report), report.failure
            self._stored[point.key] = StoredTrial(trial_id, point, 0, report.outcome, quick_us)
            message = failure.message if failure else ""
            self._tell_ended(point, report.outcome, message, quick_us)

    def _measure_controls(self, workload: Workload) -> None:
        self._store_screened()  # the sentinel is a stored trial
        self.controls.measure(self._study_id, workload, self._trials_of(workload))

    def _confirm(self, workload: Workload) -> None:
        """Confirm a workload's finalists; where one fails, the next in rank takes its place."""
        while True:
            search = self.spec.search
            chosen = finalists(self._trials_of(workload), search.finalists, search.within)
            open_ones = [trial for trial in chosen if not trial.confirmed]
            if not open_ones:
                return
            if not self.controls.begun(workload):  # all of its trials are of an earlier run
                self._measure_controls(workload)
            self._confirm_all(workload, open_ones)
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

    def _confirm_all(self, workload: Workload, trials: list[StoredTrial]) -> None:
        """Confirm trials in as many fresh processes as the protocol asks for."""
        processes = range(self.definition.protocol.processes)
        begun = min(len(trial.confirm_processes) for trial in trials)
        kernels = tuple(self._kernel(trial.point) for trial in trials)
        sampling = sampling_of(self.definition.protocol)
        job = ConfirmJob(kernels, self.operator.problem(workload), sampling)
        workers = FreshWorkers(self.start_workers, len(processes) - begun, job, self.spec.limits)
        try:
            for process in processes:
                missing = [
                    trial
                    for trial in self._reload(trials)
                    if trial.outcome is Outcome.OK and process not in trial.confirm_processes
                ]
                if missing:
                    self._confirm_process(workload, missing, process, workers)
        finally:
            workers.close()

    def _confirm_process(
        self, workload: Workload, trials: list[StoredTrial], process: int, workers: FreshWorkers
    ) -> None:
        protocol = self.definition.protocol
        self.listener(events.Confirming(workload, process, protocol.processes, len(trials)))
        kernels = [self._kernel(trial.point) for trial in trials]
        reports = confirm_once(
            workers.take,
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
        trial_ids = [trial.trial_id for trial in trials]
        for trial in self.recorder.stored_trials(self._study_id, trial_ids):
            self._stored[trial.point.key] = trial

    def _kernel(self, point: TrialPoint) -> Kernel:
        implementation = self.operator.implementation(point.implementation)
        source = self.sources[point.implementation]
        return self.operator.kernel(implementation, source, point.config, point.workload)

    def _quick_sampling(self) -> Sampling:
        return sampling_of(self.definition.protocol, self.spec.quick)

    def _cut_off_points(self, workload: Workload) -> list[TrialPoint]:
        points = [trial.point for trial in self._cut_off.values()]
        return [point for point in points if point.workload == workload]

    def _trials_of(self, workload: Workload) -> list[StoredTrial]:
        return [each for each in self._stored.values() if each.point.workload == workload]

    def _reload(self, trials: list[StoredTrial]) -> list[StoredTrial]:
        return [self._stored[trial.point.key] for trial in trials]

    def _budget_used(self) -> bool:
        most = self.budget.trials
        return (most is not None and self._trials_taken >= most) or self._time_used()

    def _time_used(self) -> bool:
        seconds = self.budget.seconds
        return seconds is not None and time.monotonic() - self._begun >= seconds

    def _tell_ended(
        self, point: TrialPoint, outcome: Outcome, message: str, quick_us: float | None
    ) -> None:
        self.listener(events.TrialEnded(point, outcome, message, quick_us))
