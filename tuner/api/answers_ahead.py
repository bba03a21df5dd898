"""Makes answers to ``best`` before they are asked for: a lookup takes longer than to give one.

The service answers a few hundred new questions a second on one core, and thousands whose answer
it has. So, while it runs, a thread looks up each tuned workload for the devices that were asked
for or take jobs, and for each architecture; and again whatever has changed since. It reads what
dozens of workloads need at once, which takes a fraction of what as many lookups do. Questions with
scalar arguments of their own, for one implementation or for the nearest shape are answered when
they come.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from typing import TYPE_CHECKING

from tuner.api.answers import BestAnswers
from tuner.api.kept_answers import MAX_KEPT
from tuner.api.question import Asked
from tuner.api.question import Question
from tuner.domain.environment import Environment
from tuner.errors import TunerError

if TYPE_CHECKING:
    from tuner.store.tuned import TunedWorkload

TICK_S = 1.0  # between two looks for changes
LONGEST_BEGINNING_S = 30.0
RETRY_S = 10.0  # after the database could not be used
# Workloads that are read together. A lookup on an SQLite file waits while they are: 3 ms for each
# (2-core x86-64, 2026-12-03).
AT_ONCE = 32
AT_ONCE_BESIDE_OTHERS = 2
# Of the room for answers, the rest is for what is asked for.
MOST_AHEAD = MAX_KEPT * 3 // 4


class AnswersAhead:
    """A thread that makes answers ahead. A context manager.

    Args:
        answers: Makes and keeps them.
        free_share: Tells which share of the time those who are being served leave, up to 1.
    """

    def __init__(self, answers: BestAnswers, free_share: Callable[[], float]) -> None:
        self._answers = answers
        self._free_share = free_share
        self._waiting: deque[tuple[Asked, ...]] = deque()  # those about a workload
        self._devices: dict[str, Environment] = {}
        self._is_behind = True  # not all that changed was taken in
        self._begun_s: float | None = None
        self._is_through = False  # with the first pass
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tuner-answers", daemon=True)

    def __enter__(self) -> Self:
        self._begun_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    @property
    def is_beginning(self) -> bool:
        """Whether the first answers are being made: for so long, new questions take longer."""
        if self._begun_s is None or self._is_through:
            return False
        return time.monotonic() - self._begun_s < LONGEST_BEGINNING_S

    @property
    def waiting(self) -> int:
        """How many questions wait for their answer."""
        return sum(map(len, tuple(self._waiting)))

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self.make_all()
                pause_s = TICK_S
            except TunerError:  # no database, or not for now: those who ask are told
                pause_s = RETRY_S
            self._is_through = True
            self._end.wait(pause_s)

    def make_all(self) -> None:
        """Make what is missing; end early where that is asked for.

        Raises:
            NotFound: There is no database.
            DatabaseProblem: It can't be used. The next call begins anew.
        """
        try:
            self._make_waiting()
        except TunerError:
            self._is_behind = True
            raise
        finally:
            self._waiting.clear()

    def _make_waiting(self) -> None:
        self._take_in_changes()
        looked_at_s = time.monotonic()
        while self._waiting and not self._end.is_set():
            begun_s = time.monotonic()
            if begun_s - looked_at_s > TICK_S:
                self._take_in_changes()
                looked_at_s = begun_s
            if not self._waiting or self._answers.kept >= MOST_AHEAD:
                break
            self._make_some()
            if (share := self._free_share()) < 1.0:
                self._end.wait((time.monotonic() - begun_s) * (1.0 / share - 1.0))

    def _make_some(self) -> None:
        most = AT_ONCE if self._free_share() == 1.0 else AT_ONCE_BESIDE_OTHERS
        groups = tuple(itertools.islice(self._waiting, most))
        self._answers.keep_ahead([each for group in groups for each in group])
        for _ in groups:
            self._waiting.popleft()

    def _take_in_changes(self) -> None:
        changed = self._answers.take_changed()
        devices = self._answers.devices()
        if self._is_behind or devices != self._devices:
            self._devices, changed = devices, None
        if changed is None:
            self._waiting.clear()
        if changed is None or changed:
            self._waiting.extendleft(reversed(list(self._questions(changed))))
        self._is_behind = False

    def _questions(self, keys: Collection[str] | None) -> Iterator[tuple[Asked, ...]]:
        """Yield what may be asked about each workload, the newest first."""
        tuned = self._answers.tuned(keys)
        for _, of_workload in itertools.groupby(tuned, key=lambda each: each.workload):
            asked = (each for found in of_workload for each in self._about(found))
            yield tuple(dict.fromkeys(asked))  # environments share their architecture

    def _about(self, tuned: TunedWorkload) -> Iterator[Asked]:
        """Yield what may be asked about a workload with an answer of some environment."""
        for name, here in self._devices.items():
            if tuned.environment_key == here.key:
                yield _asked(tuned, device=name)
            if tuned.architecture == here.identity.get("architecture"):
                yield _asked(tuned, device=name, any_environment=True)
        yield _asked(tuned)


def _asked(
    tuned: TunedWorkload, *, device: str | None = None, any_environment: bool = False
) -> Asked:
    workload = tuned.workload
    question = Question(
        shape=workload.shape,
        dtype=workload.dtype,
        row_padding=workload.row_padding,
        architecture=tuned.architecture if device is None else None,
        match="same-arch" if device is None or any_environment else "exact",
    )
    return Asked(workload.operator, question, device)
