"""Takes jobs, as ``tuner work`` does; started by the service, which says all on its stdin."""

from __future__ import annotations

import logging

from tuner.errors import TunerError
from tuner.service.work.loop import work
from tuner.service.work.process import read_settings
from tuner.service.work.process import take_message

_LOG = logging.getLogger("tuner.work")


def main() -> int:
    """Work until told to stop, and return the exit code."""
    message = take_message()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    _LOG.setLevel(logging.INFO)
    try:
        work(read_settings(message["settings"]), message["devices"], _LOG.info)
    except TunerError as error:
        _LOG.error("%s", error.message)
        return error.exit_code
    return 0
