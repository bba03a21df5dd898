"""What the first page asks the store: what waits, what is driven, what was confirmed last."""

from __future__ import annotations

from sqlalchemy import update

from tuner.domain.evidence import Reproduction
from tuner.domain.queue import JobKind
from tuner.store import job_wishes
from tuner.store import jobs
from tuner.store import open_store
from tuner.store import queries
from tuner.store import study_states
from tuner.store.leases import driven_studies
from tuner.store.models import StudyRow
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.store.reproductions import add_reproduction
from tuner.store.reproductions import list_reproductions
from tuner.store.reproductions import newest_reproductions
from tuner.store.reproductions import reproductions_in
from tuner.store.table import table_of
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point


def test_what_waits_is_counted_whole_and_listed_from_what_is_next(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        with store.session() as session:
            assert jobs.waiting_jobs(session, 3) == ([], {})
        with store.transaction() as connection:
            added = [
                jobs.add_job(connection, JobKind.STUDY, {"study": str(number)}, "cpu")[0].id
                for number in range(5)
            ]
            job_wishes.pause_job(connection, added[0])
            job_wishes.cancel_job(connection, added[1])
        with store.session() as session:
            found, counts = jobs.waiting_jobs(session, 3)
            everything, _ = jobs.waiting_jobs(session, 10)
    assert counts == {"queued": 3, "paused": 1}
    assert [each.id for each in found] == added[2:]
    assert [each.id for each in everything] == [*added[2:], added[0]]


def test_a_study_is_driven_while_its_process_lives(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        ours, other, left = (
            recorder.open_study(make_definition(name), fresh=False).study_id for name in "abc"
        )
        gone = str(Owner(this_process().host, 4_000_000, "long-gone-1"))
        table = table_of(StudyRow)
        with store.transaction() as connection:
            for study_id, owner in ((other, gone), (left, None)):
                change = update(table).where(table.c.id == study_id).values(owner=owner)
                connection.execute(change)
        with store.session() as session:
            assert driven_studies(session.connection(), [ours, other, left]) == {ours}
            assert driven_studies(session.connection(), [other]) == set()
            assert driven_studies(session.connection(), []) == set()


def test_how_far_studies_are_follows_their_newest_jobs(url: str) -> None:
    request = {"study": "a", "name": "a", "fresh": False}
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        waits, left, done = (
            recorder.open_study(make_definition(name), fresh=False).study_id for name in "abc"
        )
        recorder.finish_study(done)
        recorder.release()
        with store.transaction() as connection:
            jobs.add_job(connection, JobKind.STUDY, request, "cpu")
            newest, _ = jobs.add_job(connection, JobKind.STUDY, request, "cpu")
            jobs.add_job(connection, JobKind.STUDY, {**request, "name": "c"}, "cpu")
        with store.session() as session:
            found = study_states.study_states(session, [waits, left, done])
            job = study_states.newest_job(session, waits)
            assert study_states.newest_job(session, left) is None
    assert found == {waits: "queued", left: "stopped", done: "finished"}
    assert job is not None
    assert job.id == newest.id


def test_a_verdict_of_two_looks_is_one_in_lists_and_pages(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        first, again = (
            recorder.open_study(make_definition(name), fresh=False).study_id
            for name in ("x-rerun", "x-rerun-again")
        )
        with store.transaction() as connection:
            for original, studies in (("1", (first, again)), ("2", (first,)), ("3", (again,))):
                for study_id in studies:
                    add_reproduction(connection, Reproduction("trial", original, "wrong", study_id))
        with store.session() as session:
            listed = list_reproductions(session)
            newest = newest_reproductions(session, limit=None)
            part = newest_reproductions(session, before=listed[1].id, limit=1)
            of_first = reproductions_in(session, [first])
    shown = [(each.reproduction.original_id, each.again_study_id) for each in listed]
    assert shown == [("1", again), ("2", None), ("3", None)]
    assert newest == listed[::-1]
    assert part == listed[:1]
    assert [each.reproduction.original_id for each in of_first] == ["1", "2"]


def test_the_newest_study_with_something_confirmed_is_found(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        with store.session() as session:
            assert queries.newest_confirmed_study(session) is None
        recorder = store.recorder()
        first, second, third = (
            recorder.open_study(make_definition(name), fresh=False).study_id for name in "abc"
        )
        confirmed = []
        for study_id in (first, second):
            trial_id = run_trial(recorder, study_id, 64, 10.0)
            confirm(recorder, trial_id, (10.0, 10.5), (9.5, 9.75))
            confirmed.append(trial_id)
            run_trial(recorder, study_id, 128, 12.0)
        run_trial(recorder, third, 64, 10.0)
        with store.session() as session:
            found = queries.newest_confirmed_study(session)
            assert found is not None
            assert found.id == second
            trials = queries.list_trials(session, second, confirmed_only=True)
            assert [each.id for each in trials] == confirmed[1:]
        # What took over an equal trial has its confirmation too.
        fourth = recorder.open_study(make_definition("d"), fresh=False).study_id
        reused = recorder.reuse_trial(fourth, make_point(64), confirmed[0])
        with store.session() as session:
            found = queries.newest_confirmed_study(session)
            assert found is not None
            assert found.id == fourth
            trials = queries.list_trials(session, fourth, confirmed_only=True)
        assert [each.id for each in trials] == [reused.trial_id]
        # A rerun says something of its record, and is no news of its own.
        with store.transaction() as connection:
            add_reproduction(connection, Reproduction("trial", "1", "not_comparable", fourth))
        with store.session() as session:
            found = queries.newest_confirmed_study(session)
            assert found is not None
            assert found.id == second
