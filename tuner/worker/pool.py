"""A device behind a worker process: what it is asked, with deadlines, and what a loss means."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from typing import TypeVar

from tuner import errors
from tuner.domain.controls import ControlKind
from tuner.domain.device import DeviceListing
from tuner.domain.environment import differences
from tuner.domain.job import CompileJob
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import CompileReport
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.environ import worker_environment
from tuner.settings import Settings
from tuner.worker import messages
from tuner.worker.process import WorkerDied
from tuner.worker.process import WorkerProcess
from tuner.worker.process import WorkerTimeout
from tuner.worker.remembered import remember

_LOG = logging.getLogger("tuner.worker")
START_TIMEOUT_S = 120.0  # a cold GPU driver plus Triton's import takes up to 20 s

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a job was when its worker was lost."""

    stage: Stage
    kernel: int


class DeviceWorker:
    """A device behind a worker process that is started again whenever it is lost.

    Attributes:
        facts: What the device is.
        environment: Machine and toolchain.

    Args:
        device_id: Which device.
        settings: Name the cache.
        process: One that has been told to open it; None starts one.
        said: What the device said of itself before: it is opened when something is measured.
        languages: Those of the kernels, where they are known.

    Raises:
        DeviceUnavailable: The device can't be used, with the reason.
    """

    def __init__(
        self,
        device_id: str,
        settings: Settings,
        process: WorkerProcess | None = None,
        said: messages.Ready | None = None,
        languages: Sequence[str] = (),
    ) -> None:
        self._device_id = device_id
        self._settings = settings
        self._languages = languages
        self._process = process
        self._is_open = False
        self._is_preparing = False
        ready = said or self._open()
        self.facts, self.environment = ready.facts, ready.environment
        # What `auto` meant: a worker that replaces this one must get the same device.
        self._device_id = self.facts.device_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(force=kind is not None)

    def run_trial(self, job: TrialJob, limits: Limits) -> TrialReport:
        """Run a trial; a crash, a hang or a lost device is that trial's outcome."""
        reports = self._run(messages.RunTrial(job), 1, limits)
        return reports[0]

    def run_screening(
        self, job: ScreenJob, limits: Limits, meanwhile: Callable[[], None] | None = None
    ) -> list[TrialReport]:
        """Run the trials of several kernels; as ``run_confirmation``.

        Args:
            job: What to run.
            limits: Deadlines; they count from when ``meanwhile`` returns.
            meanwhile: Called once while the worker runs.
        """
        return self._run(messages.RunScreening(job), len(job.kernels), limits, meanwhile)

    def prepare(self, job: ConfirmJob, *, screening: bool = False) -> None:
        """Have a confirmation, or screenings, made ready for, without waiting for it."""
        if self._process is not None and self._is_open:
            self._is_preparing = True
            with contextlib.suppress(WorkerDied):  # told when it is asked for more
                self._process.send(messages.Prepare(job, screening))

    def await_prepared(self, limits: Limits) -> None:
        """Wait until it is ready; where it is lost over it, the next request starts another."""
        if self._process is None or not self._is_preparing:
            return
        self._is_preparing = False
        try:
            reply = self._process.receive(limits.build_timeout_s + limits.run_timeout_s)
        except (WorkerDied, WorkerTimeout):
            self.close(force=True)
            return
        if not isinstance(reply, messages.Prepared):
            raise unexpected_reply(reply)
        _LOG.debug("process %d is prepared", self._process.pid)

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        """Run a confirmation; kernels that were not at fault may come back ``interrupted``."""
        return self._run(messages.RunConfirmation(job), len(job.kernels), limits)

    def run_controls(self, job: ControlJob, limits: Limits) -> list[TrialReport]:
        """Measure the controls of a run: a report for each ``ControlKind``."""
        return self._run(messages.MeasureControls(job), len(ControlKind), limits)

    def begin_close(self) -> None:
        """Let the worker process end by itself; nothing more may be asked of it."""
        if self._process is not None:
            self._process.begin_close()

    def close(self, *, force: bool = False) -> None:
        """End the worker process."""
        if self._process is not None:
            if force:
                self._process.kill()
            self._process.close()
            self._process = None
            self._is_open = self._is_preparing = False

    def _open(self) -> messages.Ready:
        if self._process is None:
            self._process = begin_opening(self._device_id, self._settings, self._languages)
        try:
            ready = _receive(self._process, messages.Ready)
        except BaseException:
            self.close(force=True)
            raise
        self._is_open = True
        _LOG.debug("process %d has opened %s", self._process.pid, ready.facts.device_id)
        remember(self._device_id, self._settings, ready, self._process.pid)
        return ready

    def _open_again(self) -> None:
        """Open the device that results are stored for.

        Raises:
            EnvironmentProblem: It is not the same any more.
        """
        now = self._open().environment
        if now.key != self.environment.key:
            changed = [each for each in differences(self.environment, now) if each.is_identity]
            raise errors.EnvironmentProblem(
                f"{self._device_id} is not what it was: {', '.join(map(str, changed))}",
                hint="run the command again",
            )

    def _run(
        self,
        request: messages.Request,
        kernels: int,
        limits: Limits,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[TrialReport]:
        self.await_prepared(limits)
        if not self._is_open:
            self._open_again()
        assert self._process is not None
        at = _Position(Stage.BUILD, 0)
        timeout_s = limits.build_timeout_s
        try:
            self._process.send(request)
            if meanwhile is not None:
                meanwhile()
            while True:
                reply = self._process.receive(timeout_s)
                if isinstance(reply, messages.StageBegun):
                    at = _Position(reply.stage, reply.position)
                    building = reply.stage is Stage.BUILD
                    timeout_s = limits.build_timeout_s if building else limits.run_timeout_s
                elif isinstance(reply, messages.Done):
                    if reply.device_lost:
                        self.close(force=True)
                    return list(reply.reports)
                else:
                    raise unexpected_reply(reply)
        except WorkerTimeout as error:
            outcome = Outcome.COMPILE_TIMEOUT if at.stage is Stage.BUILD else Outcome.TIMEOUT
            failure = Failure(outcome, at.stage, f"no end within {error.timeout_s:g} s", error.log)
        except WorkerDied as error:
            failure = Failure(Outcome.CRASH, at.stage, error.description, error.log)
        except BaseException:  # Ctrl-C, an environment error: leave no process behind
            self.close(force=True)
            raise
        self.close(force=True)
        return _blame(failure, at.kernel, kernels)


def list_devices(settings: Settings) -> list[DeviceListing]:
    """Ask a worker which devices there are and why others can't be used."""
    return list(
        _ask(settings, messages.ListDevices(worker_options(settings)), messages.Devices).listings
    )


class Compiler:
    """A worker that compiles for architectures without opening a device."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    def compile(self, job: CompileJob, timeout_s: float) -> CompileReport:
        """Compile one kernel. A compiler that crashes or hangs is that kernel's answer."""
        try:
            self._process.send(messages.RunCompile(job))
            reply = self._process.receive(timeout_s)
        except WorkerDied as error:
            report = CompileReport(None, f"the compiler crashed: {error.description}", error.log)
        except WorkerTimeout as error:
            report = CompileReport(None, f"the compiler gave {error}", error.log)
        else:
            if isinstance(reply, messages.Compiled):
                return reply.report
            raise unexpected_reply(reply)
        self._process.close()
        self._process = self._start()
        return report

    def _start(self) -> WorkerProcess:
        # Not the CPU device's environment: Triton must compile, not interpret.
        return WorkerProcess(worker_environment("", self._settings.cache_dir))


def _ask(settings: Settings, request: messages.Request, answer: type[_T]) -> _T:
    process = WorkerProcess(worker_environment("", settings.cache_dir))
    try:
        with contextlib.suppress(WorkerDied):  # told when its answer is awaited
            process.send(request)
        return _receive(process, answer)
    finally:
        process.close()


def begin_opening(
    device_id: str,
    settings: Settings,
    languages: Sequence[str] = (),
    process: WorkerProcess | None = None,
) -> WorkerProcess:
    """Have a worker load languages and open a device, without waiting for it.

    Args:
        device_id: Which device.
        settings: Name the cache.
        languages: What it will build.
        process: One that has nothing open; None starts one.
    """
    process = process or WorkerProcess(worker_environment(device_id, settings.cache_dir))
    with contextlib.suppress(WorkerDied):  # told when its answer is awaited
        if languages:
            process.send(messages.LoadLanguages(tuple(languages)))
        process.send(messages.OpenDevice(device_id, worker_options(settings)))
    return process


def _receive(process: WorkerProcess, answer: type[_T]) -> _T:
    """Return a worker's first answer.

    Raises:
        EnvironmentProblem: It died or did not answer, or says what is wrong.
    """
    try:
        reply = process.receive(START_TIMEOUT_S)
    except WorkerDied as error:
        raise errors.EnvironmentProblem(
            f"the worker process died: {error.description}",
            hint="its last output: " + (error.log.strip()[-500:] or "none"),
        ) from error
    except WorkerTimeout as error:
        raise errors.EnvironmentProblem(f"the worker process gave {error}") from error
    if not isinstance(reply, answer):
        raise unexpected_reply(reply)
    return reply


def unexpected_reply(reply: object) -> Exception:
    """Return what an answer of the wrong kind means: the worker's own error, if it is one."""
    if isinstance(reply, messages.WorkerError):
        kind = getattr(errors, reply.error, errors.EnvironmentProblem)
        return kind(reply.message, hint=reply.hint)
    return messages.BadMessage(f"unexpected answer {reply!r}")


def _blame(failure: Failure, guilty: int, kernels: int) -> list[TrialReport]:
    """Give the failure to the kernel under way; the others did not get their turn."""
    innocent = Failure(
        Outcome.INTERRUPTED, failure.stage, "another kernel of the same process failed"
    )
    return [TrialReport(failure if position == guilty else innocent) for position in range(kernels)]


def worker_options(settings: Settings) -> messages.WorkerOptions:
    """Return the settings that a worker needs."""
    return messages.WorkerOptions(
        str(settings.cache_dir), settings.cpu_wave_size, settings.cpu_compiler
    )
