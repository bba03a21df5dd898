"""Languages are loaded while a device is opened, and before anything is built."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tuner.domain.job import BuildJob
from tuner.domain.job import Kernel
from tuner.domain.job import LaunchGeometry
from tuner.domain.outcome import Outcome
from tuner.errors import MissingDependency
from tuner.worker import messages
from tuner.worker.child import Worker

KERNEL = Kernel("slow", {}, "k.py", "k", {}, {}, (), LaunchGeometry((1, 1, 1)))


class SlowLanguage:
    """Loads when the test lets it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go_on = threading.Event()
        self.is_loaded = False
        self.loaded_at_build: list[bool] = []
        self._error = error

    def load(self) -> None:
        assert self.go_on.wait(30.0)
        time.sleep(0.2)
        self.is_loaded = True
        if self._error is not None:
            raise self._error

    def compile(self, _kernel: Kernel, _toolchain: Any) -> None:
        self.loaded_at_build.append(self.is_loaded)


class Replies(io.BytesIO):
    """What a worker answers; lets the language go on with the first answer."""

    def __init__(self, language: SlowLanguage) -> None:
        super().__init__()
        self._language = language

    def write(self, line: Any) -> int:
        self._language.go_on.set()
        return super().write(line)


def serve(language: SlowLanguage, *requests: messages.Request) -> list[Any]:
    """Return what a worker answers to requests."""
    replies = Replies(language)
    worker = Worker(io.BytesIO(b"".join(map(messages.encode, requests))), replies)
    worker._languages = {"slow": language}  # type: ignore[dict-item]
    worker.serve()
    return [messages.decode(line) for line in replies.getvalue().splitlines()]


@pytest.mark.parametrize("error", [None, MissingDependency("not installed")])
def test_a_device_is_opened_meanwhile_and_a_build_waits(
    tmp_path: Path, error: Exception | None
) -> None:
    language = SlowLanguage(error)
    options = messages.WorkerOptions(str(tmp_path))
    job = BuildJob(KERNEL, "cpu", "x86_64", 32)

    opened, built = serve(
        language,
        messages.LoadLanguages(("slow",)),
        messages.OpenDevice("cpu", options),
        messages.RunBuild(job, options),
    )

    assert isinstance(opened, messages.Ready)
    assert isinstance(built, messages.Built)
    assert built.report.failure is None or built.report.failure.outcome is not Outcome.CRASH
    assert language.loaded_at_build == [True]
