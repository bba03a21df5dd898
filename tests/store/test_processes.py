"""Several processes and killed ones: nothing acknowledged is lost, doubled or left running."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from tuner.domain.outcome import Outcome
from tuner.errors import DatabaseProblem
from tuner.errors import EnvironmentProblem
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store.locking import DatabaseFileLock
from tuner.testing.store_values import make_definition

DRIVER = Path(__file__).with_name("driver.py")
KILLS = 20


def start(database: Path, study: str, trials: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(DRIVER), str(database), study, str(trials), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for text in process.stdout:
        if text.strip() == line:
            return
    assert process.stderr is not None
    pytest.fail(f"the driver ended without {line!r}: {process.stderr.read()}")


def test_kill_at_any_moment_loses_and_doubles_nothing(database: Path) -> None:
    chance = random.Random(20260719)
    acknowledged: list[int] = []
    for _ in range(KILLS):
        process = start(database, "killed", 10_000)
        wait_for(process, "open")
        # Killed from outside while it writes: the moment is spread over many transactions.
        threading.Timer(chance.uniform(0.0, 0.15), process.kill).start()
        # Not communicate(): what was read ahead while waiting would be lost.
        assert process.stdout is not None
        output = process.stdout.read()
        process.communicate()
        # The last line may be cut short by the kill; it was stored nevertheless.
        acknowledged += [int(line) for line in output.split("\n")[:-1]]
    assert len(acknowledged) > KILLS  # else nothing was tried
    with open_store(str(database), create=False, writable=True) as store:
        opened = store.recorder().open_study(make_definition("killed"), fresh=False)
        assert opened.state == "resumed"
        trials = store.recorder().stored_trials(opened.study_id)
    assert migrate.check(str(database)) == []
    assert {trial.outcome for trial in trials} <= {Outcome.OK, Outcome.INTERRUPTED}
    stored = [trial.point.config["BLOCK"] for trial in trials if trial.outcome is Outcome.OK]
    assert len(stored) == len(set(stored))
    assert len(acknowledged) == len(set(acknowledged))
    assert set(acknowledged) <= set(stored)


def test_a_study_has_one_living_driver(database: Path) -> None:
    process = start(database, "held", 2, "hold")
    try:
        wait_for(process, "holding")
        with open_store(str(database), create=False, writable=True) as store:
            recorder = store.recorder()
            with pytest.raises(EnvironmentProblem, match=f"run by process {process.pid}"):
                recorder.open_study(make_definition("held"), fresh=False)
            # Others go on beside it.
            assert recorder.open_study(make_definition("other"), fresh=False).state == "new"
            process.kill()
            process.wait()
            opened = recorder.open_study(make_definition("held"), fresh=False)
            assert (opened.state, opened.interrupted) == ("resumed", 1)
            last = recorder.stored_trials(opened.study_id)[-1]
            assert last.outcome is Outcome.INTERRUPTED
            with store.session() as session:
                detail = queries.trial_detail(session, last.trial_id)
            assert detail.summary.message == f"process {process.pid} ended while the trial ran"
    finally:
        process.kill()
        process.communicate()


def test_sixteen_simultaneous_first_starts_make_one_schema(database: Path) -> None:
    processes = [start(database, f"study {number}", 1) for number in range(16)]
    for process in processes:
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
    assert migrate.check(str(database)) == []
    counts = migrate.info(str(database)).counts
    assert (counts["study"], counts["trial"]) == (16, 16)


def test_eight_processes_of_twenty_trials_store_all(database: Path) -> None:
    processes = [start(database, f"study {number}", 20) for number in range(8)]
    for process in processes:
        output, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        assert output.split() == ["open", *(str(block) for block in range(20))]
    assert migrate.check(str(database)) == []
    store = open_store(str(database), create=False, writable=False)
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
