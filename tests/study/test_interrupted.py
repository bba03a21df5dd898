"""Why a trial was cut off is said in words, not by the name of an exception."""

from __future__ import annotations

import signal

import pytest

from tuner.cli import app
from tuner.errors import EnvironmentProblem
from tuner.service.work import child
from tuner.study.interrupted import why_interrupted


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), "stopped by the user"),
        (EnvironmentProblem("the device is gone", hint="look"), "the device is gone"),
        (ValueError("bad\nmore"), "the run ended by an internal error: ValueError: bad"),
        (AssertionError(), "the run ended by an internal error: AssertionError"),
    ],
)
def test_what_ended_a_run_is_said_in_words(error: BaseException, said: str) -> None:
    assert why_interrupted(error) == said


def test_sigterm_to_a_command_and_to_a_job_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(app.Terminated) as terminated:
        app._on_sigterm(signal.SIGTERM, None)
    with pytest.raises(child.Stopped) as stopped:
        child._on_sigterm(signal.SIGTERM, None)
    assert why_interrupted(terminated.value) == "the command was ended by SIGTERM"
    assert why_interrupted(stopped.value) == (
        "the job was paused or cancelled, or its worker was ended"
    )
