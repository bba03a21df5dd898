"""Processes that end with the one that started them, and are told everything on their stdin.

Settings hold the password of a database server: arguments and environment variables of a process
can be read by others, its stdin can't.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tuner.domain.identity import Plain
from tuner.environ import OPENS_SERVICE
from tuner.environ import process_environment
from tuner.settings import Settings

_START = "tuner.start"
_STDERR = 2  # data goes to stdout, and these processes have none for the terminal


def start_child(
    module: str, message: Mapping[str, Plain], *, reply: bool = False
) -> subprocess.Popen[bytes]:
    """Start a module's ``main`` in a process of its own and give it one JSON object.

    The kernel kills it when the *thread* that calls this ends: call it from the main thread.

    Args:
        module: Its ``main`` takes the object with ``take_message``; what it returns is the
            exit code.
        message: What it is told.
        reply: Whether its stdout is a pipe to us; else it writes to our stderr.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", _START, module, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if reply else _STDERR,
        env=_environment(),
        start_new_session=True,  # Ctrl-C in a terminal is for us; we tell it when to stop
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message, allow_nan=False).encode("ascii"))
        process.stdin.close()
    except BrokenPipeError:
        process.stdin = None  # it ended at once; whoever waits for it finds out
    return process


def take_message() -> dict[str, Any]:
    """Return what the starter of this process says."""
    message: dict[str, Any] = json.load(sys.stdin)
    return message


def start_worker(settings: Settings, device_ids: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a process that takes jobs, as ``tuner work`` does."""
    message = {"settings": settings_message(settings), "devices": list(device_ids)}
    return start_child("tuner.service.work.worker", message)


def settings_message(settings: Settings) -> dict[str, Plain]:
    """Return the settings as plain values, without the token.

    What runs kernels must not be able to write through the service.
    """
    plain: dict[str, Plain] = settings.model_dump(mode="json", exclude={"token"})
    return plain


def read_settings(plain: Mapping[str, Plain]) -> Settings:
    """Return the settings that ``settings_message`` made plain."""
    return Settings(**plain)


def _environment() -> dict[str, str]:
    environment = dict(process_environment())
    environment.pop(OPENS_SERVICE, None)
    return environment
