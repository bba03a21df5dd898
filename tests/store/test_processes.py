"""Several processes and killed ones: nothing acknowledged is lost, doubled or left running."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from dataclasses import dataclass
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import TextIO

import pytest
from filelock import FileLock

from tuner.domain.outcome import Outcome
from tuner.errors import DatabaseProblem
from tuner.errors import EnvironmentProblem
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store.locking import DatabaseFileLock
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

KILLS = 20
FORK = multiprocessing.get_context("fork")  # the modules are loaded already: no second to start


@dataclass(frozen=True, slots=True)
class Driver:
    """A process that drives a study, and what it says."""

    process: ForkProcess
    output: TextIO

    def wait_for(self, line: str) -> None:
        """Read up to a line."""
        for text in self.output:
            if text == f"{line}\n":
                return
        pytest.fail(f"the process ended without {line!r}")

    def read(self, lines: int) -> list[int]:
        """Read the numbers of trials that were stored."""
        return [int(self.output.readline()) for _ in range(lines)]

    def end(self) -> list[str]:
        """Wait for the end and return the whole lines not read yet."""
        lines = self.output.read().split("\n")[:-1]
        self.output.close()
        self.process.join()
        return lines


def start(url: str, study: str, trials: int, *, hold: bool = False) -> Driver:
    """Fork a process that drives a study of a database that nothing here has open."""
    reader, writer = os.pipe()
    process = FORK.Process(target=drive, args=(writer, url, study, trials, hold))
    process.start()
    os.close(writer)
    return Driver(process, os.fdopen(reader))


def drive(output: int, url: str, study: str, trials: int, hold: bool) -> None:
    """Run the trials that are not stored as ok yet, and name each when it is stored."""

    def say(text: object) -> None:
        os.write(output, f"{text}\n".encode())

    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(study), fresh=False).study_id
        say("open")
        stored = recorder.stored_trials(study_id)
        done = {each.point.config["BLOCK"] for each in stored if each.outcome is Outcome.OK}
        for block in range(trials):
            if block in done:
                continue
            trial_id = recorder.start_trial(study_id, make_point(block), GEOMETRY)
            report = make_report([block + 1.0 + position / 64 for position in range(50)])
            recorder.finish_trial(trial_id, report, bytes_moved=BYTES_MOVED)
            say(block)
        if hold:
            recorder.start_trial(study_id, make_point(trials), GEOMETRY)
            say("holding")
            time.sleep(60)
        recorder.finish_study(study_id)


def test_kill_at_any_moment_loses_and_doubles_nothing(url: str) -> None:
    chance = random.Random(20260719)
    acknowledged: list[int] = []
    for _ in range(KILLS):
        driver = start(url, "killed", 10_000)
        driver.wait_for("open")
        acknowledged += driver.read(chance.randrange(4))
        # Killed from outside while it writes: the moment is spread over all of a transaction.
        timer = threading.Timer(chance.uniform(0.0, 0.03), driver.process.kill)
        timer.start()
        acknowledged += [int(line) for line in driver.end()]
        timer.join()
    assert len(acknowledged) > KILLS  # else nothing was tried
    with open_store(url, create=False, writable=True) as store:
        opened = store.recorder().open_study(make_definition("killed"), fresh=False)
        assert opened.state == "resumed"
        trials = store.recorder().stored_trials(opened.study_id)
    assert migrate.check(url) == []
    assert {trial.outcome for trial in trials} <= {Outcome.OK, Outcome.INTERRUPTED}
    stored = [trial.point.config["BLOCK"] for trial in trials if trial.outcome is Outcome.OK]
    assert len(stored) == len(set(stored))
    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= set(stored)


def test_a_study_has_one_living_driver(url: str) -> None:
    driver = start(url, "held", 2, hold=True)
    process = driver.process
    try:
        driver.wait_for("holding")
        with open_store(url, create=False, writable=True) as store:
            recorder = store.recorder()
            with pytest.raises(EnvironmentProblem, match=f"run by process {process.pid}"):
                recorder.open_study(make_definition("held"), fresh=False)
            # Others go on beside it.
            assert recorder.open_study(make_definition("other"), fresh=False).state == "new"
            process.kill()
            process.join()
            opened = recorder.open_study(make_definition("held"), fresh=False)
            assert (opened.state, opened.interrupted) == ("resumed", 1)
            last = recorder.stored_trials(opened.study_id)[-1]
            assert last.outcome is Outcome.INTERRUPTED
            with store.session() as session:
                detail = queries.trial_detail(session, last.trial_id)
            assert detail.summary.message == f"process {process.pid} ended while the trial ran"
    finally:
        process.kill()
        driver.end()


def test_sixteen_simultaneous_first_starts_make_one_schema(url: str) -> None:
    drivers = [start(url, f"study {number}", 1) for number in range(16)]
    assert [(driver.end(), driver.process.exitcode) for driver in drivers] == [
        (["open", "0"], 0)
    ] * 16
    assert migrate.check(url) == []
    counts = migrate.info(url).counts
    assert (counts["study"], counts["trial"]) == (16, 16)


def test_eight_processes_of_twenty_trials_store_all(url: str) -> None:
    drivers = [start(url, f"study {number}", 20) for number in range(8)]
    said = ["open", *(str(block) for block in range(20))]
    assert [(driver.end(), driver.process.exitcode) for driver in drivers] == [(said, 0)] * 8
    assert migrate.check(url) == []
    store = open_store(url, create=False, writable=False)
    with store, store.session() as session:
        found = queries.list_studies(session)
    assert [(each.state, each.counts) for each in found] == [("finished", {"ok": 20})] * 8


def test_waiting_for_the_lock_ends_with_the_name_of_the_file(database: Path) -> None:
    open_store(str(database), create=True, writable=False).close()
    begun = time.monotonic()
    second = DatabaseFileLock(database, timeout_s=0.2)
    with FileLock(f"{database}.lock"), pytest.raises(DatabaseProblem) as caught, second.held():
        pytest.fail("two held the lock")
    assert str(database) in caught.value.message
    assert 0.2 <= time.monotonic() - begun < 5.0


def test_threads_of_one_process_take_turns(database: Path) -> None:
    lock = DatabaseFileLock(database)
    inside: list[int] = []

    def work() -> None:
        for _ in range(50):
            with lock.held():
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == []
