"""A server that goes away, and several drivers at once: nothing is half stored, all goes on."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import ForkProcess

import pytest
from postgres import PostgresServer
from postgres import running_server
from sqlalchemy import make_url
from sqlalchemy import text

from tuner.domain.outcome import Outcome
from tuner.errors import DatabaseProblem
from tuner.errors import TunerError
from tuner.store import driving
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import Store
from tuner.store.writer import StudyRecorder
from tuner.testing.store_steps import run_trial
from tuner.testing.store_steps import stored
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

FORK = multiprocessing.get_context("fork")
DRIVERS = 6


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running_server() as server:
        if not server.owned:
            pytest.skip("the server is not ours to stop")
        yield server


def terminate_others(postgres: PostgresServer, url: str) -> None:
    """End all connections to a database, as an administrator does."""
    name = make_url(url).database
    postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def assert_one_line(error: DatabaseProblem) -> None:
    assert "\n" not in error.message
    assert "the same command" in error.hint


def test_a_connection_cut_between_two_trials_is_not_noticed(
    postgres: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        for block in range(3):
            run_trial(recorder, study_id, block, 5.0)
            terminate_others(postgres, postgres_url)
        assert len(stored(recorder, study_id)) == 3
    assert migrate.check(postgres_url) == []


def test_a_connection_cut_in_a_transaction_stores_none_of_it(
    postgres: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        trial_id = run_trial(recorder, study_id, 1, 5.0)

        def cut_off() -> None:
            with store.transaction() as connection:
                connection.execute(text("UPDATE tuner_trial SET message = 'half'"))
                terminate_others(postgres, postgres_url)
                connection.execute(text("UPDATE tuner_trial SET log = 'half'"))

        with pytest.raises(DatabaseProblem, match="the connection was lost") as caught:
            cut_off()
        assert_one_line(caught.value)
        run_trial(recorder, study_id, 2, 5.0)  # and it goes on
        assert list(stored(recorder, study_id)) == [trial_id, trial_id + 1]
    assert migrate.check(postgres_url) == []


def drive(pipe: Pipe, url: str, study: str, trials: int) -> None:
    """Run the trials not stored as ok yet; tell each when it is stored, and how it ended."""
    try:
        with open_store(url, create=True, writable=True) as store:
            recorder = store.recorder()
            study_id = recorder.open_study(make_definition(study), fresh=False).study_id
            found = recorder.stored_trials(study_id)
            done = {each.point.config["BLOCK"] for each in found if each.outcome is Outcome.OK}
            pipe.send("open")
            for block in range(trials):
                if block not in done:
                    trial_id = recorder.start_trial(study_id, make_point(block), GEOMETRY)
                    report = make_report([block + 1.0] * 20)
                    recorder.finish_trial(trial_id, report, bytes_moved=BYTES_MOVED)
                    pipe.send(block)
            pipe.recv()  # drives until it is told to end
            recorder.finish_study(study_id)
    except TunerError as error:
        pipe.send(f"{error.exit_code} {error.message}")
    else:
        pipe.send("finished")


def start(url: str, study: str, trials: int) -> tuple[ForkProcess, Pipe]:
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=drive, args=(theirs, url, study, trials))
    process.start()
    theirs.close()
    return process, ours


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_a_restart_of_the_server_in_the_middle(
    own_server: PostgresServer, how: signal.Signals
) -> None:
    url = own_server.create()
    process, pipe = start(url, "cut off", 100_000)
    assert pipe.recv() == "open"
    acknowledged = [pipe.recv() for _ in range(5)]
    own_server.stop(how)
    while isinstance(last := pipe.recv(), int):
        acknowledged.append(last)
    process.join()
    assert last.startswith("3 database postgresql:///")
    assert "\n" not in last
    own_server.start()
    assert migrate.check(url) == []
    with open_store(url, create=False, writable=True) as store:
        recorder = store.recorder()
        opened = recorder.open_study(make_definition("cut off"), fresh=False)
        assert opened.state == "resumed"
        trials = stored(recorder, opened.study_id).values()
        run_trial(recorder, opened.study_id, 200_000, 5.0)
    assert {each.outcome for each in trials} <= {Outcome.OK, Outcome.INTERRUPTED}
    found = [each.point.config["BLOCK"] for each in trials if each.outcome is Outcome.OK]
    assert acknowledged == found[: len(acknowledged)]
    assert len(found) <= len(acknowledged) + 1  # one may be stored whose word was lost


def test_of_drivers_that_start_at_once_one_drives(url: str) -> None:
    started = [start(url, "wanted", 3) for _ in range(DRIVERS)]
    heard = [pipe.recv() for _, pipe in started]
    assert heard.count("open") == 1
    refused = [each for each in heard if each != "open"]
    assert all(each.startswith("3 study wanted (id 1) is being run by") for each in refused), heard
    for (process, pipe), word in zip(started, heard, strict=True):
        if word == "open":
            pipe.send("end")
        process.join()
    assert migrate.check(url) == []
    assert migrate.info(url).counts["trial"] == 3


def test_a_second_opening_waits_for_the_first(postgres_url: str) -> None:
    definition = make_definition()
    with open_store(postgres_url, create=False, writable=True) as store:
        second = StudyRecorder(store.transaction, store.session)
        states: list[str] = []
        thread = threading.Thread(
            target=lambda: states.append(second.open_study(definition, fresh=False).state)
        )
        with store.transaction() as connection:
            driven = driving.store_definition(connection, definition)
        with store.transaction() as connection:
            assert driving.open_study(connection, definition, driven, fresh=False).state == "new"
            thread.start()
            thread.join(0.5)
            assert thread.is_alive()
        thread.join()
        assert states == ["resumed"]
        second.release()


def test_readers_beside_writers_see_whole_trials(url: str) -> None:
    started = [start(url, f"study {number}", 15) for number in range(3)]
    for _, pipe in started:
        pipe.send("end")
    store = open_store(url, create=True, writable=False)
    with store:
        while any(process.is_alive() for process, _ in started):
            assert_whole(store)
        assert_whole(store)
        assert store.info().counts["trial"] == 45
    for process, _ in started:
        process.join()


def assert_whole(store: Store) -> None:
    """Check that a snapshot holds no finished trial without its samples."""
    query = text(
        "SELECT count(*) FROM tuner_trial WHERE outcome = 'ok' AND 20 <> (SELECT count(*) FROM "
        "tuner_sample JOIN tuner_process ON tuner_process.id = tuner_sample.process_id "
        "WHERE tuner_process.trial_id = tuner_trial.id)"
    )
    with store.session() as session:
        assert session.scalar(query) == 0
