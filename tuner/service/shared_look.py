"""One look for all who wait for one: what many requests ask a server for at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

_T = TypeVar("_T")


class SharedLook(Generic[_T]):
    """Runs a function in a thread, once for all callers that came before it began.

    What is found is never older than the call: those who come while a look is under way wait for
    the next one. For one event loop.

    Args:
        look: Takes a look. What it raises, all who wait for it get.
    """

    def __init__(self, look: Callable[[], _T]) -> None:
        self._look = look
        self._under_way: asyncio.Task[_T] | None = None
        self._next: asyncio.Task[_T] | None = None

    async def __call__(self) -> _T:
        """Return what a look that begins after this call finds."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._under_way))
        # A client that hangs up must not end the look of the others.
        return await asyncio.shield(self._next)

    async def _after(self, earlier: asyncio.Task[_T] | None) -> _T:
        if earlier is not None:
            await asyncio.wait([earlier])
        self._under_way, self._next = self._next, None
        return await run_in_threadpool(self._look)
