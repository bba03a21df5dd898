"""PostgreSQL: what is opened and refused, how sessions are set up, upgrade and check."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from postgres import PostgresServer
from sqlalchemy import make_url
from sqlalchemy import select
from sqlalchemy import text

from tuner.errors import DatabaseProblem
from tuner.errors import NotFound
from tuner.errors import SchemaMismatch
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.resources import alembic_dir
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store import schema
from tuner.store import Store
from tuner.store.check import describe_schema
from tuner.store.location import locate
from tuner.store.models import TrialRow
from tuner.store.server import server_engine
from tuner.store.server import take_schema_turn
from tuner.store.table import update_row
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition

FAILING = """def upgrade() -> None:
    op.execute("INSERT INTO nowhere VALUES (1)")


def _upgrade() -> None:
"""


def fill(store: Store) -> int:
    """Store a study with one confirmed trial and return the trial's id."""
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    trial_id = run_trial(recorder, study_id, 64, 10.0)
    confirm(recorder, trial_id, (10.0, 10.5), (9.5, 9.75))
    return trial_id


def name_of(url: str) -> str:
    return make_url(url).database or ""


def refused(url: str, error: type[TunerError], words: str, **how: bool) -> TunerError:
    """Open a database, which must be refused in one line without the password."""
    with pytest.raises(error, match=words) as caught:
        open_store(url, **{"create": True, "writable": True, **how})
    for each in (caught.value.message, caught.value.hint, repr(locate(url)), str(locate(url))):
        assert "secret" not in each
        assert "\n" not in each
    return caught.value


# What is opened


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    url = "postgresql://me:secret@127.0.0.1:1/results?password=secret"
    error = refused(url, DatabaseProblem, r"postgresql://127.0.0.1:1/results can't be reached")
    assert error.exit_code == 3
    assert "check that the server runs" in error.hint


def test_a_missing_database_is_named_with_a_remedy(postgres_url: str) -> None:
    url = make_url(postgres_url).set(database="nowhere").render_as_string(hide_password=False)
    error = refused(url, DatabaseProblem, "nowhere.*does not exist")
    assert "createdb" in error.hint


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("bob:secret?x@db/name", "db/name"),
        ("bob:secret?@db:5/name?host=/run&password=secret", "db:5/name?host=/run"),
        ("bob:secret/a@db/name", "db/name"),
        ("bob:secret:a@db/name", "db/name"),
        ("bob:a#secret@db/name", "db/name"),
        ("bob:a%40secret@db/name", "db/name"),
        ("bob@org:secret@db/name", "db/name"),
        ("db/name?password=a@secret", "db/name"),
        ("db/name?password=a:b@secret&port=5", "db/name?port=5"),
        ("/name?host=/run/a@b", "/name?host=/run/a@b"),
    ],
)
def test_a_password_is_never_shown(address: str, shown: str) -> None:
    assert str(locate(f"postgresql://{address}")) == f"postgresql://{shown}"


@pytest.mark.parametrize(
    "address",
    [
        *("bob:a@secret@db/name", "bob:a@secret/b@db/name", "bob:a@secret?x@db/name"),
        *("bob:secret@db/name?user=a@b", "bob:secret?x=1@db/name", "db:5/name?password=a@secret"),
    ],
)
def test_a_url_that_leaves_open_what_is_password_is_refused(address: str) -> None:
    error = refused(f"postgresql://{address}", UsageError, "postgresql://… has an @")
    assert "%40" in error.hint


def test_a_missing_role_is_no_missing_database(postgres_url: str) -> None:
    url = make_url(postgres_url).set(username="nobody_here").render_as_string(hide_password=False)
    error = refused(url, DatabaseProblem, "nobody_here.*does not exist")
    assert "createdb" not in error.hint


@pytest.mark.parametrize("url", ["postgresql://me:secret@host:port/x", "postgresql://[::1/x"])
def test_what_is_no_url_is_a_usage_error(url: str) -> None:
    refused(url, UsageError, "is not a URL")


def test_an_empty_database_is_filled_by_a_run_and_not_by_a_question(
    make_postgres: Callable[..., str],
) -> None:
    url = make_postgres(empty=True)
    error = refused(url, NotFound, "is empty", create=False, writable=False)
    assert error.exit_code == 4
    with pytest.raises(NotFound):
        migrate.info(url)
    open_store(url, create=True, writable=True).close()
    found = migrate.info(url)
    assert (found.state, found.size_bytes > 1_000_000) == ("current", True)
    assert found.system.startswith("PostgreSQL ")


def test_a_database_beside_other_tables_is_told_from_one_of_ours(
    postgres: PostgresServer, make_postgres: Callable[..., str]
) -> None:
    url = make_postgres(empty=True)
    postgres.run("CREATE TABLE studies (id integer)", name_of(url))
    refused(url, SchemaMismatch, "not one of tuner.*studies", create=False, writable=False)
    open_store(url, create=True, writable=True).close()  # Optuna's tables may be beside ours
    assert migrate.check(url) == []


@pytest.mark.parametrize(("stamp", "words"), [("0042", "0042.*knows"), ("0001", "0001.*needs")])
def test_another_revision_is_refused(
    postgres: PostgresServer, postgres_url: str, stamp: str, words: str
) -> None:
    change = f"UPDATE tuner_alembic_version SET version_num = '{stamp}'"
    postgres.run(change, name_of(postgres_url))
    error = refused(postgres_url, SchemaMismatch, words)
    assert stamp == "0042" or "pg_dump" in error.hint


def test_another_encoding_is_refused(postgres: PostgresServer) -> None:
    name = f"{postgres.run('SELECT pg_backend_pid()')[0][0]}_latin"
    postgres.run(
        f'CREATE DATABASE "{name}" TEMPLATE template0 ENCODING LATIN1 LOCALE "C" '
        "LOCALE_PROVIDER libc"
    )
    url = make_url(postgres.url_of(name)).render_as_string(hide_password=False)
    try:
        refused(url, DatabaseProblem, "encoding LATIN1, tuner needs UTF8")
    finally:
        postgres.drop(url)


def test_who_opens_a_database_that_is_there_waits_for_no_copy_or_upgrade(postgres_url: str) -> None:
    engine = server_engine(locate(postgres_url), "migrate")
    hasty = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-clock_timeout%3D200ms"
    with engine.begin() as connection:
        take_schema_turn(connection)
        open_store(hasty, create=True, writable=True).close()
    engine.dispose()


# Sessions


def settings_of(store: Store, *, writing: bool) -> dict[str, str]:
    names = (
        *("application_name", "lock_timeout", "statement_timeout", "timezone"),
        *("idle_in_transaction_session_timeout", "transaction_isolation", "transaction_read_only"),
    )
    context = store.transaction() if writing else store.session()
    with context as session:
        return {name: session.execute(text(f"SHOW {name}")).scalar_one() for name in names}


def test_readers_see_one_snapshot_and_writers_do_not_wait_for_ever(postgres_url: str) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        reader = settings_of(store, writing=False)
        writer = settings_of(store, writing=True)
    assert (reader["transaction_isolation"], reader["transaction_read_only"]) == (
        "repeatable read", "on",
    )  # fmt: skip
    assert (writer["transaction_isolation"], writer["transaction_read_only"]) == (
        "read committed", "off",
    )  # fmt: skip
    assert (writer["lock_timeout"], writer["statement_timeout"]) == ("30s", "5min")
    assert writer["idle_in_transaction_session_timeout"] == "1min"
    assert (writer["application_name"], writer["timezone"]) == ("tuner", "UTC")


def test_what_the_url_says_goes_first(postgres_url: str) -> None:
    more = "application_name=mine&options=-c%20statement_timeout%3D7s%20-c%20TimeZone%3DAsia/Tokyo"
    url = f"{postgres_url}&{more}" if "?" in postgres_url else f"{postgres_url}?{more}"
    with open_store(url, create=False, writable=True) as store:
        found = settings_of(store, writing=True)
        trial_id = fill(store)
        with store.session() as session:
            there = queries.trial_detail(session, trial_id).summary.started_at
    assert (found["application_name"], found["statement_timeout"]) == ("mine", "7s")
    assert (found["lock_timeout"], found["timezone"]) == ("30s", "Asia/Tokyo")
    with open_store(postgres_url, create=False, writable=False) as store, store.session() as each:
        here = queries.trial_detail(each, trial_id).summary.started_at
    assert here.isoformat() == there.isoformat()  # in UTC, whatever the session's zone
    assert migrate.check(url) == []


def test_a_snapshot_stands_still_and_stops_no_writer(postgres_url: str) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        fill(store)
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        with store.session() as session:
            rows = queries.iter_trials(session)
            first = next(rows)
            for block in range(100, 105):
                run_trial(recorder, study_id, block, 5.0)
            assert [first, *rows] == [first]
            assert len(queries.list_trials(session, study_id)) == 1
        with store.session() as session:
            assert len(queries.list_trials(session, study_id)) == 6


def test_a_reader_can_not_write(postgres_url: str) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        with pytest.raises(DatabaseProblem, match="can't be written"), store.session() as session:
            session.execute(text("DELETE FROM tuner_study"))
        with pytest.raises(UsageError, match="can't hold a value"):
            store.recorder().open_study(make_definition(planned=2**31), fresh=False)
        assert store.info().counts["study"] == 0


def test_a_lock_that_is_not_given_back_ends_the_waiting(
    postgres: PostgresServer, postgres_url: str
) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        trial_id = fill(store)
        with store.transaction() as connection:
            connection.execute(select(TrialRow.id).where(TrialRow.id == trial_id).with_for_update())
            limit = "options=-c%20lock_timeout%3D100ms"
            url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}{limit}"
            hasty = open_store(url, create=False, writable=True)
            locked = pytest.raises(DatabaseProblem, match="locked by another program")
            with hasty, locked, hasty.transaction() as other:
                update_row(other, TrialRow, trial_id, {"message": "x"})


def test_a_role_that_may_only_read_reads(postgres: PostgresServer, postgres_url: str) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        trial_id = fill(store)
    role = f"reader_{name_of(postgres_url)}"
    postgres.run(f"CREATE ROLE {role} LOGIN")
    try:
        postgres.run(
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", name_of(postgres_url)
        )
        url = make_url(postgres_url).set(username=role).render_as_string(hide_password=False)
        with open_store(url, create=True, writable=True) as store:
            with store.session() as session:
                assert queries.trial_detail(session, trial_id).summary.confirmed
            with pytest.raises(DatabaseProblem, match="the role lacks a privilege"):
                store.recorder().open_study(make_definition("new"), fresh=False)
    finally:
        postgres.run(f"DROP OWNED BY {role}", name_of(postgres_url))
        postgres.run(f"DROP ROLE {role}")


# Upgrade, check, backup


def test_migrations_lead_to_the_schema_of_a_fresh_database(
    postgres_url: str, make_postgres: Callable[..., str]
) -> None:
    fresh = server_engine(locate(postgres_url), "migrate")
    migrated = server_engine(locate(make_postgres(empty=True)), "migrate")
    with fresh.begin() as connection:
        expected = describe_schema(connection)
    with migrated.begin() as connection:
        migrate.run_migrations(connection, alembic_dir())
        assert describe_schema(connection) == expected
        migrate.run_migrations(connection, alembic_dir(), "base")
        assert describe_schema(connection) == {}
        migrate.run_migrations(connection, alembic_dir())
        assert describe_schema(connection) == expected
    fresh.dispose()
    migrated.dispose()


def test_an_old_database_is_upgraded_once_or_not_at_all(postgres_url: str, folder: Path) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        fill(store)
    engine = server_engine(locate(postgres_url), "migrate")
    with engine.begin() as connection:
        migrate.run_migrations(connection, alembic_dir(), schema.REVISIONS[0])
    engine.dispose()
    assert migrate.info(postgres_url).state == "older"
    broken = folder / "scripts"
    shutil.copytree(alembic_dir(), broken)
    (last,) = (broken / "versions").glob(f"{schema.head()}_*.py")
    last.write_text(last.read_text().replace("def upgrade() -> None:\n", FAILING, 1))
    with pytest.raises(DatabaseProblem, match="nowhere"):
        migrate.upgrade(postgres_url, broken)
    assert migrate.info(postgres_url).revision == schema.REVISIONS[0]  # not half way either
    lines: list[str] = []
    threads = [
        threading.Thread(target=lambda: lines.extend(migrate.upgrade(postgres_url)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines) == 2
    assert migrate.check(postgres_url) == []
    assert migrate.info(postgres_url).counts["trial"] == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE tuner_trial SET median_us = low_us WHERE id = 1", "checksum: tuner_trial id 1"),
        ("UPDATE tuner_sample SET time_us = 1 WHERE position = 0", "checksum: tuner_process"),
        ("UPDATE tuner_lease SET owner = 'x'", "checksum: tuner_lease id 1"),
        ("DROP INDEX ix_tuner_study_name", "schema: indexes of tuner_study"),
        ("ALTER TABLE tuner_study ALTER COLUMN spec DROP NOT NULL", "schema: columns of"),
        ("ALTER TABLE tuner_trial DROP CONSTRAINT ck_tuner_trial_stage_known", "schema: checks of"),
        ("DROP TABLE tuner_validation", "schema: table tuner_validation is missing"),
    ],
    ids=lambda each: each.split()[0] + each.split()[-1],
)
def test_check_names_what_was_changed(
    postgres: PostgresServer, postgres_url: str, statement: str, words: str
) -> None:
    with open_store(postgres_url, create=False, writable=True) as store:
        fill(store)
    assert migrate.check(postgres_url) == []
    postgres.run(statement, name_of(postgres_url))
    problems = migrate.check(postgres_url)
    assert any(words in problem for problem in problems), problems


def test_backup_says_what_to_use_instead(postgres_url: str, folder: Path) -> None:
    with pytest.raises(UsageError, match="is on a server") as caught:
        migrate.backup(postgres_url, folder / "copy.db")
    assert "pg_dump" in caught.value.hint
    assert "tuner db copy" in caught.value.hint
    assert list(folder.iterdir()) == []
