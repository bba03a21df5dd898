"""The end of worker processes: told to, waited for, killed."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tuner.environ import worker_environment
from tuner.settings import Settings
from tuner.worker import messages
from tuner.worker.pool import worker_options
from tuner.worker.process import WorkerProcess


@pytest.fixture
def settings(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    """Settings with a cache of the test's own."""
    return make_settings(cache_dir=tmp_path / "cache")


def open_process(settings: Settings) -> WorkerProcess:
    """Return a worker that has opened the CPU."""
    process = WorkerProcess(worker_environment("cpu", settings.cache_dir))
    process.send(messages.OpenDevice("cpu", worker_options(settings)))
    assert isinstance(process.receive(60.0), messages.Ready)
    return process


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10.0
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_workers_that_were_told_to_end_do_so_side_by_side(settings: Settings) -> None:
    processes = [open_process(settings) for _ in range(2)]
    for process in processes:
        process.begin_close()
    try:
        assert wait_until(lambda: all(has_ended(each.pid) for each in processes))
    finally:
        for process in processes:
            process.close()


def test_a_worker_ends_with_the_code_of_success(settings: Settings) -> None:
    process = open_process(settings)
    process.close()
    assert process._process.returncode == 0


@pytest.mark.parametrize("refused", [False, True])
def test_a_worker_that_does_not_end_is_killed(
    settings: Settings, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr("tuner.worker.process.CLOSE_TIMEOUT_S", 0.2)
    if refused:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    process = open_process(settings)
    os.kill(process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    process.close()
    assert 0.2 <= time.monotonic() - begun < 5.0
    assert process._process.returncode == -signal.SIGKILL


def test_closing_waits_for_the_end_and_no_longer(settings: Settings) -> None:
    process = open_process(settings)
    process.begin_close()
    assert wait_until(lambda: has_ended(process.pid))
    begun = time.monotonic()
    process.close()
    assert time.monotonic() - begun < 0.5
