"""How queries reach the tables: a fixed number of statements, and indexes where it matters."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine
from sqlalchemy import event
from sqlalchemy import text
from sqlalchemy.orm import Session

from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.store import queries
from tuner.store import Store
from tuner.store.resume import find_reusable
from tuner.store.resume import stored_trials
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import WORKLOAD

QUERIES: dict[str, Callable[[Session], object]] = {
    "list_studies": queries.list_studies,
    "find_study": lambda session: queries.find_study(session, "nightly"),
    "counts_by_outcome": lambda session: queries.counts_by_outcome(session, 1),
    "list_trials": lambda session: queries.list_trials(session, 1),
    "trial_detail": lambda session: queries.trial_detail(session, 1),
    "best_candidates": lambda session: queries.best_candidates(
        session, WORKLOAD, with_samples=True
    ),
    "tuned_shapes": lambda session: queries.tuned_shapes(session, WORKLOAD),
    "iter_trials": lambda session: list(queries.iter_trials(session)),
    "iter_samples": lambda session: list(queries.iter_samples(session)),
    "iter_best": lambda session: list(queries.iter_best(session)),
    "stored_trials": lambda session: stored_trials(session, 1),
    "find_reusable": lambda session: find_reusable(session, make_definition(), make_point(0)),
}
# Questions that are asked of a large database all the time.
INDEXED = ("best_candidates", "tuned_shapes", "find_reusable", "stored_trials", "trial_detail")


@contextmanager
def recorded(session: Session) -> Iterator[list[tuple[str, object]]]:
    """Collect the statements that a session sends."""
    engine = session.get_bind()
    assert isinstance(engine, Engine)
    sent: list[tuple[str, object]] = []

    def note(*call: object) -> None:
        sent.append((str(call[2]), call[3]))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


def fill(store: Store, first: int, last: int) -> None:
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    for block in range(first, last):
        confirm(recorder, run_trial(recorder, study_id, block, 10.0), (10.0,), (11.0,))


def statements(store: Store) -> dict[str, int]:
    counts = {}
    for name, query in QUERIES.items():
        with store.session() as session, recorded(session) as sent:
            query(session)
        counts[name] = len([each for each in sent if each[0] != "BEGIN"])
    return counts


def test_the_number_of_statements_does_not_grow_with_the_rows(store: Store) -> None:
    fill(store, 0, 2)
    few = statements(store)
    fill(store, 2, 12)
    assert statements(store) == few
    assert max(few.values()) <= 8, few


@pytest.mark.parametrize("name", INDEXED)
def test_frequent_questions_do_not_scan_large_tables(store: Store, name: str) -> None:
    fill(store, 0, 2)
    with store.session() as session, recorded(session) as sent:
        QUERIES[name](session)
    plans = []
    with store.session() as session:
        connection = session.connection()
        for statement, parameters in sent:
            if statement.startswith("SELECT"):
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans += [row[3] for row in plan]
    assert plans
    large = ("tuner_trial", "tuner_process", "tuner_sample", "tuner_validation")
    scans = [
        line for line in plans if line.startswith("SCAN") and line.split()[1].startswith(large)
    ]
    assert scans == []


def test_best_takes_the_first_rows_of_its_index(store: Store) -> None:
    fill(store, 0, 2)
    with store.session() as session, recorded(session) as sent:
        queries.best_candidates(session, WORKLOAD, limit=1)
        (statement, parameters), *_ = (each for each in sent if each[0].startswith("SELECT"))
        plan = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        lines = [row[3] for row in plan]
    index = "ix_tuner_trial_workload_id_confirmed_median_us (workload_id=? AND confirmed=?)"
    assert any(index in line for line in lines), lines
    # Sorted by median already; only ties are sorted.
    assert not any(line == "USE TEMP B-TREE FOR ORDER BY" for line in lines), lines


def test_what_is_missing_is_not_found(store: Store) -> None:
    fill(store, 0, 1)
    with store.session() as session:
        for trial_id in (0, -1, 999, 2**63):
            with pytest.raises(NotFound, match=f"no trial {trial_id}"):
                queries.trial_detail(session, trial_id)
        assert queries.counts_by_outcome(session, 999) == {}
        assert queries.list_trials(session, 999) == []


def test_tuned_shapes_are_those_of_equal_workloads(store: Store) -> None:
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    others = [
        Workload("vector_add", (33, 257), "float32", (("scale", 0.1),)),
        Workload("vector_add", (8, 8), "float16", (("scale", 0.1),)),
        Workload("vector_add", (9, 9), "float32", (("scale", 0.2),)),
    ]
    for workload in others:
        trial_id = recorder.start_trial(study_id, make_point(1, workload=workload), GEOMETRY)
        recorder.finish_trial(trial_id, make_report(), bytes_moved=1)
        confirm(recorder, trial_id, (1.0,))
    with store.session() as session:
        assert queries.tuned_shapes(session, WORKLOAD) == [(33, 257)]


def test_the_largest_dimension_comes_back(store: Store) -> None:
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    workload = Workload("vector_add", (2**63 - 1, 1))
    recorder.start_trial(study_id, make_point(1, workload=workload), GEOMETRY)
    (trial,) = recorder.stored_trials(study_id)
    assert trial.point.workload == workload


def test_the_database_reads_well_without_this_program(store: Store) -> None:
    """Plain tables and values, for people with an SQL shell."""
    fill(store, 0, 1)
    with store.session() as session:
        row = session.execute(
            text("SELECT outcome, median_us, config, started_at FROM tuner_trial")
        ).one()
    assert row[:3] == ("ok", 10.5, '{"BLOCK":0}')
    assert row[3].startswith("20")
