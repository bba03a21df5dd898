"""On which workloads answers may have changed: none too few, whoever commits in which order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from datetime import UTC

import pytest
from postgres import PostgresServer
from sqlalchemy import Connection
from sqlalchemy import text

from tuner.domain.workload import make_workload
from tuner.domain.workload import Workload
from tuner.errors import DatabaseProblem
from tuner.store import answer_changes
from tuner.store import open_store
from tuner.store import Store
from tuner.store.answer_changes import AnswerChanges
from tuner.store.reports import store_report
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import measure_controls
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import WORKLOAD

OTHER = make_workload("vector_add", (8, 8), "float32", {"scale": 0.1})


class Watched:
    """A store with an open study, and what tells of its changes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.recorder = store.recorder()
        self.study_id = self.recorder.open_study(make_definition(), fresh=False).study_id
        self._changes = AnswerChanges()

    def changed(self) -> frozenset[str] | None:
        """Return what has changed since the last call."""
        with self.store.session() as session:
            return self._changes.since_last(session)

    def trial(self, workload: Workload = WORKLOAD, block: int = 64) -> int:
        """Add a valid trial that is not confirmed."""
        point = make_point(block, workload=workload)
        trial_id = self.recorder.start_trial(self.study_id, point, GEOMETRY)
        self.recorder.finish_trial(trial_id, make_report((10.0,)), bytes_moved=BYTES_MOVED)
        return trial_id


@pytest.fixture
def watched(url: str) -> Iterator[Watched]:
    """One on SQLite, then on PostgreSQL."""
    with open_store(url, create=True, writable=True) as store:
        yield Watched(store)


def test_at_first_anything_may_have_changed_and_then_nothing(watched: Watched) -> None:
    assert watched.changed() is None
    assert watched.changed() == frozenset()


def test_it_is_the_workload_of_what_was_confirmed(watched: Watched) -> None:
    trial_id, other_id = watched.trial(), watched.trial(OTHER)
    watched.changed()
    watched.trial(block=128)
    assert watched.changed() == frozenset()
    confirm(watched.recorder, other_id, (10.0,), (10.0,))
    assert watched.changed() == {OTHER.key}
    confirm(watched.recorder, trial_id, (10.0,), (10.0,))
    confirm(watched.recorder, watched.trial(OTHER, 256), (9.0,), (9.0,))
    assert watched.changed() == {WORKLOAD.key, OTHER.key}
    assert watched.changed() == frozenset()


def test_it_is_the_workload_of_a_control(watched: Watched) -> None:
    trial_id = watched.trial()
    watched.changed()
    measure_controls(
        watched.recorder, watched.study_id, trial_id, 10.0, started_at=datetime.now(UTC)
    )
    assert watched.changed() == {WORKLOAD.key}


def test_too_many_new_ones_are_not_looked_at(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_changes, "MOST_NEW_PROCESSES", 1)
    watched.changed()
    confirm(watched.recorder, watched.trial(), (10.0,), (10.0,))
    assert watched.changed() is None


def test_a_database_that_was_set_back_has_changed(watched: Watched) -> None:
    confirm(watched.recorder, watched.trial(), (10.0,), (10.0,))
    watched.changed()
    with watched.store.transaction() as connection:
        for table in ("tuner_sample", "tuner_validation", "tuner_process"):
            connection.execute(text(f"DELETE FROM {table}"))
    assert watched.changed() is None


def test_changes_that_could_not_be_read_are_told_the_next_time(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_id = watched.trial()
    watched.changed()
    confirm(watched.recorder, trial_id, (10.0,), (10.0,))
    with monkeypatch.context() as failing:
        failing.setattr(answer_changes, "_confirmed_query", lambda: text("SELECT nonsense"))
        with pytest.raises(DatabaseProblem):
            watched.changed()
    assert watched.changed() == {WORKLOAD.key}


def test_on_a_server_that_was_started_again_anything_may_have_changed(
    postgres: PostgresServer, postgres_url: str
) -> None:
    if not postgres.owned:
        pytest.skip("the server is not this test's to stop")
    with open_store(postgres_url, create=True, writable=True) as store:
        changes = AnswerChanges()
        for expected in (None, frozenset()):
            with store.session() as session:
                assert changes.since_last(session) == expected
        postgres.stop()
        postgres.start()
        with store.session() as session:
            assert changes.since_last(session) is None


def test_a_writer_on_a_server_has_its_number_before_it_draws_ids(postgres_url: str) -> None:
    with (
        open_store(postgres_url, create=True, writable=True) as store,
        store.transaction() as connection,
    ):
        assert connection.scalar(text("SELECT pg_current_xact_id_if_assigned()::text"))


def add_process(connection: Connection, trial_id: int) -> None:
    """Store a confirming process."""
    store_report(connection, trial_id, make_report((10.0,)), stage="confirm", position=0)


def test_what_a_server_shows_later_than_newer_rows_is_not_missed(postgres_url: str) -> None:
    """A row can be drawn first and committed last; looks in between must not go past it."""
    with (
        open_store(postgres_url, create=True, writable=True) as store,
        open_store(postgres_url, create=False, writable=True) as second,
    ):
        watched = Watched(store)
        slow_id, quick_ids = watched.trial(), [watched.trial(OTHER, block) for block in (1, 2)]
        watched.changed()
        with second.transaction() as slow:
            add_process(slow, slow_id)
            for quick_id in quick_ids:
                with store.transaction() as quick:
                    add_process(quick, quick_id)
                assert OTHER.key in (watched.changed() or ())
        assert WORKLOAD.key in (watched.changed() or ())
        watched.changed()
        assert watched.changed() == frozenset()


def test_a_transaction_that_began_before_a_look_may_draw_after_it(postgres_url: str) -> None:
    with (
        open_store(postgres_url, create=True, writable=True) as store,
        open_store(postgres_url, create=False, writable=True) as second,
    ):
        watched = Watched(store)
        trial_id, quick_id = watched.trial(), watched.trial(OTHER)
        watched.changed()
        with second.transaction() as slow:
            with store.transaction() as quick:
                add_process(quick, quick_id)
            assert watched.changed() == {OTHER.key}
            add_process(slow, trial_id)
        assert WORKLOAD.key in (watched.changed() or ())
