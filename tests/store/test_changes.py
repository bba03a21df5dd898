"""What tells the service that a kept answer is still right: equal marks, unchanged database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from postgres import PostgresServer
from sqlalchemy import text

from tuner.store import open_store
from tuner.store import Store
from tuner.store.changes import Changes
from tuner.store.changes import watch_changes
from tuner.testing.store_values import make_definition

# Another value, for SQLite does not write a page that stays as it was.
CHANGE = text("UPDATE tuner_study SET name = name || 'x'")
OTHER_PROCESS = """
import sys
from sqlalchemy import text
from tuner.store import open_store
with open_store(sys.argv[1], create=False, writable=True) as store:
    with store.transaction() as connection:
        connection.execute(text("UPDATE tuner_study SET name = name || 'x'"))
"""


@pytest.fixture
def filled(url: str) -> Iterator[Store]:
    """A store with one study, on SQLite, then on PostgreSQL."""
    with open_store(url, create=True, writable=True) as store:
        store.recorder().open_study(make_definition(), fresh=False)
        store.recorder().release()
        yield store


@pytest.fixture
def changes(filled: Store) -> Iterator[Changes]:
    """What watches it."""
    watching = watch_changes(filled.location)
    yield watching
    watching.close()


def test_a_mark_stays_while_others_only_read(filled: Store, changes: Changes) -> None:
    first = changes.mark()
    with filled.session() as session:
        session.execute(text("SELECT count(*) FROM tuner_trial"))
        assert changes.mark() == first
    assert changes.mark() == first


def test_a_commit_of_this_process_changes_it(filled: Store, changes: Changes) -> None:
    first = changes.mark()
    with filled.transaction() as connection:
        connection.execute(CHANGE)
    assert changes.mark() != first
    assert changes.mark() == changes.mark()


def test_a_commit_of_another_process_changes_it(url: str, changes: Changes) -> None:
    first = changes.mark()
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, url], check=True, timeout=60)
    assert changes.mark() != first


def test_what_was_read_before_a_commit_is_never_under_the_mark_after_it(
    filled: Store, changes: Changes
) -> None:
    """The mark is taken first, then the answer is read: it must not equal any later one."""
    with filled.transaction() as connection:
        connection.execute(CHANGE)
        during = changes.mark()
    assert changes.mark() != during


def test_a_server_that_was_started_again_is_another_one(
    postgres: PostgresServer, postgres_url: str
) -> None:
    if not postgres.owned:
        pytest.skip("the server is not this test's to stop")
    with open_store(postgres_url, create=False, writable=False) as store:
        watching = watch_changes(store.location)
        first = watching.mark()
        postgres.stop()
        postgres.start()
        assert watching.mark() != first
        watching.close()
