"""Trials whose driver is gone are interrupted in every list and count, taken over or not."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import update

from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.models import StudyRow
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.store.paging import study_rows
from tuner.store.paging import trial_rows
from tuner.store.paging import TrialFilter
from tuner.store.table import table_of
from tuner.store.tallies import trials_by_outcome
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point

GONE_PID = 4_000_000


def begin(store: Store, name: str, *, is_gone: bool) -> int:
    """Return a study with a valid trial and two without an outcome."""
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(name), fresh=False).study_id
    run_trial(recorder, study_id, 64, 10.0)
    for block in (128, 256):
        recorder.start_trial(study_id, make_point(block), GEOMETRY)
    if is_gone:
        table = table_of(StudyRow)
        owner = str(Owner(this_process().host, GONE_PID, "long-gone-1"))
        with store.transaction() as connection:
            connection.execute(update(table).where(table.c.id == study_id).values(owner=owner))
    return study_id


def outcomes(rows: list[Mapping[str, Plain]]) -> list[Plain]:
    return [row["outcome"] for row in rows]


def test_they_are_counted_and_listed_as_interrupted(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        driven = begin(store, "driven", is_gone=False)
        gone = begin(store, "gone", is_gone=True)
        with store.session() as session:
            counts = queries.outcome_counts(session, [driven, gone])
            assert list(counts[gone].items()) == [("ok", 1), ("interrupted", 2)]
            assert counts[driven] == {"ok": 1, "running": 2}
            listed = {row["study_id"]: row for row in study_rows(session, limit=None)}
            assert (listed[gone]["interrupted"], listed[gone]["running"]) == (2, 0)
            assert (listed[driven]["interrupted"], listed[driven]["running"]) == (0, 2)
            by_outcome = {name: count for name, _, _, count in trials_by_outcome(session)}
            assert by_outcome == {"ok": 2, "interrupted": 2, "running": 2}

            everything = TrialFilter()
            rows = list(trial_rows(session, gone, everything, limit=None))
            assert outcomes(rows) == ["ok", "interrupted", "interrupted"]
            said = f"process {GONE_PID} ended while the trial ran"
            assert [row["message"] for row in rows] == ["", said, said]
            assert outcomes(list(trial_rows(session, driven, everything, limit=None))) == [
                "ok",
                "running",
                "running",
            ]
            exported = [dict(row) for row in queries.iter_trials(session)]
            assert outcomes(exported) == ["ok", None, None, "ok", "interrupted", "interrupted"]
            assert exported[-1]["message"] == said


def test_they_are_found_by_that_outcome_and_read_with_it(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        gone = begin(store, "gone", is_gone=True)
        with store.session() as session:
            for name, count in (("interrupted", 2), ("running", 0), ("ok", 1)):
                rows = list(trial_rows(session, gone, TrialFilter(outcome=name), limit=None))
                assert len(rows) == count
                trials = queries.list_trials(session, gone, outcome=name)
                assert len(trials) == count
            trial = queries.list_trials(session, gone)[-1]
            detail = queries.trial_detail(session, trial.id)
            assert (trial.outcome, detail.summary) == (Outcome.INTERRUPTED, trial)
            assert trial.message == f"process {GONE_PID} ended while the trial ran"
        # Whoever takes it over stores what was shown.
        recorder = store.recorder()
        assert recorder.open_study(make_definition("gone"), fresh=False).interrupted == 2
        with store.session() as session:
            stored = queries.trial_detail(session, trial.id).summary
            assert (stored.outcome, stored.message) == (trial.outcome, trial.message)
