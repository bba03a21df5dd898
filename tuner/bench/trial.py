"""Runs a trial: build, validate, measure, validate again.

The one place where exceptions become outcomes.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import partial
from typing import Literal
from typing import TypeAlias

from tuner.bench import controls
from tuner.bench.compare import is_non_finite
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Toolchain
from tuner.bench.languages.base import Executable
from tuner.bench.languages.base import Language
from tuner.bench.measure import BufferSets
from tuner.bench.measure import interleaved_order
from tuner.bench.measure import Sampler
from tuner.bench.validate import CheckCase
from tuner.bench.validate import Checker
from tuner.bench.validate import timed_case
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import InputCase
from tuner.domain.job import Kernel
from tuner.domain.job import Problem
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import BuildReport
from tuner.domain.records import BuiltAhead
from tuner.domain.records import Failure
from tuner.domain.records import ProcessReport
from tuner.domain.records import TrialReport
from tuner.domain.records import ValidationReport
from tuner.errors import BadTimerValue
from tuner.errors import BuildFailed
from tuner.errors import DeviceFault
from tuner.errors import LaunchFailed
from tuner.errors import NonFiniteResult
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources
from tuner.errors import TrialError
from tuner.errors import TunerError
from tuner.errors import UnstableResult
from tuner.errors import WrongResult

FRESH_SEED_STEP = 1  # the check after timing uses the next seed: input no launch has seen
MAX_LOG_CHARS = 65_536

OnStage: TypeAlias = Callable[[Stage, int], None]
Job: TypeAlias = TrialJob | ConfirmJob | ScreenJob | ControlJob

_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (BuildFailed, Outcome.COMPILE_ERROR),
    (OutOfResources, Outcome.OUT_OF_RESOURCES),
    (OutOfDeviceMemory, Outcome.OUT_OF_MEMORY),
    (MemoryError, Outcome.OUT_OF_MEMORY),
    (BadTimerValue, Outcome.TIMER_ERROR),
    (NonFiniteResult, Outcome.NON_FINITE),
    (UnstableResult, Outcome.UNSTABLE_RESULT),
    (WrongResult, Outcome.WRONG_RESULT),
    (DeviceFault, Outcome.CRASH),
    (LaunchFailed, Outcome.LAUNCH_ERROR),
)


@dataclass(slots=True)
class _Run:
    """One kernel's way through the stages, as far as it came."""

    kernel: Kernel
    stage: Stage = Stage.BUILD
    failure: Failure | None = None
    build: BuildReport | None = None
    executable: Executable | None = None
    sampler: Sampler | None = None
    validations: list[ValidationReport] = field(default_factory=list)
    process: ProcessReport | None = None
    validate_s: float = 0.0
    measure_s: float = 0.0

    def report(self) -> TrialReport:
        return TrialReport(
            failure=self.failure,
            build=self.build,
            validations=tuple(self.validations),
            process=self.process,
            validate_s=self.validate_s or None,
            measure_s=self.measure_s or None,
        )


class Bench:
    """A device with its languages, and the inputs of the problem in hand.

    Attributes:
        device_lost: A kernel broke the device context; the process must be given up.
    """

    def __init__(self, device: Device, languages: Mapping[str, Language]) -> None:
        self._device = device
        self._languages = languages
        self._problem: Problem | None = None
        self._checker: Checker | None = None
        self._sets: dict[tuple[str, int, frozenset[str]], BufferSets] = {}
        self.device_lost = False

    def run_trial(self, job: TrialJob, on_stage: OnStage) -> TrialReport:
        """Build, validate with every input case, sample, and validate with fresh input."""
        run = _Run(job.kernel)
        attempt = partial(self._attempt, run, 0, on_stage)
        attempt(Stage.BUILD, partial(self._build, run))
        attempt(Stage.VALIDATE, partial(self._check_before, run, job.problem.cases, job))
        attempt(Stage.MEASURE, partial(self._sample, run, job))
        self._finish(run, 0, on_stage, job)
        return run.report()

    def prepare(self, job: ConfirmJob, *, screening: bool) -> None:
        """Make inputs and expected outputs; build a job's kernels, for screenings the controls.

        None of these is launched. A build that fails here fails again later, which tells.
        """
        checker, seed = self._checker_of(job.problem), job.sampling.input_seed
        timed = timed_case(job.problem, job.sampling.input_case)
        for case in job.problem.cases if screening else (timed,):
            checker.case(case, seed)
        checker.case(timed, seed + FRESH_SEED_STEP)
        for kernel in (*job.kernels, *(controls.kernels() if screening else ())):
            if not self._device.facts.languages.get(kernel.language):
                with contextlib.suppress(TrialError):
                    self._languages[kernel.language].build(kernel, self._device)

    def run_confirmation(self, job: ConfirmJob, on_stage: OnStage) -> list[TrialReport]:
        """Sample several kernels of one problem interleaved; one report for each, in order.

        Every case was checked when the kernel's trial ran; here the timed case is checked
        before, and fresh input after the samples.
        """
        timed = timed_case(job.problem, job.sampling.input_case)
        return self._run_together(job, (timed,), on_stage)

    def run_screening(self, job: ScreenJob, on_stage: OnStage) -> list[TrialReport]:
        """Run the trials of several kernels of one problem, sampled interleaved, in order."""
        return self._run_together(job, job.problem.cases, on_stage)

    def _run_together(
        self, job: ConfirmJob | ScreenJob, cases: Sequence[InputCase], on_stage: OnStage
    ) -> list[TrialReport]:
        runs = [_Run(kernel) for kernel in job.kernels]
        for position, run in enumerate(runs):
            attempt = partial(self._attempt, run, position, on_stage)
            attempt(Stage.BUILD, partial(self._build, run))
            attempt(Stage.VALIDATE, partial(self._check_before, run, cases, job))
        for position, run in enumerate(runs):
            self._attempt(run, position, on_stage, Stage.MEASURE, partial(self._warm_up, run, job))
        for position in interleaved_order(len(runs), job.sampling.samples, job.rotation):
            run = runs[position]
            self._attempt(run, position, on_stage, Stage.MEASURE, partial(self._take, run))
        for position, run in enumerate(runs):
            self._finish(run, position, on_stage, job)
        return self._reports(runs)

    def run_controls(self, job: ControlJob, on_stage: OnStage) -> list[TrialReport]:
        """Measure null kernel, copy and sentinel, one report for each, in this order.

        One after the other: in a hot cache the copy would evict what the sentinel needs. The
        sentinel comes last, on a device that the others have brought out of its rest.
        """
        runs = [
            _Run(controls.null_kernel()),
            _Run(controls.copy_kernel(job.copy_bytes)),
            _Run(job.kernel),
        ]
        self._control(runs[0], 0, job, controls.null_sets(self._device), on_stage)
        copy_sets = controls.copy_sets(self._device, job.copy_bytes)
        self._control(runs[1], 1, job, copy_sets, on_stage)
        self._control(runs[2], 2, job, None, on_stage)
        return self._reports(runs)

    def _control(
        self,
        run: _Run,
        position: int,
        job: ControlJob,
        sets: BufferSets | None,
        on_stage: OnStage,
    ) -> None:
        """Build and sample a control; its own buffer sets are freed at once."""
        reason = self._device.facts.languages.get(run.kernel.language, "")
        if reason:  # asked for, a missing compiler would end the study
            run.failure = Failure(Outcome.COMPILE_ERROR, Stage.BUILD, reason)
        self._attempt(run, position, on_stage, Stage.BUILD, partial(self._build, run))
        self._attempt(run, position, on_stage, Stage.MEASURE, partial(self._sample, run, job, sets))
        self._keep_samples(run)
        if sets is not None and not self.device_lost:
            sets.close()

    def _reports(self, runs: Sequence[_Run]) -> list[TrialReport]:
        for run in runs:
            if self.device_lost and run.failure is None:
                run.failure = Failure(
                    Outcome.INTERRUPTED, run.stage, "another kernel of the process broke the device"
                )
        return [run.report() for run in runs]

    def close(self) -> None:
        """Free the inputs and the device."""
        self._drop_sets()
        if self._checker is not None and not self.device_lost:
            self._checker.close()
        self._device.close()

    def _attempt(
        self, run: _Run, position: int, on_stage: OnStage, stage: Stage, step: Callable[[], None]
    ) -> None:
        """Do one step of a run that has not failed yet; turn what it raises into an outcome."""
        if run.failure is not None or self.device_lost:
            return
        on_stage(stage, position)
        run.stage = stage
        try:
            step()
        except TunerError:
            raise  # the environment is wrong, not the trial: the study must stop
        except Exception as error:
            run.failure = _failure(error, stage)
            self.device_lost = isinstance(error, DeviceFault)

    def _build(self, run: _Run) -> None:
        run.executable = self._languages[run.kernel.language].build(run.kernel, self._device)
        run.build = run.executable.report

    def _check_before(self, run: _Run, cases: Sequence[InputCase], job: Job) -> None:
        for case in cases:
            self._check(run, job.problem, case, job.sampling.input_seed, "before")

    def _check(
        self,
        run: _Run,
        problem: Problem,
        case: InputCase,
        seed: int,
        phase: Literal["before", "after"],
        *,
        on_host: bool = False,
    ) -> None:
        assert run.executable is not None
        checker = self._checker_of(problem)
        prepared = checker.case(case, seed)
        started = time.perf_counter()
        report = checker.check(run.executable, prepared, phase, on_host=on_host)
        run.validate_s += time.perf_counter() - started
        run.validations.append(report)
        if report.passed:
            return
        message = f"input {report.case}: {report.message}"
        if phase == "after":
            raise UnstableResult(f"right before timing, then wrong: {message}")
        raise NonFiniteResult(message) if is_non_finite(report.message) else WrongResult(message)

    def _sample(self, run: _Run, job: Job, sets: BufferSets | None = None) -> None:
        self._warm_up(run, job, sets)
        for _ in range(job.sampling.samples):
            self._take(run)

    def _warm_up(self, run: _Run, job: Job, sets: BufferSets | None = None) -> None:
        assert run.executable is not None
        started = time.perf_counter()
        if sets is None:
            sets = self._sets_of(job, run.executable.array_names)
        run.sampler = Sampler(self._device, run.executable.bind, sets, job.sampling)
        run.sampler.warm_up()
        run.measure_s += time.perf_counter() - started

    def _take(self, run: _Run) -> None:
        assert run.sampler is not None
        started = time.perf_counter()
        run.sampler.take()
        run.measure_s += time.perf_counter() - started

    def _finish(self, run: _Run, position: int, on_stage: OnStage, job: Job) -> None:
        """Keep the samples, free what sampling took, and check with input no launch has seen."""
        self._keep_samples(run)
        self._attempt(
            run, position, on_stage, Stage.REVALIDATE, partial(self._check_after, run, job)
        )

    def _keep_samples(self, run: _Run) -> None:
        if run.sampler is not None and not self.device_lost:
            if run.failure is None:
                run.process = run.sampler.report()
            run.sampler.close()

    def _check_after(self, run: _Run, job: Job) -> None:
        checker = self._checker_of(job.problem)
        timed = timed_case(job.problem, job.sampling.input_case)
        changed = checker.changed_input(checker.case(timed, job.sampling.input_seed))
        if changed:
            self._drop_sets()  # it may have changed any of them
            raise UnstableResult(f"the kernel changed its input {changed} while it was timed")
        fresh_seed = job.sampling.input_seed + FRESH_SEED_STEP
        # The last word on a finalist is the host's: it shares nothing with the device's memory.
        is_final = isinstance(job, ConfirmJob)
        self._check(run, job.problem, timed, fresh_seed, "after", on_host=is_final)

    def _checker_of(self, problem: Problem) -> Checker:
        if self._checker is None or self._problem != problem:
            self._drop_sets()
            if self._checker is not None:
                self._checker.close()
            self._checker, self._problem = None, None
            self._checker, self._problem = Checker(self._device, problem), problem
        return self._checker

    def _sets_of(self, job: Job, names: frozenset[str]) -> BufferSets:
        """Return buffer sets of the named arrays with the timed inputs in them."""
        checker = self._checker_of(job.problem)
        timed = timed_case(job.problem, job.sampling.input_case)
        case = checker.case(timed, job.sampling.input_seed)
        key = (timed.name, job.sampling.input_seed, names)
        if key not in self._sets:
            arrays = [spec for spec in job.problem.arrays if spec.name in names]
            fill = partial(self._write_inputs, case, names)
            first = checker.buffers(case, names)
            self._sets[key] = BufferSets(self._device, arrays, first, fill)
        return self._sets[key]

    def _write_inputs(
        self, case: CheckCase, names: frozenset[str], buffers: dict[str, Buffer]
    ) -> None:
        for name in case.inputs.keys() & names:
            self._device.write(buffers[name], case.inputs[name])

    def _drop_sets(self) -> None:
        if not self.device_lost:
            for sets in self._sets.values():
                sets.close()
        self._sets.clear()


def build_ahead(
    languages: Mapping[str, Language], toolchain: Toolchain, kernel: Kernel
) -> BuiltAhead:
    """Build a kernel into the cache that a worker with the device will find it in."""
    started = time.perf_counter()
    try:
        language = languages[kernel.language]
        codes = [language.compile(step, toolchain) for step in kernel.launches]
    except TunerError:
        raise  # the environment is wrong, not the kernel: the study must stop
    except Exception as error:
        return BuiltAhead(_failure(error, Stage.BUILD), time.perf_counter() - started)
    compiled = [code for code in codes if code is not None]
    if not compiled:
        return BuiltAhead()
    cached = all(code.cached for code in compiled)
    return BuiltAhead(None, time.perf_counter() - started, cached)


def _failure(error: Exception, stage: Stage) -> Failure:
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            log = getattr(error, "log", "")
            message = getattr(error, "message", "") or str(error) or kind.__name__
            return Failure(outcome, stage, message, log[-MAX_LOG_CHARS:])
    # Nothing that a kernel or compiler is known to do: keep the trace, blame this trial only.
    text = f"{type(error).__name__}: {error}"
    log = "".join(traceback.format_exception(error))
    return Failure(Outcome.CRASH, stage, text.splitlines()[0], log[-MAX_LOG_CHARS:])
