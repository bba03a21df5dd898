"""Proposed points whose kernels are built while others are measured, handed out in batches."""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from tuner.domain.job import Kernel
from tuner.domain.records import BuiltAhead
from tuner.domain.study import TrialPoint

# A batch is stored when it is through, so it is what a kill loses and how often a watcher hears.
BATCH_S = 1.0
FIRST_BATCH = 4
MAX_BATCH = 16
# What a sampler that learns may propose before it is told of the first: one build after the other
# costs most of the time of a search, and its first proposals are random anyway.
LEARNING_AHEAD = 4


class Builds(Protocol):
    """Builds kernels in other processes, into the cache that the measuring worker builds from."""

    @property
    def overlaps(self) -> bool:
        """Whether kernels may be built while others are measured; else both take turns."""

    @property
    def count(self) -> int:
        """How many kernels are built at a time."""

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        """Have a kernel built."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that is to be screened, with its kernel and the build under way."""

    point: TrialPoint
    kernel: Kernel
    build: Future[BuiltAhead]


class Ahead:
    """Takes points as it needs them and has their kernels built before they are asked for.

    Attributes:
        exhausted: All points have been taken.

    Args:
        builds: What builds.
        points: Proposed points. It is asked for the next one before the outcome of those handed
            out is known.
        kernel_of: Returns a point's kernel.
        learning: The points depend on outcomes: no more than ``LEARNING_AHEAD`` are taken before
            theirs are known.
    """

    def __init__(
        self,
        builds: Builds,
        points: Iterator[TrialPoint],
        kernel_of: Callable[[TrialPoint], Kernel],
        *,
        learning: bool,
    ) -> None:
        self._builds = builds
        self._points = points
        self._kernel_of = kernel_of
        self._learning = learning
        self._waiting: deque[Candidate] = deque()
        self.exhausted = False

    @property
    def next_point(self) -> TrialPoint | None:
        """The first of the points that have been taken and not been handed out."""
        return self._waiting[0].point if self._waiting else None

    def batch(self, size: int) -> list[Candidate]:
        """Return up to ``size`` built candidates; none when there are no more points.

        Candidates come in the order in which they were proposed, but one that is still being
        built lets others pass. Where builds and measurements take turns, nothing is being built
        any more when this returns.
        """
        self.fill(size)
        if not self._builds.overlaps:
            concurrent.futures.wait([each.build for each in self._waiting])
        while True:
            ready = [each for each in self._waiting if each.build.done()]
            if len(ready) >= size or len(ready) == len(self._waiting):
                break
            open_builds = [each.build for each in self._waiting if not each.build.done()]
            concurrent.futures.wait(open_builds, return_when=concurrent.futures.FIRST_COMPLETED)
        chosen = ready[:size]
        for each in chosen:
            self._waiting.remove(each)
        return chosen

    def cancel(self) -> None:
        """Forget what was not handed out; builds under way are let go on."""
        for each in self._waiting:
            each.build.cancel()
        self._waiting.clear()

    def fill(self, size: int) -> None:
        """Take the points of the next batch, and some more, and have their kernels built."""
        wanted = size
        if self._learning:
            wanted = min(size, LEARNING_AHEAD)
        elif self._builds.overlaps:
            wanted = size + 2 * self._builds.count  # a builder has its next kernel at hand
        while len(self._waiting) < wanted:
            point = next(self._points, None)
            if point is None:
                self.exhausted = True
                return
            kernel = self._kernel_of(point)
            self._waiting.append(Candidate(point, kernel, self._builds.submit(kernel)))


class BatchSize:
    """How many candidates make a batch of about ``BATCH_S`` seconds."""

    def __init__(self) -> None:
        self.now = FIRST_BATCH

    def note(self, count: int, elapsed_s: float) -> None:
        """Learn from a batch how long a candidate takes."""
        fitting = int(BATCH_S * count / max(elapsed_s, 1e-6))
        self.now = max(1, min(fitting, MAX_BATCH, 2 * self.now))
