"""Databases of every released schema open and give the answers they gave when they were made."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tuner.store import migrate
from tuner.store import open_store
from tuner.store.schema import REVISIONS

GOLDEN = Path(__file__).parent.parent / "golden"
# 0002 never left this repository without 0003.
RELEASED = ("0001", "0003", "0004", "0005")


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_golden", GOLDEN / "make_golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_newest_schema_has_a_golden_database() -> None:
    assert RELEASED[-1] == REVISIONS[-1]


@pytest.mark.parametrize("revision", RELEASED)
def test_a_golden_database_gives_the_same_answers(
    revision: str, folder: Path, maker: ModuleType
) -> None:
    path = folder / "golden.db"
    shutil.copy(GOLDEN / f"revision_{revision}.sqlite3", path)
    migrate.upgrade(str(path))
    assert migrate.check(str(path)) == []
    with open_store(str(path), create=False, writable=False) as store:
        found = json.loads(json.dumps(maker.answers(store)))
    expected = json.loads((GOLDEN / f"revision_{revision}.json").read_text("utf-8"))
    for name, value in expected.items():
        assert known_part(found[name], value) == value, name


def known_part(found: Any, expected: Any) -> Any:
    """Return what was found without the columns that rows have got since."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: known_part(found[key], expected[key]) for key in found if key in expected}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [known_part(*pair) for pair in zip(found, expected, strict=True)]
    return found


def test_a_golden_database_holds_every_kind_of_row(folder: Path) -> None:
    path = folder / "golden.db"
    shutil.copy(GOLDEN / f"revision_{REVISIONS[-1]}.sqlite3", path)
    counts = migrate.info(str(path)).counts
    assert min(counts.values()) > 0, counts
    answers = json.loads((GOLDEN / f"revision_{REVISIONS[-1]}.json").read_text("utf-8"))
    assert len({row["outcome"] for row in answers["trials"]}) == 14
