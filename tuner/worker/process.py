"""One worker process: the pipes to it, deadlines, and killing it with all it started."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil

from tuner.worker import messages

_LOG = logging.getLogger("tuner.worker")
CLOSE_TIMEOUT_S = 5.0
LOG_TAIL_BYTES = 16_384


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
        request_read, request_write = os.pipe()
        self._request_fd: int | None = request_write
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
        _LOG.debug("process %d started", self._process.pid)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reply_fd, selectors.EVENT_READ)
        self._pending = b""
        self._is_killed = False
        self._closed = False

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def send(self, request: messages.Request) -> None:
        """Send a request.

        Raises:
            WorkerDied: The process is gone.
        """
        assert self._request_fd is not None, "it was told to end"
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

    def begin_kill(self) -> None:
        """Kill the worker and every process it started, without waiting for the end."""
        if self._is_killed:
            return
        self._is_killed = True
        gone = contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess)
        for child in _descendants(self._process.pid):
            with gone:
                child.kill()
        with gone:
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the worker and every process it started, and wait for the end."""
        self.begin_kill()
        self._process.wait()

    def begin_close(self) -> None:
        """Tell the worker to end, by closing its pipe, without waiting. May be called twice."""
        if self._request_fd is not None:
            os.close(self._request_fd)
            self._request_fd = None

    def close(self) -> None:
        """End the worker: politely by closing its pipe, else by force. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self.begin_close()
        begun_s = time.monotonic()
        self._await_end(CLOSE_TIMEOUT_S)
        self.kill()
        _LOG.debug("process %d ended in %.3f s", self.pid, time.monotonic() - begun_s)
        self._selector.close()
        os.close(self._reply_fd)
        self._log.close()

    def _await_end(self, timeout_s: float) -> None:
        """Return as soon as the process has ended, or when the time is over.

        ``Popen.wait`` with a timeout looks every 50 ms.
        """
        if self._process.poll() is not None:
            return
        try:
            process_fd = os.pidfd_open(self._process.pid)
        except OSError:  # Linux before 5.3, or a container that refuses it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
            return
        try:
            ended = select.poll()
            ended.register(process_fd, select.POLLIN)
            ended.poll(timeout_s * 1e3)
        finally:
            os.close(process_fd)

    def _died(self) -> WorkerDied:
        # One that closed its pipe and lives on is no worker any more.
        self._await_end(CLOSE_TIMEOUT_S)
        log = self.log_tail()
        self.kill()
        code = self._process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
        return WorkerDied(f"{how}: {last[:200]}" if last else how, log)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
