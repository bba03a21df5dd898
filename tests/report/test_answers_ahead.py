"""Answers that are there before they are asked for, and made again when their trials change."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_answers import add_trial
from test_answers import ASKED
from test_answers import HERE
from test_answers import Machine
from test_answers import machine
from test_answers import operators
from test_answers import recalling
from test_answers import settings
from test_answers import SHAPE

from tuner import api
from tuner.errors import DatabaseProblem
from tuner.settings import Settings
from tuner.testing.store_values import make_environment

__all__ = ["machine", "operators", "settings"]  # fixtures
PATIENCE_S = 30.0


@pytest.fixture
def answers(settings: Settings, machine: Machine) -> Iterator[api.BestAnswers]:
    """What keeps answers, of a device that was asked for."""
    kept = recalling(settings, machine)
    kept.best_json(ASKED)
    yield kept
    kept.close()


def idle() -> float:
    """All of the time is free."""
    return 1.0


def asked(shape: str, settings: Settings, **more: str) -> api.Asked:
    return api.asked("planted", shape, settings, **more)  # type: ignore[arg-type]


def test_what_was_never_asked_is_there(answers: api.BestAnswers, settings: Settings) -> None:
    add_trial(settings, 20.0, shape=(16, 8))
    ahead = api.AnswersAhead(answers, idle)
    ahead.make_all()
    architecture = HERE.identity["architecture"]
    for question in (
        asked("16x8", settings, device="cpu"),
        asked("16x8", settings),
        asked("16x8", settings, device="cpu", match="same-arch"),
        asked("16x8", settings, architecture=str(architecture)),
        asked(SHAPE, settings, architecture=str(architecture)),
    ):
        kept = answers.kept_json_at_once(question)
        assert kept is not None, question
        assert kept == answers.best_json(question)
    assert answers.kept_json_at_once(asked("16x8", settings, implementation="good")) is None
    assert ahead.waiting == 0


def test_only_what_has_changed_is_made_again(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_trial(settings, 20.0, shape=(16, 8))
    ahead = api.AnswersAhead(answers, idle)
    ahead.make_all()
    made: list[api.Asked] = []
    make = answers.keep_ahead

    def noting(questions: Sequence[api.Asked]) -> None:
        made.extend(questions)
        make(questions)

    monkeypatch.setattr(answers, "keep_ahead", noting)
    ahead.make_all()
    assert made == []
    add_trial(settings, 5.0, shape=(16, 8))
    ahead.make_all()
    assert {each.question.shape for each in made} == {(16, 8)}
    assert b'"median_us": 5.0' in (answers.kept_json_at_once(asked("16x8", settings)) or b"")
    assert answers.kept_json_at_once(ASKED) is not None


def test_a_device_that_changes_gets_answers_of_its_own(
    answers: api.BestAnswers, settings: Settings, machine: Machine
) -> None:
    ahead = api.AnswersAhead(answers, idle)
    machine.environment = make_environment(driver="2.0")
    ahead.make_all()  # for which nothing was measured: no exact answer, and no fault
    assert answers.kept_json_at_once(asked(SHAPE, settings)) is None
    assert answers.kept_json_at_once(asked(SHAPE, settings, match="same-arch")) is not None
    machine.environment = HERE
    ahead.make_all()
    assert answers.kept_json_at_once(asked(SHAPE, settings)) is not None


def test_no_more_are_made_than_there_is_room_for(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in range(5, 9):
        add_trial(settings, 20.0, shape=(rows, 8))
    monkeypatch.setattr("tuner.api.answers_ahead.MOST_AHEAD", 7)
    monkeypatch.setattr("tuner.api.answers_ahead.AT_ONCE", 1)
    api.AnswersAhead(answers, idle).make_all()
    made = [
        rows
        for rows in range(5, 9)
        if answers.kept_json_at_once(asked(f"{rows}x8", settings)) is not None
    ]
    assert made == [7, 8]  # the newest come first


def test_answers_are_the_same_however_many_are_read_together(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows in range(5, 9):
        for median_us in (20.0, 20.001, 30.0):
            add_trial(settings, median_us * rows, shape=(rows, 8))
    api.AnswersAhead(answers, idle).make_all()
    found = {
        shape: answers.kept_json_at_once(asked(shape, settings))
        for shape in (f"{rows}x8" for rows in range(5, 9))
    }
    assert None not in found.values()
    assert found == {shape: answers.best_json(asked(shape, settings)) for shape in found}


def test_what_nobody_can_answer_is_passed_over(
    answers: api.BestAnswers, settings: Settings
) -> None:
    """An operator whose folder is gone does not keep the others from their answers."""
    gone = api.Asked("gone", asked(SHAPE, settings).question, None)
    add_trial(settings, 20.0, shape=(16, 8))
    other = replace(asked(SHAPE, settings).question, shape=(16, 8, 4))  # of an earlier version
    senseless = api.Asked("planted", other, None)
    answers.keep_ahead([gone, senseless, asked("999x9", settings), asked("16x8", settings)])
    assert answers.kept_json_at_once(asked("16x8", settings)) is not None
    assert not answers.may_be_kept(gone)


def test_what_a_failure_kept_from_being_made_is_made_later(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_trial(settings, 20.0, shape=(16, 8))

    def fail(_questions: Sequence[api.Asked]) -> None:
        raise DatabaseProblem("the server is away")

    ahead = api.AnswersAhead(answers, idle)
    with monkeypatch.context() as failing:
        failing.setattr(answers, "keep_ahead", fail)
        with pytest.raises(DatabaseProblem):
            ahead.make_all()
    ahead.make_all()
    assert answers.kept_json_at_once(asked("16x8", settings)) is not None


class Waits(threading.Event):
    """An event that notes for how long it is waited for, and is not."""

    waited_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s += timeout or 0.0
        return False


def test_those_who_are_served_get_their_share_of_the_time(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits()
    known = SimpleNamespace(Event=lambda: waits, Thread=threading.Thread)
    monkeypatch.setattr("tuner.api.answers_ahead.threading", known)
    share = 1.0
    ahead = api.AnswersAhead(answers, lambda: share)
    add_trial(settings, 20.0, shape=(16, 8))
    ahead.make_all()
    assert waits.waited_s == 0.0
    share = 0.25
    add_trial(settings, 20.0, shape=(17, 8))
    begun_s = time.monotonic()
    ahead.make_all()
    assert 0.0 < waits.waited_s <= 3.0 * (time.monotonic() - begun_s)


def test_the_thread_goes_on_when_the_database_comes_later(
    settings: Settings, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.api.answers_ahead.RETRY_S", 0.05)
    later = settings.model_copy(update={"db": settings.db + ".later"})
    answers = recalling(later, machine)
    with api.AnswersAhead(answers, idle):
        time.sleep(0.1)
        add_trial(later, 10.0)
        until_s = time.monotonic() + PATIENCE_S
        while answers.kept == 0 and time.monotonic() < until_s:
            time.sleep(0.05)
        assert answers.kept > 0
    answers.close()


def test_the_beginning_ends_with_the_first_pass_or_after_a_while(
    answers: api.BestAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = api.AnswersAhead(answers, idle)
    assert not ahead.is_beginning  # nobody makes any
    may_go_on = threading.Event()
    monkeypatch.setattr(answers, "keep_ahead", lambda _: may_go_on.wait(PATIENCE_S))
    with ahead:
        assert ahead.is_beginning
        with monkeypatch.context() as later:
            later.setattr("tuner.api.answers_ahead.LONGEST_BEGINNING_S", 0.0)
            assert not ahead.is_beginning
        may_go_on.set()
        deadline_s = time.monotonic() + PATIENCE_S
        while ahead.is_beginning and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert time.monotonic() < deadline_s
