"""Keeps the process that takes jobs running beside the service, and ends it with the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import time
from collections.abc import Callable

_log = logging.getLogger("tuner.service")

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
LONG_LIFE_S = 60.0
GRACE_S = 8.0
_POLL_S = 0.1


async def supervise(start: Callable[[], subprocess.Popen[bytes]], stopping: asyncio.Event) -> None:
    """Start a process, again whenever it ends, and later each time that it ends soon.

    Runs in the main thread's loop: the kernel ends the process with the thread that started it.

    Args:
        start: Starts it; it ends when it gets SIGTERM, and when this process is killed.
        stopping: Set when it is to end for good.
    """
    delay_s = FIRST_DELAY_S
    while not stopping.is_set():
        begun_s = time.monotonic()
        end = await _run(start, stopping)
        if stopping.is_set():
            return
        if time.monotonic() - begun_s >= LONG_LIFE_S:
            delay_s = FIRST_DELAY_S
        _log.warning("the process that takes jobs %s; it starts again in %g s", end, delay_s)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), delay_s)
        delay_s = min(delay_s * 2, LONGEST_DELAY_S)


async def _run(start: Callable[[], subprocess.Popen[bytes]], stopping: asyncio.Event) -> str:
    """Run a process until it ends, or ends because it is to stop, and say how it ended."""
    try:
        process = start()
    except OSError as error:  # such as no memory for another process; the pages go on
        return f"can't be started: {error}"
    await _wait(process, stopping)
    if process.poll() is None:
        await _end(process)
    return f"ended (code {process.returncode})"


async def _wait(process: subprocess.Popen[bytes], stopping: asyncio.Event) -> None:
    while process.poll() is None and not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _POLL_S)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process politely, else by force: its jobs go back to the queue either way."""
    process.terminate()
    deadline_s = time.monotonic() + GRACE_S
    while process.poll() is None and time.monotonic() < deadline_s:
        await asyncio.sleep(_POLL_S)
    if process.poll() is None:
        _log.warning("the process that takes jobs did not end within %g s: killed", GRACE_S)
        process.kill()
    process.wait()
