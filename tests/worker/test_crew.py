"""The processes of a run: started together, ended together, and none that is not needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tuner.domain.environment import Environment
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import Kernel
from tuner.domain.job import Sampling
from tuner.domain.job import TrialJob
from tuner.domain.protocol import Limits
from tuner.errors import DeviceUnavailable
from tuner.errors import EnvironmentProblem
from tuner.errors import MissingDependency
from tuner.operator import Operator
from tuner.settings import Settings
from tuner.worker import messages
from tuner.worker.builders import Builders
from tuner.worker.cores import CoreShare
from tuner.worker.cores import own_cores
from tuner.worker.crew import Crew
from tuner.worker.pool import DeviceWorker

LANGUAGES = ("hip", "triton")


@pytest.fixture
def settings(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    """Settings with a cache of the test's own."""
    return make_settings(cache_dir=tmp_path / "cache")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Fail a test that leaves a process behind."""
    before = children()
    yield
    assert not children() - before


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def good_kernel(operator: Operator) -> Kernel:
    implementation = operator.implementation("good")
    source, workload = operator.source(implementation), operator.workload((6, 40))
    return operator.kernel(implementation, source, {"BLOCK": 64}, workload)


def overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share the cores as beside a GPU."""
    share = CoreShare(1, own_cores()[-1:], overlaps=True)
    monkeypatch.setattr("tuner.worker.crew.share_cores", lambda *_: share)


def test_worker_and_builders_start_at_once(settings: Settings) -> None:
    before = children()
    with Crew("cpu", LANGUAGES, settings) as crew:
        begun = time.monotonic()
        crew.start(builds=1)
        assert time.monotonic() - begun < 1.0
        assert crew.worker.facts.device_id == "cpu"
        assert isinstance(crew.builders(60.0), Builders)
        assert len(children() - before) == 2


def test_builders_of_whatever_device_there_is_start_when_it_is_known(settings: Settings) -> None:
    before = children()
    with Crew("auto", LANGUAGES, settings) as crew:
        crew.start(builds=1)
        assert len(children() - before) == 1
        crew.builders(60.0)
        deadline = time.monotonic() + 10.0
        while len(children() - before) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(children() - before) == 2


def test_a_crew_that_was_not_needed_is_thrown_away(settings: Settings) -> None:
    with Crew("cpu", LANGUAGES, settings) as crew:
        crew.start(builds=2)


def test_a_device_that_is_not_there_is_reported_and_nothing_is_left(settings: Settings) -> None:
    with Crew("cuda:77", LANGUAGES, settings) as crew:
        crew.start(builds=2)
        with pytest.raises((DeviceUnavailable, MissingDependency)):
            _ = crew.worker


def test_a_run_that_is_stopped_while_it_starts_leaves_nothing(settings: Settings) -> None:
    def stopped() -> None:
        with Crew("cpu", LANGUAGES, settings) as crew:
            crew.start(builds=2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()


def test_processes_end_with_a_parent_that_is_killed_while_they_start(settings: Settings) -> None:
    code = (
        "import sys\n"
        "from tuner.settings import load_settings\n"
        "from tuner.worker.crew import Crew\n"
        "crew = Crew('cpu', ('hip', 'triton'), load_settings())\n"
        "crew.start(builds=2)\n"
        "crew.worker\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "TUNER_CACHE_DIR": str(settings.cache_dir)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"started\n"
    orphans = psutil.Process(parent.pid).children(recursive=True)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert len(orphans) >= 2
    assert not psutil.wait_procs(orphans, timeout=10.0)[1]


def test_confirming_workers_are_the_ones_that_were_kept_ready(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapping(monkeypatch)
    with Crew("cpu", LANGUAGES, settings) as crew:
        crew.start(builds=1)
        crew.builders(60.0)
        others = children()
        crew.keep_ready(2)
        crew.keep_ready(2)
        ready = children() - others
        assert len(ready) == 2
        assert {tuple(os.sched_getaffinity(pid)) for pid in ready} == {own_cores()[-1:]}
        workers = crew.open_workers(3)
        try:
            opened = children() - others
            assert len(opened) == 3
            assert ready < opened
            assert all(tuple(os.sched_getaffinity(pid)) == own_cores() for pid in opened)
            assert {worker.environment.key for worker in workers} == {crew.worker.environment.key}
        finally:
            for worker in workers:
                worker.close()


def test_nothing_is_kept_ready_where_it_would_disturb(settings: Settings) -> None:
    with Crew("cpu", LANGUAGES, settings) as crew:
        crew.start(builds=1)
        crew.builders(60.0)
        before = children()
        crew.keep_ready(2)
        assert children() == before


def test_all_end_together_when_nothing_more_is_asked(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    overlapping(monkeypatch)
    before = children()  # what earlier tests have left, a tracker of resources say
    with Crew("cpu", LANGUAGES, settings) as crew:
        crew.start(builds=1)
        crew.builders(60.0)
        crew.keep_ready(1)
        mine = [psutil.Process(pid) for pid in children() - before]
        assert len(mine) >= 3
        assert crew.worker
        crew.begin_close()
        deadline = time.monotonic() + 10.0
        while any(each.status() != psutil.STATUS_ZOMBIE for each in mine):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_what_a_device_said_before_is_not_taken_for_what_it_is_when_it_is_measured(
    settings: Settings, planted: Operator
) -> None:
    with DeviceWorker("cpu", settings) as worker:
        facts, environment = worker.facts, worker.environment
    older = Environment({**environment.identity, "compiler": "g++ 1.0"}, environment.context)
    problem = planted.problem(planted.workload((6, 40)))
    sampling = Sampling(1, 3, 1, 100.0, "hot", "auto", "", 3)
    job = TrialJob(good_kernel(planted), problem, sampling)

    for said, is_same in [(environment, True), (older, False)]:
        ready = messages.Ready(replace(facts, device_id="cpu"), said)
        with DeviceWorker("cpu", settings, said=ready) as worker:
            assert worker.environment is said
            if is_same:
                assert worker.run_trial(job, Limits()).failure is None
            else:
                with pytest.raises(EnvironmentProblem, match=r"compiler: g\+\+ 1\.0 -> "):
                    worker.run_trial(job, Limits())


def test_what_screenings_need_is_made_while_their_kernels_are_built(
    settings: Settings, planted: Operator
) -> None:
    problem = planted.problem(planted.workload((6, 40)))
    sampling = Sampling(1, 3, 1, 100.0, "hot", "auto", "", 3)
    with DeviceWorker("cpu", settings) as worker:
        worker.prepare(ConfirmJob((), problem, sampling), screening=True)
        report = worker.run_trial(TrialJob(good_kernel(planted), problem, sampling), Limits())
        assert report.failure is None
        built = worker.run_controls(
            ControlJob(good_kernel(planted), problem, sampling, 4096), Limits()
        )
        # The sentinel is the kernel that was built for its trial.
        assert [each.build is not None and each.build.cached for each in built] == [True] * 3


def test_a_worker_that_is_lost_while_it_makes_ready_costs_no_trial(
    settings: Settings, planted: Operator
) -> None:
    problem = planted.problem(planted.workload((6, 40)))
    sampling = Sampling(1, 3, 1, 100.0, "hot", "auto", "", 3)
    before = children()
    with DeviceWorker("cpu", settings) as worker:
        (pid,) = children() - before
        os.kill(pid, signal.SIGSTOP)
        worker.prepare(ConfirmJob((), problem, sampling), screening=True)
        os.kill(pid, signal.SIGKILL)
        report = worker.run_trial(TrialJob(good_kernel(planted), problem, sampling), Limits())
        assert report.failure is None
