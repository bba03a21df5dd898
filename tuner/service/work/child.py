"""The process of one job. It is told everything on its stdin and answers in lines of JSON.

``{"study_id": 3}`` when a study is opened; at the end one of ``{"result": {...}}``,
``{"error": "..."}`` and ``{"stopped": true}``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from types import FrameType
from typing import TextIO

from tuner import api
from tuner.domain.identity import Plain
from tuner.domain.queue import JobKind
from tuner.errors import TunerError
from tuner.service.telling import Teller
from tuner.service.work.process import read_settings
from tuner.service.work.process import take_message


class Stopped(BaseException):
    """SIGTERM came. Like KeyboardInterrupt, it is not an error to be caught on the way."""


def main() -> None:
    """Run the job."""
    message = take_message()
    answer: dict[str, Plain]
    with _taken_stdout() as replies:
        try:
            signal.signal(signal.SIGTERM, _on_sigterm)
            # Our starter has them blocked, and a process inherits that.
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            answer = {"result": _run(message, replies)}
        except Stopped:
            answer = {"stopped": True}
        except TunerError as error:
            told, _ = Teller(read_settings(message["settings"])).told(error)
            if told != error.message:
                sys.stderr.write(f"the job failed: {error.message}\n")
            answer = {"error": told}
        _reply(replies, answer)


def _run(message: Mapping[str, Plain], replies: TextIO) -> dict[str, Plain]:
    return api.run_job(
        JobKind(message["kind"]),
        message["request"],
        message["device_id"],
        read_settings(message["settings"]),
        study_id=message["study_id"],
        on_study=lambda study_id: _reply(replies, {"study_id": study_id}),
    )


def _reply(replies: TextIO, answer: Mapping[str, Plain]) -> None:
    replies.write(json.dumps(answer, allow_nan=False) + "\n")
    replies.flush()


def _taken_stdout() -> TextIO:
    """Return our stdout, and let what others print go to stderr."""
    taken = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return taken


def _on_sigterm(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the clean-up must not stop
    raise Stopped("the job was paused or cancelled, or its worker was ended")
