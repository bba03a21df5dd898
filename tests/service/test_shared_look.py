"""A look that many wait for: one for all of them, never one that began before they asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from tuner.errors import DatabaseProblem
from tuner.service.shared_look import SharedLook

PATIENCE_S = 10.0


class HeldUp:
    """Looks that tell when they have begun, and end when they may."""

    def __init__(self, looks: Callable[[int], int] = lambda number: number) -> None:
        self.begun = 0
        self._may_end = threading.Semaphore(0)
        self._looks = looks

    def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        assert self._may_end.acquire(timeout=PATIENCE_S)
        return self._looks(number)

    def let_end(self, count: int = 1) -> None:
        self._may_end.release(count)

    async def wait_begun(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.begun < count:
                await asyncio.sleep(0.001)


def test_who_asks_during_a_look_waits_for_the_next_one_and_shares_it() -> None:
    held = HeldUp()
    look = SharedLook(held)

    async def ask() -> list[int]:
        early = [asyncio.create_task(look()) for _ in range(3)]
        await held.wait_begun(1)
        late = [asyncio.create_task(look()) for _ in range(4)]
        await asyncio.sleep(0.05)
        assert held.begun == 1  # one at a time
        held.let_end(2)
        return await asyncio.gather(*early, *late)

    assert asyncio.run(ask()) == [1, 1, 1, 2, 2, 2, 2]
    assert held.begun == 2


def test_each_look_is_a_new_one_when_nobody_else_asks() -> None:
    held = HeldUp()
    held.let_end(3)
    look = SharedLook(held)

    async def ask() -> list[int]:
        return [await look() for _ in range(3)]

    assert asyncio.run(ask()) == [1, 2, 3]


def test_a_look_that_fails_fails_for_all_who_waited_and_for_nobody_later() -> None:
    def fails_at_first(number: int) -> int:
        if number == 1:
            raise DatabaseProblem("the server is gone")
        return number

    held = HeldUp(fails_at_first)
    held.let_end(2)
    look = SharedLook(held)

    async def ask() -> tuple[list[int | BaseException], int]:
        both = await asyncio.gather(look(), look(), return_exceptions=True)
        return both, await look()

    failed, later = asyncio.run(ask())
    assert [type(each) for each in failed] == [DatabaseProblem] * 2
    assert later == 2


def test_a_client_that_hangs_up_does_not_end_the_look_of_the_others() -> None:
    held = HeldUp()
    look = SharedLook(held)

    async def ask() -> int:
        first, second = asyncio.create_task(look()), asyncio.create_task(look())
        await held.wait_begun(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        held.let_end()
        return await second

    assert asyncio.run(ask()) == 1
    assert held.begun == 1


def test_a_look_that_hangs_does_not_stop_the_loop() -> None:
    held = HeldUp()
    look = SharedLook(held)

    async def ask() -> int:
        waits = asyncio.create_task(look())
        await held.wait_begun(1)
        for _ in range(100):
            await asyncio.sleep(0)  # other requests have their turn
        assert not waits.done()
        held.let_end()
        return await waits

    assert asyncio.run(ask()) == 1
