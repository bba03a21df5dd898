"""What finished studies left behind, kept for as long as the database is as it was.

To read it again takes SQLAlchemy, whose import alone is longer than all else that running a
finished study again does.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from tuner import __version__
from tuner.api.common import source_hashes
from tuner.api.study_result import StudyResult
from tuner.domain.identity import content_hash
from tuner.domain.study import StudyDefinition
from tuner.operator import Operator
from tuner.settings import Settings
from tuner.store.file_state import file_state
from tuner.store.file_state import settled_state

_PACKAGE = Path(__file__).resolve().parent.parent


def keep(
    read: Callable[[], StudyResult],
    definition: StudyDefinition,
    operator: Operator,
    settings: Settings,
) -> StudyResult:
    """Read what a study left behind, and keep it if it is finished.

    Args:
        read: Reads it from the database, which nothing here has open meanwhile.
        definition: The study.
        operator: The operator under study.
        settings: Name database and cache.
    """
    before = settled_state(settings.db)
    result = read()
    if result.finished and before is not None and before == file_state(settings.db):
        # The controls are those of the run that has ended.
        plain = _adapter().dump_python(replace(result, controls=()), mode="json")
        kept = json.dumps({"state": before, "result": plain})
        with contextlib.suppress(OSError):  # a cache that can't be written keeps nothing
            _write(_path(definition, operator, settings), kept)
    return result


def recall(
    definition: StudyDefinition, operator: Operator, settings: Settings
) -> StudyResult | None:
    """Return what a finished study left behind, or None where the database must be read."""
    try:
        kept = json.loads(_path(definition, operator, settings).read_text(encoding="utf-8"))
        if kept["state"] != file_state(settings.db):
            return None
        return _adapter().validate_python(kept["result"], strict=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@cache
def _adapter() -> TypeAdapter[StudyResult]:
    return TypeAdapter(StudyResult)


def _path(definition: StudyDefinition, operator: Operator, settings: Settings) -> Path:
    key = content_hash(
        {
            "study": definition.key,
            "sources": source_hashes(operator),  # of all: the answers say which are today's
            "database": settings.db,
            "program": [__version__, *_files_of_the_program()],
        }
    )
    return settings.cache_dir / "runs" / f"{key[:32]}.json"


def _files_of_the_program() -> list[list[int]]:
    """Return when each file that answers follow from was changed: in a checkout they do."""
    return [
        [status.st_mtime_ns, status.st_size]
        for folder in ("api", "domain", "report", "store", "study")
        for path in sorted((_PACKAGE / folder).glob("*.py"))
        for status in (path.stat(),)
    ]


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_suffix(f".{os.getpid()}")
    own.write_text(text, encoding="utf-8")
    own.replace(path)
