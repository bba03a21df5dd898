"""Runs a module's ``main``, bound from the first moment to live no longer than its starter.

Nothing slow is imported before: a process whose starter is killed meanwhile would outlive it for
as long as its imports take. Called as ``python -m tuner.start MODULE PARENT_PID ...``: what follows
is for ``main`` to read.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Python's 700 has it look through what imports made, which stays, a tenth of the time of a start.
_NEW_OBJECTS = 10_000


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before the call above
        os._exit(1)


def collect_less() -> None:
    """Have Python look for unreachable objects less often."""
    gc.set_threshold(_NEW_OBJECTS)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    collect_less()
    raise SystemExit(importlib.import_module(sys.argv[1]).main())
