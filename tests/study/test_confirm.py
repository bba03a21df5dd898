"""The processes of a confirmation: fresh ones, which begin and end side by side."""

from __future__ import annotations

import pytest

from tuner.domain.job import ConfirmJob
from tuner.domain.protocol import Limits
from tuner.domain.records import TrialReport
from tuner.study.confirm import FreshWorkers
from tuner.testing.store_values import make_report


class Noted:
    """A worker that notes what is asked of it."""

    def __init__(self, number: int, notes: list[str]) -> None:
        self._number = number
        self._notes = notes

    def _note(self, what: str) -> None:
        self._notes.append(f"{what} {self._number}")

    def prepare(self, job: ConfirmJob, *, screening: bool = False) -> None:
        assert not screening
        self._note("prepare")

    def await_prepared(self, limits: Limits) -> None:
        self._note("await")

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        self._note("measure")
        return [make_report()]

    def begin_close(self) -> None:
        self._note("let go")

    def close(self, *, force: bool = False) -> None:
        self._note("kill" if force else "close")


class Starting:
    """Starts noted workers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._started = 0

    def __call__(self, count: int) -> list[Noted]:
        first = self._started
        self._started += count
        return [Noted(number, self.notes) for number in range(first, self._started)]


def test_processes_begin_together_measure_alone_and_end_together(
    job: ConfirmJob,
) -> None:
    start = Starting()
    workers = FreshWorkers(start, 2, job, Limits())
    workers.take().run_confirmation(job, Limits())
    workers.take().run_confirmation(job, Limits())
    workers.close()
    assert start.notes == [
        *("prepare 0", "prepare 1", "await 0", "await 1"),
        # To give a context back would disturb what another one measures.
        *("measure 0", "measure 1"),
        *("let go 0", "let go 1", "close 1", "close 0"),
    ]


def test_what_is_not_needed_is_killed_and_what_is_missing_is_started(job: ConfirmJob) -> None:
    start = Starting()
    workers = FreshWorkers(start, 2, job, Limits())
    workers.take()
    workers.close()
    assert start.notes[-3:] == ["let go 0", "kill 1", "close 0"]
    none_ready = FreshWorkers(start, 0, job, Limits())
    none_ready.take().run_confirmation(job, Limits())
    none_ready.close()
    assert start.notes[-3:] == ["measure 2", "let go 2", "close 2"]


@pytest.fixture
def job() -> ConfirmJob:
    """One that is passed on and not looked at."""
    return ConfirmJob((), problem=None, sampling=None)  # type: ignore[arg-type]
