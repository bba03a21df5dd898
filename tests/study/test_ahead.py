"""Batches of candidates: which builds run when, and in which order they are handed out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from dataclasses import field

from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.job import Kernel
from tuner.domain.job import LaunchGeometry
from tuner.domain.records import BuiltAhead
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.study.ahead import Ahead
from tuner.study.ahead import BatchSize
from tuner.study.ahead import LEARNING_AHEAD
from tuner.study.ahead import MAX_BATCH

WORKLOAD = Workload("planted", (4, 8), "float32", ())


def kernel(point: TrialPoint) -> Kernel:
    return Kernel("hip", {}, "k", str(point.config["n"]), {}, {}, (), LaunchGeometry((1, 1, 1)))


def points(count: int, taken: list[int]) -> Iterator[TrialPoint]:
    for number in range(count):
        taken.append(number)
        yield TrialPoint(WORKLOAD, "good", {"n": number})


@dataclass
class ScriptedBuilds:
    """Builds that end when the test says so; those in ``slow`` end after all others."""

    overlaps: bool
    count: int = 2
    slow: frozenset[int] = frozenset()
    open: dict[int, Future[BuiltAhead]] = field(default_factory=dict)

    def submit(self, kernel: Kernel) -> Future[BuiltAhead]:
        future: Future[BuiltAhead] = Future()
        number = int(kernel.entry)
        if number in self.slow:
            self.open[number] = future
        else:
            future.set_result(BuiltAhead())
        return future

    def end_all(self) -> None:
        for future in self.open.values():
            future.set_result(BuiltAhead())
        self.open.clear()


def numbers(batch: list[object]) -> list[int]:
    return [each.point.config["n"] for each in batch]  # type: ignore[attr-defined]


@given(st.booleans(), st.booleans(), st.integers(0, 60), st.integers(1, 16), st.integers(1, 20))
def test_every_point_is_handed_out_once_in_order(
    overlaps: bool, learning: bool, count: int, size: int, builders: int
) -> None:
    builds = ScriptedBuilds(overlaps, builders)
    ahead = Ahead(builds, points(count, []), kernel, learning=learning)
    seen: list[int] = []
    while batch := ahead.batch(size):
        assert len(batch) <= size
        seen += numbers(batch)  # type: ignore[arg-type]
    assert seen == list(range(count))


def test_where_both_take_turns_nothing_is_built_beyond_the_batch() -> None:
    taken: list[int] = []
    ahead = Ahead(ScriptedBuilds(overlaps=False), points(50, taken), kernel, learning=False)
    batch = ahead.batch(4)
    assert taken == numbers(batch) == [0, 1, 2, 3]  # type: ignore[arg-type]
    assert all(each.build.done() for each in batch)


def test_with_cores_to_spare_the_next_batches_are_being_built() -> None:
    taken: list[int] = []
    builds = ScriptedBuilds(overlaps=True, count=3)
    ahead = Ahead(builds, points(50, taken), kernel, learning=False)
    assert numbers(ahead.batch(4)) == [0, 1, 2, 3]  # type: ignore[arg-type]
    assert len(taken) == 4 + 2 * builds.count


def test_a_slow_build_lets_others_pass() -> None:
    builds = ScriptedBuilds(overlaps=True, count=3, slow=frozenset({1}))
    ahead = Ahead(builds, points(8, []), kernel, learning=False)
    assert numbers(ahead.batch(4)) == [0, 2, 3, 4]  # type: ignore[arg-type]
    builds.end_all()
    assert numbers(ahead.batch(4)) == [1, 5, 6, 7]  # type: ignore[arg-type]


def test_a_search_that_learns_is_told_before_it_proposes_many() -> None:
    taken: list[int] = []
    builds = ScriptedBuilds(overlaps=True, count=8)
    ahead = Ahead(builds, points(50, taken), kernel, learning=True)
    assert len(ahead.batch(16)) == LEARNING_AHEAD == len(taken)


def test_what_is_cancelled_is_not_handed_out() -> None:
    builds = ScriptedBuilds(overlaps=True, count=2, slow=frozenset({4, 5}))
    ahead = Ahead(builds, points(6, []), kernel, learning=False)
    ahead.batch(4)
    waiting = list(builds.open.values())
    ahead.cancel()
    assert all(future.cancelled() for future in waiting)
    assert ahead.batch(4) == []


@given(st.lists(st.tuples(st.integers(1, 16), st.floats(0, 1e3)), max_size=20))
def test_a_batch_is_never_empty_nor_too_large(batches: list[tuple[int, float]]) -> None:
    size = BatchSize()
    for count, elapsed_s in batches:
        before = size.now
        size.note(count, elapsed_s)
        assert 1 <= size.now <= min(MAX_BATCH, 2 * before)


def test_a_batch_lasts_about_a_second() -> None:
    size = BatchSize()
    for _ in range(4):
        size.note(size.now, 0.2 * size.now)
    assert size.now == 5
    size.note(5, 50.0)
    assert size.now == 1
