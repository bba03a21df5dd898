"""Looking up the best config is cheap: few statements, by index, and only samples that decide."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine
from sqlalchemy import event
from sqlalchemy.orm import Session

from tuner.api.answer import answer_question
from tuner.api.question import Question
from tuner.domain.outcome import Outcome
from tuner.store import queries
from tuner.store import Store
from tuner.store.answer_reads import AnswerReads
from tuner.store.paging import trial_rows
from tuner.store.paging import TrialFilter
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_source
from tuner.testing.store_values import WORKLOAD

HERE = make_environment()
HASHES = {"block": make_source("block").source_hash}
SAMPLES = "tuner_sample"
ANY = Question(WORKLOAD.shape)


@contextmanager
def recorded(session: Session) -> Iterator[list[tuple[str, object]]]:
    """Collect the statements that a session sends."""
    engine = session.get_bind()
    assert isinstance(engine, Engine)
    sent: list[tuple[str, object]] = []

    def note(*call: object) -> None:
        if str(call[2]).startswith("SELECT"):
            sent.append((str(call[2]), call[3]))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)


def fill(store: Store, *medians_us: float, driver: str = "1.0") -> None:
    """Add a study of confirmed trials, each with little noise around its median."""
    recorder = store.recorder()
    definition = make_definition(f"on {driver}", environment=make_environment(driver))
    study_id = recorder.open_study(definition, fresh=False).study_id
    for block, median_us in enumerate(medians_us):
        times = tuple(median_us * step for step in (1.0, 1.001, 0.999, 1.0005, 0.9995))
        slower = tuple(1.0002 * time for time in times)
        confirm(recorder, run_trial(recorder, study_id, block, *times), times, slower)


def ask(session: Session, question: Question | None = None) -> list[str]:
    """Ask for the best and return the statements that took."""
    with recorded(session) as sent:
        answer_question(
            AnswerReads(session), question or Question(WORKLOAD.shape), WORKLOAD, HERE, HASHES
        )
    return [statement for statement, _ in sent]


def plan(session: Session, sent: list[tuple[str, object]]) -> list[str]:
    """Return how SQLite goes about statements."""
    connection = session.connection()
    return [
        row[3]
        for statement, parameters in sent
        for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]
    ]


def test_a_clear_winner_needs_no_samples(store: Store) -> None:
    fill(store, 10.0, 20.0, 30.0)
    with store.session() as session:
        sent = ask(session)
    assert len(sent) == 3  # the last one asks for the controls of the winner
    assert not any(SAMPLES in each for each in sent)


def test_samples_are_read_of_those_only_that_may_tie(store: Store) -> None:
    fill(store, 10.0, 20.0, 10.001, 30.0)
    with store.session() as session, recorded(session) as sent:
        answer = answer_question(
            AnswerReads(session), Question(WORKLOAD.shape), WORKLOAD, HERE, HASHES
        )
    ((_, parameters),) = [each for each in sent if SAMPLES in each[0]]
    assert isinstance(parameters, tuple)
    assert [each for each in parameters if isinstance(each, int)] == [1, 3]
    assert [each.trial_id for each in (answer.best, *answer.ties)] == [1, 3]
    assert answer.runner_up is not None
    assert answer.runner_up.trial_id == 2


def test_the_number_of_statements_does_not_grow(store: Store) -> None:
    fill(store, 10.0, 10.001)
    with store.session() as session:
        few = ask(session)
    fill(store, 9.0, 9.5, 10.0, 10.5, 11.0, driver="2.0")
    fill(store, *(10.0 + step / 1000 for step in range(20)), driver="3.0")
    with store.session() as session:
        assert len(ask(session)) == len(few) == 4


def test_other_environments_are_read_only_to_say_what_differs(store: Store) -> None:
    fill(store, 5.0, driver="2.0")
    fill(store, 10.0)
    with store.session() as session:
        assert len(ask(session)) == 3
        here = queries.best_candidates(session, WORKLOAD, environment_key=HERE.key)
        all_of_them = queries.best_candidates(session, WORKLOAD)
    assert [each.median_us for each in here] == pytest.approx([10.0], rel=1e-3)
    assert len(all_of_them) == 2


@pytest.mark.parametrize(
    "question",
    [
        Question(WORKLOAD.shape),
        Question(WORKLOAD.shape, implementation="block"),
        Question(WORKLOAD.shape, match="same-arch"),
        Question((1024, 5000), match="nearest-shape"),
    ],
    ids=lambda question: f"{question.match}-{question.implementation}",
)
def test_every_statement_goes_by_an_index(store: Store, question: Question) -> None:
    fill(store, 10.0, 10.001, 20.0)
    with store.session() as session:
        with recorded(session) as sent:
            answer_question(AnswerReads(session), question, WORKLOAD, HERE, HASHES)
        lines = plan(session, sent)
    assert any("ix_tuner_trial_workload_id_confirmed_median_us" in line for line in lines)
    assert [line for line in lines if line.startswith("SCAN")] == []


@pytest.mark.parametrize(
    ("outcome", "confirmed"), list(itertools.product([None, Outcome.OK.value], [None, True]))
)
def test_a_page_of_trials_is_read_in_order_without_a_sort(
    store: Store, outcome: str | None, confirmed: bool | None
) -> None:
    fill(store, 10.0, 20.0)
    wanted = TrialFilter(outcome=outcome, confirmed=confirmed)
    with store.session() as session:
        with recorded(session) as sent:
            assert len(list(trial_rows(session, 1, wanted, after=1, limit=10))) == 1
        lines = plan(session, sent)
    index = (
        "ix_tuner_trial_study_id_id" if outcome is None else "ix_tuner_trial_study_id_outcome_id"
    )
    assert any(index in line for line in lines), lines
    assert not any("TEMP B-TREE" in line or line.startswith("SCAN") for line in lines), lines
