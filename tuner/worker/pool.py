"""Starts worker processes, talks to them with deadlines, and kills them with all they started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from typing import Self
from typing import TypeVar

import psutil

from tuner import errors
from tuner.domain.device import DeviceFacts
from tuner.domain.device import DeviceListing
from tuner.domain.environment import Environment
from tuner.domain.job import CompileJob
from tuner.domain.job import ConfirmJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import CompileReport
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.settings import Settings
from tuner.settings import worker_environment
from tuner.worker import messages

START_TIMEOUT_S = 120.0  # a cold GPU driver plus Triton's import takes up to 20 s
CLOSE_TIMEOUT_S = 5.0
LOG_TAIL_BYTES = 16_384

_T = TypeVar("_T")


class WorkerDied(Exception):
    """The worker process ended before it answered."""

    def __init__(self, description: str, log: str) -> None:
        super().__init__(description)
        self.description = description
        self.log = log


class WorkerTimeout(Exception):
    """The worker did not answer before its deadline. It has been killed."""

    def __init__(self, timeout_s: float, log: str) -> None:
        super().__init__(f"no answer within {timeout_s:g} s")
        self.timeout_s = timeout_s
        self.log = log


class WorkerProcess:
    """One worker process and the two pipes to it. Not shared between threads."""

    def __init__(self, environment: dict[str, str]) -> None:
        # Open until close(): the worker writes to it as long as it lives.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        request_read, self._request_fd = os.pipe()
        self._reply_fd, reply_write = os.pipe()
        # A session of its own does not end with this one: the child asks the kernel to see to it.
        command = [sys.executable, "-P", "-m", "tuner.start", "tuner.worker.child"]
        command += [str(number) for number in (os.getpid(), request_read, reply_write)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(request_read, reply_write),
                start_new_session=True,  # so that the whole group can be killed
                env=environment,
            )
        finally:
            os.close(request_read)
            os.close(reply_write)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reply_fd, selectors.EVENT_READ)
        self._pending = b""
        self._closed = False

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    def send(self, request: messages.Request) -> None:
        """Send a request.

        Raises:
            WorkerDied: The process is gone.
        """
        line = messages.encode(request)
        try:
            while line:
                line = line[os.write(self._request_fd, line) :]
        except BrokenPipeError as error:
            raise self._died() from error

    def receive(self, timeout_s: float) -> Any:
        """Return the next message.

        Raises:
            WorkerDied: The process ended first.
            WorkerTimeout: Nothing came in time; the process has been killed.
        """
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                log = self.log_tail()
                self.kill()
                raise WorkerTimeout(timeout_s, log)
            chunk = os.read(self._reply_fd, 1 << 20)
            if not chunk:
                raise self._died()
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return messages.decode(line)

    def log_tail(self) -> str:
        """Return the end of what the worker and its kernels printed."""
        size = os.fstat(self._log.fileno()).st_size
        content = os.pread(self._log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES))
        return content.decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill the worker and every process it started, and wait for the end."""
        gone = contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess)
        for child in _descendants(self._process.pid):
            with gone:
                child.kill()
        with gone:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the worker: politely by closing its pipe, else by force. May be called twice."""
        if self._closed:
            return
        self._closed = True
        os.close(self._request_fd)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        self.kill()
        self._selector.close()
        os.close(self._reply_fd)
        self._log.close()

    def _died(self) -> WorkerDied:
        # One that closed its pipe and lives on is no worker any more.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_TIMEOUT_S)
        log = self.log_tail()
        self.kill()
        code = self._process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        return WorkerDied(f"{how}: {last[:200]}" if last else how, log)


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a job was when its worker was lost."""

    stage: Stage
    kernel: int


class DeviceWorker:
    """A device behind a worker process that is started again whenever it is lost.

    Raises:
        DeviceUnavailable: The device can't be used, with the reason.
    """

    def __init__(self, device_id: str, settings: Settings) -> None:
        self._device_id = device_id
        self._settings = settings
        self._process: WorkerProcess | None = None
        self.facts, self.environment = self._open()
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

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        """Run a confirmation; kernels that were not at fault may come back ``interrupted``."""
        return self._run(messages.RunConfirmation(job), len(job.kernels), limits)

    def close(self, *, force: bool = False) -> None:
        """End the worker process."""
        if self._process is not None:
            if force:
                self._process.kill()
            self._process.close()
            self._process = None

    def _open(self) -> tuple[DeviceFacts, Environment]:
        self._process = WorkerProcess(worker_environment(self._device_id, self._settings.cache_dir))
        request = messages.OpenDevice(self._device_id, _options(self._settings))
        try:
            ready = _expect(self._process, request, messages.Ready)
        except BaseException:
            self.close(force=True)
            raise
        return ready.facts, ready.environment

    def _run(self, request: messages.Request, kernels: int, limits: Limits) -> list[TrialReport]:
        if self._process is None:
            self._open()
        assert self._process is not None
        at = _Position(Stage.BUILD, 0)
        timeout_s = limits.build_timeout_s
        try:
            self._process.send(request)
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
                    raise _unexpected(reply)
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
    return list(_ask(settings, messages.ListDevices(_options(settings)), messages.Devices).listings)


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
            raise _unexpected(reply)
        self._process.close()
        self._process = self._start()
        return report

    def _start(self) -> WorkerProcess:
        # Not the CPU device's environment: Triton must compile, not interpret.
        return WorkerProcess(worker_environment("", self._settings.cache_dir))


def _ask(settings: Settings, request: messages.Request, answer: type[_T]) -> _T:
    process = WorkerProcess(worker_environment("", settings.cache_dir))
    try:
        return _expect(process, request, answer)
    finally:
        process.close()


def _expect(
    process: WorkerProcess,
    request: messages.Request,
    answer: type[_T],
    timeout_s: float = START_TIMEOUT_S,
) -> _T:
    try:
        process.send(request)
        reply = process.receive(timeout_s)
    except WorkerDied as error:
        raise errors.EnvironmentProblem(
            f"the worker process died: {error.description}",
            hint="its last output: " + (error.log.strip()[-500:] or "none"),
        ) from error
    except WorkerTimeout as error:
        raise errors.EnvironmentProblem(f"the worker process gave {error}") from error
    if not isinstance(reply, answer):
        raise _unexpected(reply)
    return reply


def _unexpected(reply: object) -> Exception:
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


def _options(settings: Settings) -> messages.WorkerOptions:
    return messages.WorkerOptions(
        str(settings.cache_dir), settings.cpu_wave_size, settings.cpu_compiler
    )


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
