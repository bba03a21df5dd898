"""One state of a database file is told from another without opening it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.store import open_store
from tuner.store.file_state import file_state
from tuner.store.file_state import settled_state


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the address of a database of ours."""
    path = tmp_path / "results.db"
    open_store(str(path), create=True, writable=True).close()
    return f"sqlite:///{path}"


def commit(url: str, text: str, mode: str = "wal") -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE IF NOT EXISTS other (text)")
        connection.execute("INSERT INTO other VALUES (?)", (text,))
    connection.close()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_every_commit_is_another_state(url: str, mode: str) -> None:
    seen = {file_state(url)}
    for number in range(5):
        commit(url, str(number), mode)
        seen.add(file_state(url))
    assert None not in seen
    assert len(seen) == 6


def test_commits_that_only_the_log_has_are_seen(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM tuner_study").fetchall()  # keeps the log from being ended
    seen = {file_state(url)}
    for number in range(3):
        commit(url, str(number))
        seen.add(file_state(url))
    reader.close()
    assert len(seen) == 4


def test_a_log_that_begins_anew_is_seen(url: str) -> None:
    writer = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("CREATE TABLE other (text)")
    seen = set()
    for number in range(4):
        writer.execute("INSERT INTO other VALUES (?)", (str(number),))
        writer.execute("PRAGMA wal_checkpoint(RESTART)")
        time.sleep(0.02)  # the file system's clock has steps
        seen.add(file_state(url))
    writer.close()
    assert len(seen) == 4


def test_to_read_is_to_change_nothing(url: str) -> None:
    before = file_state(url)
    for writable in (False, True):
        with open_store(url, create=False, writable=writable) as store, store.session() as session:
            assert store.queries.list_studies(session) == []
        assert file_state(url) == before


def test_a_state_counts_once_it_has_lasted_longer_than_a_step_of_the_clock(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settled_state(url) == file_state(url)
    monkeypatch.setattr(time, "sleep", lambda _: commit(url, "meanwhile"))
    assert settled_state(url) is None


def exchange(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("change", [exchange, Path.unlink])
def test_another_file_of_the_name_is_another_state(
    url: str, change: Callable[[Path], None]
) -> None:
    before = file_state(url)
    change(Path(url.removeprefix("sqlite:///")))
    assert before is not None
    assert file_state(url) != before


def test_what_is_under_way_or_on_a_server_has_no_state(url: str) -> None:
    Path(url.removeprefix("sqlite:///") + "-journal").write_bytes(b"")
    assert file_state(url) is None
    assert file_state("postgresql://server/results") is None
