"""Leases of studies: who counts as living, and what a driver may still write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy import update

from tuner.domain.study import SkippedPoint
from tuner.errors import DatabaseProblem
from tuner.errors import EnvironmentProblem
from tuner.store import leases
from tuner.store import open_store
from tuner.store import owner
from tuner.store import queries
from tuner.store import Store
from tuner.store.job_models import LeaseRow
from tuner.store.models import Base
from tuner.store.models import StudyRow
from tuner.store.table import read_row
from tuner.store.table import table_of
from tuner.store.table import update_row
from tuner.store.writer import StudyRecorder
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

SECOND = timedelta(seconds=1)


@pytest.fixture
def at_host(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A way to be on another machine from now on."""
    return lambda name: monkeypatch.setattr(owner, "_host", lambda: f"{name:0>16}")


def age_lease(store: Store, study_id: int, age: timedelta) -> None:
    """Let the last renewal be so long ago."""
    table = table_of(LeaseRow)
    with store.transaction() as connection:
        lease_id = connection.scalars(select(table.c.id).where(table.c.study_id == study_id)).one()
        seen_at = leases.database_time(connection) - age
        update_row(connection, LeaseRow, lease_id, {"seen_at": seen_at})


def row_counts(store: Store) -> dict[str, int]:
    with store.session() as session:
        return {
            table.name: session.scalar(select(func.count()).select_from(table)) or 0
            for table in Base.metadata.sorted_tables
        }


def test_a_driver_elsewhere_is_gone_after_a_minute_of_silence(
    url: str, at_host: Callable[[str], None]
) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        recorder.start_trial(study_id, make_point(64), GEOMETRY)
        at_host("elsewhere")
        other = StudyRecorder(store.transaction, store.session)
        age_lease(store, study_id, leases.LEASE_SILENCE - 30 * SECOND)
        with pytest.raises(EnvironmentProblem, match=r"run by process [0-9]+ on another"):
            other.open_study(make_definition(), fresh=False)
        age_lease(store, study_id, leases.LEASE_SILENCE + SECOND)
        opened = other.open_study(make_definition(), fresh=False)
        assert (opened.state, opened.study_id, opened.interrupted) == ("resumed", study_id, 1)
        other.release()


def test_without_a_lease_it_may_be_silent_for_longer(
    url: str, at_host: Callable[[str], None]
) -> None:
    with open_store(url, create=True, writable=True) as store:
        study_id = store.recorder().open_study(make_definition(), fresh=False).study_id
        at_host("elsewhere")
        other = StudyRecorder(store.transaction, store.session)
        with store.transaction() as connection:
            connection.execute(table_of(LeaseRow).delete())
            owned_at = leases.database_time(connection) - leases.LEASE_SILENCE - SECOND
            update_row(connection, StudyRow, study_id, {"owned_at": owned_at})
        with pytest.raises(EnvironmentProblem, match="is being run"):
            other.open_study(make_definition(), fresh=False)
        with store.transaction() as connection:
            owned_at = leases.database_time(connection) - owner.REMOTE_SILENCE - SECOND
            update_row(connection, StudyRow, study_id, {"owned_at": owned_at})
        assert other.open_study(make_definition(), fresh=False).state == "resumed"
        other.release()


def test_a_driver_that_was_taken_over_stores_nothing_more(
    url: str, at_host: Callable[[str], None]
) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        done = run_trial(recorder, study_id, 32, 10.0)
        running = recorder.start_trial(study_id, make_point(64), GEOMETRY)
        age_lease(store, study_id, leases.LEASE_SILENCE + SECOND)
        mine = owner._host()
        at_host("elsewhere")
        other = StudyRecorder(store.transaction, store.session)
        other.open_study(make_definition(), fresh=False)
        at_host(mine)  # the first one wakes up
        before = row_counts(store)
        report = make_report((11.0,))
        attempts: list[Callable[[], object]] = [
            lambda: recorder.start_trial(study_id, make_point(128), GEOMETRY),
            lambda: recorder.finish_trial(running, report, bytes_moved=BYTES_MOVED),
            lambda: recorder.record_confirmation(0, [(done, report)], required=1),
            lambda: recorder.skip_points(study_id, [SkippedPoint(make_point(96), "no")]),
            lambda: recorder.reuse_trial(study_id, make_point(256), done),
            lambda: recorder.finish_study(study_id),
        ]
        for attempt in attempts:
            with pytest.raises(EnvironmentProblem, match="was taken over by process") as caught:
                attempt()
            assert "\n" not in caught.value.message
        recorder.release()  # nor does it give the other's study up
        assert row_counts(store) == before
        with store.session() as session:
            assert queries.find_study(session, str(study_id)).state == "running"
        at_host("elsewhere")
        run_trial(other, study_id, 64, 12.0)  # that one goes on
        other.release()


def test_the_lease_is_renewed_while_nothing_is_stored(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = StudyRecorder(store.transaction, store.session, renewal_s=0.02)
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        age_lease(store, study_id, timedelta(hours=1))
        deadline = time.monotonic() + 20.0
        age = timedelta.max
        while age > timedelta(minutes=1) and time.monotonic() < deadline:
            time.sleep(0.02)
            with store.session() as session:
                seen_at = session.scalars(select(LeaseRow.seen_at)).one()
                age = leases.database_time(session.connection()) - seen_at
        assert age < timedelta(minutes=1)
        recorder.finish_study(study_id)
        assert not [each for each in threading.enumerate() if each.name == "tuner-lease"]


def test_a_study_kept_while_the_last_one_is_dropped_has_a_thread_of_its_own() -> None:
    """The thread of the dropped one may be in a renewal, and see its end only later."""
    writing, go_on = threading.Event(), threading.Event()

    def slow() -> object:
        writing.set()
        go_on.wait(20.0)
        raise DatabaseProblem("away")

    keeper = leases.LeaseKeeper(slow, interval_s=0.01)  # type: ignore[arg-type]
    keeper.keep(1)
    assert writing.wait(20.0)
    dropping = threading.Thread(target=keeper.drop, args=(1,), daemon=True)
    dropping.start()
    while keeper._thread is not None:
        time.sleep(0.01)
    keeper.keep(2)
    go_on.set()
    dropping.join(5.0)
    assert not dropping.is_alive()
    keeper.drop(2)
    assert not [each for each in threading.enumerate() if each.name == "tuner-lease"]


def test_a_study_that_can_not_be_given_up_keeps_no_other(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        refusing: list[bool] = []

        def write() -> object:
            if refusing and refusing.pop():
                raise DatabaseProblem("away")
            return store.transaction()

        recorder = StudyRecorder(write, store.session)  # type: ignore[arg-type]
        for name in ("one", "two", "three"):
            recorder.open_study(make_definition(name), fresh=False)
        refusing[:] = [False, True]
        with pytest.raises(DatabaseProblem, match="away"):
            recorder.release()
        assert not [each for each in threading.enumerate() if each.name == "tuner-lease"]
        with store.session() as session:
            found = session.scalars(select(StudyRow.owner).order_by(StudyRow.id)).all()
        assert [each is None for each in found].count(True) == 2


def test_a_lease_that_was_lost_is_not_renewed(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        taker = "elsewhere:1:x"
        with store.transaction() as connection:
            update_row(connection, StudyRow, study_id, {"owner": taker})
            connection.execute(update(table_of(LeaseRow)).values(owner=taker))
            before = read_row(connection, LeaseRow, 1)
        keeper = leases.LeaseKeeper(store.transaction, interval_s=0.01)
        keeper.keep(study_id)
        time.sleep(0.2)
        keeper.drop(study_id)
        with store.transaction() as connection:
            assert read_row(connection, LeaseRow, 1) == before


def test_the_keeper_outlives_a_database_that_fails_for_a_while(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        study_id = store.recorder().open_study(make_definition(), fresh=False).study_id
        calls: list[int] = []

        def failing_first() -> object:
            calls.append(1)
            if len(calls) < 3:
                raise DatabaseProblem("away")
            return store.transaction()

        age_lease(store, study_id, timedelta(hours=1))
        keeper = leases.LeaseKeeper(failing_first, interval_s=0.01)  # type: ignore[arg-type]
        keeper.keep(study_id)
        deadline = time.monotonic() + 20.0
        while len(calls) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        keeper.drop(study_id)
        with store.session() as session:
            seen_at = session.scalars(select(LeaseRow.seen_at)).one()
            assert leases.database_time(session.connection()) - seen_at < timedelta(minutes=1)
