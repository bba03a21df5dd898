"""Measures stored results again: built from the stored source, by the stored protocol.

The same path as a study's: checked and sampled briefly in a warm worker, then confirmed in fresh
processes, the results of one workload interleaved. The rerun is a study of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.job import ConfirmJob
from tuner.domain.job import Kernel
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Problem
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.protocol import QuickStage
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.domain.space import first_violation
from tuner.domain.stats import median
from tuner.domain.study import SkippedPoint
from tuner.domain.study import SourceText
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import EnvironmentProblem
from tuner.kernel_source import KernelSource
from tuner.operator import Implementation
from tuner.operator import Operator
from tuner.study import events
from tuner.study.confirm import confirm_once
from tuner.study.confirm import FreshWorker
from tuner.study.confirm import FreshWorkers
from tuner.study.confirm import sampling_of
from tuner.study.controls import ControlRounds
from tuner.study.recorder import Recorder
from tuner.study.screening import WarmWorker

_IGNORED_CHARACTERS = str.maketrans("", "", "_- ")


@dataclass(frozen=True, slots=True)
class RerunPoint:
    """One result to measure again.

    Attributes:
        point: What it is about.
        kernel: Built from.
        problem: Inputs and reference.
        bytes_moved: Fewest bytes of the workload.
        violation: Why this device refuses the config, or "".
    """

    point: TrialPoint
    kernel: Kernel
    problem: Problem
    bytes_moved: int
    violation: str = ""


@dataclass(frozen=True, slots=True)
class RerunTrial:
    """What came out of one result.

    Attributes:
        point: What it is about.
        trial_id: Row of its trial; None where the device refused the config.
        quick: Report of the warm worker.
        processes: Report of each fresh process, up to the first that failed.
    """

    point: TrialPoint
    trial_id: int | None
    quick: TrialReport
    processes: tuple[TrialReport, ...] = ()

    @property
    def failure(self) -> Failure | None:
        """The first failure, or None."""
        failures = (each.failure for each in (self.quick, *self.processes))
        return next((each for each in failures if each is not None), None)


def rebuild(
    operator: Operator,
    implementation: Implementation,
    source: SourceText,
    config: Config,
    workload: Workload,
    facts: DeviceFacts,
    geometry: LaunchGeometry | None,
) -> RerunPoint:
    """Return what is needed to measure a stored result again.

    Args:
        operator: Gives arguments, constants, compiler options, inputs and reference.
        implementation: The one that was measured.
        source: Text to build from.
        config: The stored config.
        workload: The problem.
        facts: Of the device.
        geometry: As stored; None takes the operator's.
    """
    text = KernelSource(
        source.language, dict(source.files), source.main, source.entry, source.source_hash
    )
    kernel = operator.kernel(implementation, text, config, workload)
    if geometry is not None:
        kernel = replace(kernel, geometry=geometry)
    violation = operator.argument_violation(implementation, workload)
    if not violation:
        dims = operator.dimensions(workload)
        broken = first_violation(config, dims, facts, implementation.constraints)
        violation = str(broken) if broken else ""
    return RerunPoint(
        TrialPoint(workload, implementation.name, config),
        kernel,
        operator.problem(workload),
        operator.workload_bytes(workload, implementation.name),
        violation,
    )


def fitted_config(
    implementation: Implementation,
    recorded: Config,
    dims: Mapping[str, int],
    facts: DeviceFacts,
) -> tuple[Config, list[str]]:
    """Fit a config from elsewhere to an implementation's parameters.

    Names are matched without regard to case, ``_`` and ``-``. A parameter with one possible
    value at this shape takes that; one that is not stated takes the implementation's default.

    Returns:
        The config, and what was filled in or changed, one line each.
    """
    given = {_plain_name(name): value for name, value in recorded.items()}
    grid = implementation.parameters(dims)
    default = implementation.default(dims, facts)
    notes: list[str] = []
    config = {}
    for name, values in grid.items():
        stated = given.get(_plain_name(name))
        only = values[0] if len(values) == 1 else None
        if stated is None:
            config[name] = only if only is not None else default[name]
            if only is None:
                notes.append(f"{implementation.name}: {name} is not stated, {config[name]} taken")
        elif only is not None and stated != only:
            config[name] = only
            notes.append(f"{implementation.name}: {name} {stated} -> {only}: this shape needs it")
        else:
            config[name] = stated
    return config, notes


def _plain_name(name: str) -> str:
    return name.translate(_IGNORED_CHARACTERS).lower()


@dataclass(slots=True)
class RerunRunner:
    """One rerun of results that share protocol and sources.

    Attributes:
        operator: Whose kernels they are.
        definition: What is stored of it.
        points: What to measure.
        recorder: Where it is stored.
        worker: Warm worker.
        start_worker: Starts a fresh worker for a confirming process.
        listener: Is told what happens.
        limits: Deadlines of a trial.
        quick: Samples in the warm worker.
    """

    operator: Operator
    definition: StudyDefinition
    points: Sequence[RerunPoint]
    recorder: Recorder
    worker: WarmWorker
    start_worker: Callable[[], FreshWorker]
    listener: events.Listener
    limits: Limits = field(default_factory=Limits)
    quick: QuickStage = field(default_factory=QuickStage)
    _study_id: int = 0

    def run(self) -> tuple[int, list[RerunTrial]]:
        """Measure everything and return the study's id and the trials, in the order given.

        Raises:
            EnvironmentProblem: The device was lost again and again.
        """
        opened = self.recorder.open_study(self.definition, fresh=True)
        self._study_id = opened.study_id
        self.listener(events.StudyOpened(opened.study_id, opened.state, self.definition, 0))
        refused = [
            SkippedPoint(each.point, each.violation) for each in self.points if each.violation
        ]
        self.recorder.skip_points(opened.study_id, refused)
        trials = {each.point.key: self._first_stage(each) for each in self.points}
        controls = self._controls()
        for workload in dict.fromkeys(each.point.workload for each in self.points):
            controls.measure(self._study_id, workload, self.recorder.stored_trials(self._study_id))
            self._confirm(workload, trials)
            if controls.begun(workload):
                controls.measure(self._study_id, workload, ())
        self.recorder.finish_study(opened.study_id)
        self.listener(events.StudyEnded(opened.study_id, finished=True))
        return opened.study_id, [trials[each.point.key] for each in self.points]

    def _controls(self) -> ControlRounds:
        kernels = {each.point.key: each.kernel for each in self.points}
        return ControlRounds(
            self.operator,
            self.recorder,
            self.worker,
            sampling_of(self.definition.protocol, self.quick),
            self.limits,
            lambda point: kernels[point.key],
        )

    def _first_stage(self, each: RerunPoint) -> RerunTrial:
        if each.violation:
            failure = Failure(Outcome.SKIPPED, Stage.PLAN, each.violation)
            return RerunTrial(each.point, None, TrialReport(failure))
        self.listener(events.TrialBegun(each.point))
        sampling = sampling_of(self.definition.protocol, self.quick)
        trial_id = self.recorder.start_trial(self._study_id, each.point, each.kernel.geometry)
        try:
            job = TrialJob(each.kernel, each.problem, sampling)
            report = self.worker.run_trial(job, self.limits)
        except BaseException as error:
            message = str(error).partition("\n")[0] or type(error).__name__
            stopped = TrialReport(Failure(Outcome.INTERRUPTED, Stage.BUILD, message))
            self.recorder.finish_trial(trial_id, stopped, bytes_moved=each.bytes_moved)
            raise
        self.recorder.finish_trial(trial_id, report, bytes_moved=each.bytes_moved)
        timed = report.process if report.failure is None else None
        self.listener(
            events.TrialEnded(
                each.point,
                report.outcome,
                report.failure.message if report.failure else "",
                median(timed.samples_us) if timed else None,
            )
        )
        return RerunTrial(each.point, trial_id, report)

    def _confirm(self, workload: Workload, trials: dict[tuple[str, str, str], RerunTrial]) -> None:
        points = [each for each in self.points if each.point.workload == workload]
        kernels = tuple(each.kernel for each in points)
        job = ConfirmJob(kernels, points[0].problem, sampling_of(self.definition.protocol))
        # Opened one by one: a process is started when it is known that something is left for it.
        workers = FreshWorkers(
            lambda count: [self.start_worker() for _ in range(count)], 0, job, self.limits
        )
        try:
            for process in range(self.definition.protocol.processes):
                left = [each for each in points if trials[each.point.key].failure is None]
                if left:
                    self._confirm_process(workload, left, trials, process, workers)
        finally:
            workers.close()

    def _confirm_process(
        self,
        workload: Workload,
        left: Sequence[RerunPoint],
        trials: dict[tuple[str, str, str], RerunTrial],
        process: int,
        workers: FreshWorkers,
    ) -> None:
        protocol = self.definition.protocol
        self.listener(events.Confirming(workload, process, protocol.processes, len(left)))
        reports = confirm_once(
            workers.take,
            [each.kernel for each in left],
            left[0].problem,
            sampling_of(protocol),
            self.limits,
            process=process,
        )
        if any(report.outcome is Outcome.INTERRUPTED for report in reports):
            raise EnvironmentProblem(
                f"the device was lost again and again while {workload.shape_text} was rerun",
                hint="check the device with `tuner doctor`, then reproduce again",
            )
        pairs = []
        for each, report in zip(left, reports, strict=True):
            trial = trials[each.point.key]
            trials[each.point.key] = replace(trial, processes=(*trial.processes, report))
            assert trial.trial_id is not None  # only refused points have none
            pairs.append((trial.trial_id, report))
        self.recorder.record_confirmation(process, pairs, required=protocol.processes)
