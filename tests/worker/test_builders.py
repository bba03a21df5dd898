"""Kernels built ahead in other processes: what they leave, how they fail, whom they disturb."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
import signal
import stat
import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tuner.domain.job import Kernel
from tuner.domain.job import Problem
from tuner.domain.job import Sampling
from tuner.domain.job import ScreenJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.errors import EnvironmentProblem
from tuner.operator import Operator
from tuner.settings import Settings
from tuner.worker.builder_processes import BuilderProcesses
from tuner.worker.builders import Builders
from tuner.worker.builders import NoBuilders
from tuner.worker.cores import CoreShare
from tuner.worker.cores import own_cores
from tuner.worker.cores import share_cores
from tuner.worker.pool import DeviceWorker

SHAPE = (6, 40)
SAMPLING = Sampling(1, 3, 1, 100.0, "hot", "auto", "", 3)
ONE_AT_A_TIME = CoreShare(1, own_cores(), overlaps=False)


def kernel(operator: Operator, fault: str = "good", block: int = 64) -> Kernel:
    implementation = operator.implementation(fault)
    source = operator.source(implementation)
    made = operator.kernel(implementation, source, {"BLOCK": block}, operator.workload(SHAPE))
    return dataclasses.replace(made, constants={"BLOCK": block})


def problem(operator: Operator) -> Problem:
    return operator.problem(operator.workload(SHAPE))


@pytest.fixture
def settings(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    """Settings with a cache of the test's own."""
    return make_settings(cache_dir=tmp_path / "cache")


@contextmanager
def builders_for(
    settings: Settings, share: CoreShare, timeout_s: float = 60.0, early: int = 0
) -> Iterator[tuple[Builders, BuilderProcesses]]:
    processes = BuilderProcesses("cpu", settings, share)
    try:
        processes.start(early, ["hip", "triton"])
        with DeviceWorker("cpu", settings) as worker:
            facts = worker.facts
        yield Builders(facts, processes, timeout_s), processes
    finally:
        processes.close()


def compiler(path: Path, script: str) -> str:
    """Write a C++ compiler of the test's own."""
    path.write_text(f"#!/bin/sh\ncase $1 in --version) echo planted 1; exit;; esac\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_measuring_worker_finds_what_was_built_ahead(
    planted: Operator, settings: Settings
) -> None:
    kernels = [kernel(planted, block=block) for block in (32, 64)]
    with DeviceWorker("cpu", settings) as worker:
        with builders_for(settings, ONE_AT_A_TIME) as (builders, _):
            built = [builders.submit(each).result() for each in kernels]
            again = builders.submit(kernels[0]).result()
        job = ScreenJob(tuple(kernels), problem(planted), SAMPLING)
        reports = worker.run_screening(job, Limits())

    assert [(each.failure, each.cached) for each in built] == [(None, False)] * 2
    assert again.cached
    assert [report.outcome for report in reports] == [Outcome.OK] * 2
    assert all(report.build is not None and report.build.cached for report in reports)


def test_a_build_that_fails_ahead_says_what_the_worker_would(
    planted: Operator, settings: Settings
) -> None:
    broken = kernel(planted, "broken-source")
    with DeviceWorker("cpu", settings) as worker:
        with builders_for(settings, ONE_AT_A_TIME) as (builders, _):
            ahead = builders.submit(broken).result().failure
            assert builders.submit(kernel(planted)).result().failure is None  # and it goes on
        job = ScreenJob((broken,), problem(planted), SAMPLING)
        (report,) = worker.run_screening(job, Limits())

    assert ahead is not None
    assert ahead.outcome is Outcome.COMPILE_ERROR
    assert "no_such_name" in ahead.log
    assert report.failure == ahead


def test_a_compiler_that_hangs_costs_its_kernel_only_and_leaves_nothing(
    planted: Operator, settings: Settings, tmp_path: Path
) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    script = 'case "$*" in *BLOCK=32*) sleep 60;; *) exec g++ "$@";; esac'
    own = settings.model_copy(update={"cpu_compiler": compiler(tmp_path / "cc", script)})
    share = CoreShare(2, own_cores(), overlaps=False)
    with builders_for(own, share, timeout_s=8.0) as (builders, _):
        begun = time.monotonic()
        hanging = builders.submit(kernel(planted, block=32))
        sound = builders.submit(kernel(planted, block=64))
        assert sound.result().failure is None
        failure = hanging.result().failure
    assert failure is not None
    assert (failure.outcome, failure.stage) == (Outcome.COMPILE_TIMEOUT, Stage.BUILD)
    assert time.monotonic() - begun < 8.0 + 10.0
    assert not {child.pid for child in psutil.Process().children(recursive=True)} - before


def test_a_builder_that_dies_is_its_kernels_crash(
    planted: Operator, settings: Settings, tmp_path: Path
) -> None:
    script = 'case "$*" in *BLOCK=32*) kill -SEGV $PPID; sleep 9;; *) exec g++ "$@";; esac'
    own = settings.model_copy(update={"cpu_compiler": compiler(tmp_path / "cc", script)})
    with builders_for(own, ONE_AT_A_TIME) as (builders, _):
        failure = builders.submit(kernel(planted, block=32)).result().failure
        after = builders.submit(kernel(planted, block=64)).result()
    assert failure is not None
    assert (failure.outcome, failure.stage) == (Outcome.CRASH, Stage.BUILD)
    assert "SIGSEGV" in failure.message
    assert after.failure is None


def test_closing_ends_builds_under_way_and_their_files(
    planted: Operator, settings: Settings, tmp_path: Path
) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    own = settings.model_copy(update={"cpu_compiler": compiler(tmp_path / "cc", "sleep 60")})
    with builders_for(own, ONE_AT_A_TIME) as (builders, processes):
        builders.submit(kernel(planted))
        waiting = builders.submit(kernel(planted, block=32))
        scratch = Path(processes.scratch)
        deadline = time.monotonic() + 20
        while not list(scratch.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        begun = time.monotonic()
    assert time.monotonic() - begun < 8.0
    assert waiting.cancelled()
    assert not scratch.exists()
    assert not {child.pid for child in psutil.Process().children(recursive=True)} - before


def test_builders_stay_on_their_cores_and_yield(planted: Operator, settings: Settings) -> None:
    share = CoreShare(1, own_cores()[-1:], overlaps=True)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with builders_for(settings, share) as (builders, _):
        builders.submit(kernel(planted)).result()
        mine = {child.pid for child in psutil.Process().children()} - before
        (pid,) = mine
        assert os.sched_getaffinity(pid) == set(share.cores)
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.parametrize(
    ("kind", "cores", "quota", "expected"),
    [
        ("cpu", 16, math.inf, CoreShare(16, tuple(range(16)), overlaps=False)),
        ("cuda", 16, math.inf, CoreShare(14, tuple(range(2, 16)), overlaps=True)),
        ("hip", 4, math.inf, CoreShare(2, (2, 3), overlaps=True)),
        ("cuda", 3, math.inf, CoreShare(3, (0, 1, 2), overlaps=False)),
        ("cuda", 1, math.inf, CoreShare(1, (0,), overlaps=False)),
        # A container with 4 seconds a second on a large host: two of them stay free.
        ("cuda", 64, 4.5, CoreShare(2, tuple(range(2, 64)), overlaps=True)),
        ("cuda", 64, 0.5, CoreShare(1, tuple(range(64)), overlaps=False)),
    ],
)
def test_cores_are_kept_for_measuring(
    kind: str, cores: int, quota: float, expected: CoreShare
) -> None:
    assert share_cores(kind, tuple(range(cores)), quota) == expected


def test_builders_that_were_started_ahead_are_the_ones_that_build(
    planted: Operator, settings: Settings
) -> None:
    before = {child.pid for child in psutil.Process().children()}
    share = CoreShare(2, own_cores(), overlaps=False)
    with builders_for(settings, share, early=5) as (builders, _):
        early = {child.pid for child in psutil.Process().children()} - before
        builds = [builders.submit(kernel(planted, block=block)) for block in (32, 64, 128)]
        assert [build.result().failure for build in builds] == [None] * 3
        assert {child.pid for child in psutil.Process().children()} - before == early
    assert len(early) == 2  # one a thread, whatever was asked for
    assert not {child.pid for child in psutil.Process().children()} & early


def test_a_builder_that_can_not_be_started_is_reported(
    planted: Operator, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_environment: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("tuner.worker.builder_processes.WorkerProcess", refuse)
    with builders_for(settings, ONE_AT_A_TIME, early=1) as (builders, _):
        error = builders.submit(kernel(planted)).exception()
    assert isinstance(error, EnvironmentProblem)
    assert "temporarily unavailable" in str(error)


def test_a_builder_that_dies_before_it_builds_costs_no_kernel(
    planted: Operator, settings: Settings
) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with builders_for(settings, ONE_AT_A_TIME, early=1) as (builders, _):
        (early,) = (pid for pid in {c.pid for c in psutil.Process().children()} - before)
        os.kill(early, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(early)], timeout=5.0)
        assert builders.submit(kernel(planted)).result().failure is None


def test_no_builders_leave_the_build_to_the_worker(planted: Operator) -> None:
    built = NoBuilders().submit(kernel(planted)).result(timeout=0)
    assert (built.failure, built.build_s) == (None, None)
    assert not dataclasses.asdict(built)["cached"]
