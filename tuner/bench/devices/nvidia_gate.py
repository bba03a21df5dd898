"""Holds a CUDA stream back until all of a sample is queued, and lets it go in any case."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

from tuner.bench.devices.vendor import CheckedCalls

# Queuing a sample takes a few milliseconds at most. A launch that has not returned after this
# long is waiting for its kernel to end, which the held stream never lets begin.
MAX_HOLD_S = 0.25
# After so many in a row launches are taken to be synchronous, and the stream is held no more.
MAX_OVERDUE = 3
_POLL_S = 0.05


class StreamGate:
    """A word in pinned host memory that a stream can be made to wait for.

    Profilers, sanitizers, debuggers and CUDA_LAUNCH_BLOCKING make every launch wait for its
    kernel. On a held stream that would be for ever, so a watching thread opens the gate when it
    has been shut for too long. The bindings give up Python's lock during a call, so it can.

    Args:
        driver: The binding module.
        calls: Checked calls of it.
        stream: What is held.
    """

    def __init__(self, driver: Any, calls: CheckedCalls, stream: Any) -> None:
        self._driver = driver
        self._calls = calls
        self._stream = stream
        # Pinned memory has one address for host and device (unified addressing, 64-bit Linux).
        self._address = int(calls("cuMemHostAlloc", 4, 0))
        self._word = ctypes.c_uint32.from_address(self._address)
        self._word.value = 0
        self._turn = 0
        self._shut_at: float | None = None
        self._overdue = 0
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="stream-gate", daemon=True)
        self._watcher.start()

    def shut(self) -> None:
        """Make what is queued on the stream from now on wait for ``open``."""
        if self._overdue >= MAX_OVERDUE:
            return
        self._turn = (self._turn + 1) & 0x7FFFFFFF
        self._shut_at = time.monotonic()
        wait = self._driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ
        self._calls("cuStreamWaitValue32", self._stream, self._address, self._turn, wait)

    def open(self) -> None:
        """Let what was queued after ``shut`` run. A store to host memory; never raises."""
        if self._shut_at is not None:
            self._overdue = 0
        self._shut_at = None
        self._word.value = self._turn

    def close(self) -> None:
        """Stop watching and free the word. The stream must be idle or gone."""
        self._closing.set()
        self._watcher.join()
        self._calls.quiet("cuMemFreeHost", self._address)

    def _watch(self) -> None:
        while not self._closing.wait(_POLL_S):
            shut_at = self._shut_at
            if shut_at is not None and time.monotonic() - shut_at > MAX_HOLD_S:
                self._shut_at = None
                self._overdue += 1
                self._word.value = self._turn
