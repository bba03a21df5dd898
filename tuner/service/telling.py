"""What a client is told of an error: in its own words, and nothing of where things are here.

Messages are written for who runs a command on this machine, and name files, servers and folders.
A client may be anybody on the network (``/readyz`` takes no token), so what it is told goes through
here; the service's log has the whole. The process of a job uses it too, so FastAPI is not imported.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from tuner.errors import BrokenOperator
from tuner.errors import DatabaseProblem
from tuner.errors import NoDatabase
from tuner.errors import SchemaMismatch
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.resources import kernels_dir
from tuner.resources import studies_dir
from tuner.service.wording import HTTP_WORDS
from tuner.settings import Settings
from tuner.store.location import locate
from tuner.ways import in_words
from tuner.ways import Way
from tuner.ways import Words

_log = logging.getLogger("tuner.service")
_THE_LOG = "the service's log says more"


class Teller:
    """Tells clients of errors, and the log what they are not told.

    Args:
        settings: Name what is kept back: the database and the folders.
    """

    def __init__(self, settings: Settings) -> None:
        self._database = _database(settings.db)
        folders = (*settings.operators, *settings.studies, settings.cache_dir, kernels_dir(),
                   studies_dir(), Path(os.path.expanduser("~")))  # fmt: skip
        self._folders = _any_of(folders)
        self._kept_back = ""

    def told(self, error: TunerError, words: Words = HTTP_WORDS) -> tuple[str, str]:
        """Return message and hint of an error as a client is told them; log what it is not told.

        Args:
            error: What went wrong.
            words: Of the surface through which the client came.
        """
        message, hint = self._told(error, words)
        if message != error.message:
            self._note(error.message)
        return message, hint

    def _told(self, error: TunerError, words: Words) -> tuple[str, str]:
        if isinstance(error, NoDatabase):
            return "there is no database", _THE_LOG
        if isinstance(error, SchemaMismatch):
            return (
                "the database has another schema than this version of tuner needs",
                in_words(f"{Way.UPGRADE_DATABASE} brings an older one up to date; ", words)
                + _THE_LOG,
            )
        if isinstance(error, DatabaseProblem):
            what = f": {error.what}" if error.what else ""
            return f"the database can't be used{what}", _THE_LOG
        if isinstance(error, BrokenOperator):
            which = f"the operator {error.operator!r}" if error.operator else "the operators"
            return f"{which} can't be loaded", _THE_LOG
        return self._without_places(error.message), self._without_places(error.hint_in(words))

    def _without_places(self, text: str) -> str:
        return self._folders.sub("", self._database.sub("database", text))

    def _note(self, message: str) -> None:
        """Log what was kept back, once for all who ask while it lasts."""
        if message != self._kept_back:
            _log.warning("kept back from a client: %s", message)
        self._kept_back = message


def _database(db: str) -> re.Pattern[str]:
    """Return what finds the place of the database in a text."""
    try:
        location = locate(db)
    except UsageError:  # the first one to open it says so
        return re.compile(r"(?!)")
    path = location.path
    places = {str(location)} if path is None else {str(path), str(path.absolute())}
    return re.compile("|".join(rf"(?:database )?{re.escape(each)}" for each in _longest(places)))


def _any_of(folders: tuple[Path, ...]) -> re.Pattern[str]:
    """Return what finds the beginning of a path in one of some folders, or in one of theirs."""
    found = {str(form) for each in folders for form in (each, each.absolute(), each.resolve())}
    names = "|".join(re.escape(each) for each in _longest(found - {".", "/"}))
    return re.compile(rf"(?<![\w./-])(?:{names})(?:/|(?![\w.-]))")


def _longest(texts: set[str]) -> list[str]:
    return sorted(texts, key=len, reverse=True)
