"""Measures stored results again: built from the stored source, by the stored protocol.

The same path as a study's: checked and sampled briefly in a warm worker, then confirmed in fresh
processes, the results of one workload interleaved. The rerun is a study of its own, and goes on
where it was stopped as others do.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import TypeAlias

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
from tuner.domain.study import StoredTrial
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
from tuner.study.interrupted import why_interrupted
from tuner.study.recorder import Recorder
from tuner.study.screening import WarmWorker

PointKey: TypeAlias = tuple[str, str, str]
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

    def run(self) -> tuple[int, dict[PointKey, int]]:
        """Measure everything, but for what is stored of an earlier run of this very rerun.

        Returns:
            The study's id, and the trial of each point; of one that the device refuses, none.

        Raises:
            EnvironmentProblem: The device was lost again and again, or another process drives
                this study.
        """
        opened = self.recorder.open_study(self.definition, fresh=False)
        self._study_id = opened.study_id
        if opened.state != "finished":
            stored = len(self._stored())
            self.listener(events.StudyOpened(self._study_id, opened.state, self.definition, stored))
            self._run_all()
            self.recorder.finish_study(self._study_id)
            self.listener(events.StudyEnded(self._study_id, finished=True))
        return self._study_id, {key: each.trial_id for key, each in self._stored().items()}

    def _run_all(self) -> None:
        refused = [
            SkippedPoint(each.point, each.violation) for each in self.points if each.violation
        ]
        self.recorder.skip_points(self._study_id, refused)
        stored = self._stored()
        for each in self.points:
            if not each.violation and each.point.key not in stored:
                self._first_stage(each)
        controls = self._controls()
        for workload in dict.fromkeys(each.point.workload for each in self.points):
            if not self._unconfirmed(workload):
                continue
            controls.measure(self._study_id, workload, self._stored().values())
            self._confirm(workload)
            if controls.begun(workload):
                controls.measure(self._study_id, workload, ())

    def _stored(self) -> dict[PointKey, StoredTrial]:
        """Return the trials that were run to their end, the last of several attempts."""
        trials = self.recorder.stored_trials(self._study_id)
        left_out = (None, Outcome.INTERRUPTED, Outcome.SKIPPED)
        return {each.point.key: each for each in trials if each.outcome not in left_out}

    def _unconfirmed(self, workload: Workload) -> list[tuple[RerunPoint, StoredTrial]]:
        """Return the valid results of a workload that need more confirming processes."""
        stored = self._stored()
        found = ((each, stored.get(each.point.key)) for each in self.points)
        return [
            (each, trial)
            for each, trial in found
            if trial is not None
            and each.point.workload == workload
            and trial.outcome is Outcome.OK
            and not trial.confirmed
        ]

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

    def _first_stage(self, each: RerunPoint) -> None:
        self.listener(events.TrialBegun(each.point))
        sampling = sampling_of(self.definition.protocol, self.quick)
        trial_id = self.recorder.start_trial(self._study_id, each.point, each.kernel.geometry)
        try:
            job = TrialJob(each.kernel, each.problem, sampling)
            report = self.worker.run_trial(job, self.limits)
        except BaseException as error:
            failure = Failure(Outcome.INTERRUPTED, Stage.BUILD, why_interrupted(error))
            stopped = TrialReport(failure)
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

    def _confirm(self, workload: Workload) -> None:
        points = [each for each in self.points if each.point.workload == workload]
        kernels = tuple(each.kernel for each in points)
        job = ConfirmJob(kernels, points[0].problem, sampling_of(self.definition.protocol))
        # Opened one by one: a process is started when it is known that something is left for it.
        workers = FreshWorkers(
            lambda count: [self.start_worker() for _ in range(count)], 0, job, self.limits
        )
        try:
            for process in range(self.definition.protocol.processes):
                left = [
                    (each, trial)
                    for each, trial in self._unconfirmed(workload)
                    if process not in trial.confirm_processes
                ]
                if left:
                    self._confirm_process(workload, left, process, workers)
        finally:
            workers.close()

    def _confirm_process(
        self,
        workload: Workload,
        left: Sequence[tuple[RerunPoint, StoredTrial]],
        process: int,
        workers: FreshWorkers,
    ) -> None:
        protocol = self.definition.protocol
        self.listener(events.Confirming(workload, process, protocol.processes, len(left)))
        reports = confirm_once(
            workers.take,
            [each.kernel for each, _ in left],
            left[0][0].problem,
            sampling_of(protocol),
            self.limits,
            process=process,
        )
        if any(report.outcome is Outcome.INTERRUPTED for report in reports):
            raise EnvironmentProblem(
                f"the device was lost again and again while {workload.shape_text} was rerun",
                hint="check the device with `tuner doctor`, then reproduce again",
            )
        pairs = [(trial.trial_id, report) for (_, trial), report in zip(left, reports, strict=True)]
        self.recorder.record_confirmation(process, pairs, required=protocol.processes)
