"""Tells how much of the time is left for what can wait, beside the requests under way."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from collections.abc import Iterator

QUIET_S = 0.1  # without a request: nobody is served
LONG_S = 0.2  # under way for longer: an export, or a list that takes as much of a core as it gets
BESIDE_SHORT = 0.5
BESIDE_LONG = 0.1
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})  # nobody waits for work behind these


class Traffic:
    """Requests under way. Counted by the event loop's thread, looked at by any.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun_s: dict[object, float] = {}  # the oldest first
        self._last_end_s = -math.inf

    @contextlib.contextmanager
    def request(self, path: str) -> Iterator[Callable[[], None]]:
        """Count a request; give what ends that early, for a stream that mostly waits.

        Args:
            path: What is asked for; who only looks how the service is does not count.
        """
        if path in PROBES:
            yield lambda: None
            return
        key = object()
        self._begun_s[key] = self._clock()

        def end() -> None:
            if self._begun_s.pop(key, None) is not None:
                self._last_end_s = self._clock()

        try:
            yield end
        finally:
            end()

    def free_share(self) -> float:
        """Return which share of the time may be taken by what can wait, up to 1."""
        now_s = self._clock()
        begun_s = list(self._begun_s.values())  # at once, whatever another thread does
        if begun_s and now_s - begun_s[0] > LONG_S:
            return BESIDE_LONG
        if begun_s or now_s - self._last_end_s < QUIET_S:
            return BESIDE_SHORT
        return 1.0
