"""Tells whether anybody is being served: what can wait gives way to those who are."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from collections.abc import Iterator


class Traffic:
    """Requests under way. Counted by the event loop's thread, looked at by any.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._under_way = 0
        self._last_end_s = -math.inf

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is answered; a stream is, until it ends."""
        self._under_way += 1
        try:
            yield
        finally:
            self._last_end_s = self._clock()
            self._under_way -= 1

    def quiet_s(self) -> float:
        """Return for how long nobody has been served, in seconds."""
        return 0.0 if self._under_way else self._clock() - self._last_end_s
