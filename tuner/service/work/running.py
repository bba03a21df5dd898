"""A job under way: its process, what it said, and since when it is asked to stop."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from typing import Any

from tuner.domain.queue import Job
from tuner.service.work.process import settings_message
from tuner.service.work.process import start_child
from tuner.settings import Settings

# To store the trial in hand as interrupted and close the database; a kill leaves that to the
# next run of the study.
STOP_TIMEOUT_S = 5.0  # the service waits for 8 s before it kills whoever counts here


class RunningJob:
    """The process of a job.

    Args:
        job: As it was claimed.
        settings: Of whoever runs it.
    """

    def __init__(self, job: Job, settings: Settings) -> None:
        self.job = job
        self.study_id = job.study_id
        self._said: dict[str, Any] = {}
        self._pending = b""
        self._told_at: float | None = None
        message = {
            "settings": settings_message(settings),
            "kind": job.kind.value,
            "request": dict(job.request),
            "device_id": job.device_id,
            "study_id": job.study_id,
        }
        self._process = start_child("tuner.service.work.child", message, reply=True)
        assert self._process.stdout is not None
        self._replies = self._process.stdout.fileno()
        os.set_blocking(self._replies, False)

    def listen(self) -> None:
        """Take in what the process said since."""
        while chunk := self._read():
            self._pending += chunk
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            self._said |= json.loads(line)
        self.study_id = self._said.get("study_id", self.study_id)

    def has_stored(self, study_id: int) -> None:
        """Note that the queue knows the job's study."""
        self.job = replace(self.job, study_id=study_id)

    def has_ended(self) -> bool:
        """Tell whether the process has ended. What it said last is then taken in."""
        if self._process.poll() is None:
            return False
        self.listen()
        return True

    def tell_to_stop(self) -> None:
        """Ask the process to stop; kill it when it was asked long enough ago."""
        if self._told_at is None:
            self._told_at = time.monotonic()
            self._process.terminate()
        elif time.monotonic() - self._told_at > STOP_TIMEOUT_S:
            self.kill()

    def kill(self) -> None:
        """End the process at once. Its device's worker ends with it."""
        self._process.kill()

    @property
    def result(self) -> dict[str, Any] | None:
        """What the job gave, or None."""
        result: dict[str, Any] | None = self._said.get("result")
        return result

    @property
    def was_stopped(self) -> bool:
        """Whether it ended because it was told to: an error on the way out is no reason to fail."""
        return self.result is None and (self._told_at is not None or "stopped" in self._said)

    @property
    def reason(self) -> str:
        """Why the job failed, in one line."""
        if "error" in self._said:
            return str(self._said["error"])
        code = self._process.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"internal error: the process of the job ended {how}; its log says more"

    def close(self) -> None:
        """Close the pipe of a process that has ended."""
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> bytes:
        try:
            return os.read(self._replies, 1 << 16)
        except BlockingIOError:
            return b""
