"""Streams of rows: the values that a query gives, early ends, errors on the way."""

from __future__ import annotations

import csv
import io
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import example
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st
from postgres import PostgresServer
from sqlalchemy import BigInteger
from sqlalchemy import Boolean
from sqlalchemy import Column
from sqlalchemy import column
from sqlalchemy import Double
from sqlalchemy import event
from sqlalchemy import func
from sqlalchemy import insert
from sqlalchemy import Integer
from sqlalchemy import literal
from sqlalchemy import make_url
from sqlalchemy import MetaData
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import Table
from sqlalchemy import Text

from tuner.errors import DatabaseProblem
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.report.csv_text import csv_chunks
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.streams import CHUNK_ROWS
from tuner.store.streams import fetched_chunks
from tuner.store.streams import stream
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point

MANY = 300_000  # more than the buffers between a server and its client hold
NASTY = (
    "", r"\N", r"\\N", "\\", "a\\", r"\n", "\t", "a\tb", "a\nb\r\nc", "\x08\x0b\x0c\x1f\x7f",
    "\u2028\x85", "é😀", '"quoted", twice', "'; DROP TABLE x; --", "%s %(x)s %%", "\\.", "=1+1",
)  # fmt: skip

ODD = Table(
    "odd",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("text", Text),
    Column("number", Double),
    Column("whole", BigInteger),
    Column("flag", Boolean),
)
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.sampled_from("\\Nnrtbfv\t\n\r\b\f\v\" a'é"), max_size=6),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
)
ROWS = st.tuples(
    st.none() | TEXTS,
    st.none() | st.floats(),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.booleans(),
)


@pytest.fixture
def server_store(postgres_url: str) -> Iterator[Store]:
    with open_store(postgres_url, create=False, writable=True) as store:
        yield store


@pytest.fixture
def odd_store(server_store: Store) -> Store:
    """A store with a table of all kinds of values."""
    with server_store.transaction() as connection:
        ODD.create(connection)
    return server_store


def many(last: int = MANY, **columns: Any) -> Select[*tuple[Any, ...]]:
    """Return a query of many rows, made by the server as it goes."""
    numbers = func.generate_series(1, last).table_valued(column("n", Integer)).render_derived()
    more = [each(numbers.c.n).label(name) for name, each in columns.items()]
    return select(numbers.c.n, *more)


def busy(postgres: PostgresServer, url: str) -> list[str]:
    """Return what a database's clients do, or did last in a transaction that is still open."""
    rows = postgres.run(
        "SELECT query FROM pg_stat_activity WHERE state <> 'idle' AND "
        f"datname = '{make_url(url).database}'"
    )
    return [query for (query,) in rows]


# Values


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROWS, max_size=6), times=st.sampled_from([1, CHUNK_ROWS]))
@example(rows=[(text, 0.1 + 0.2, 1, True) for text in NASTY], times=1)
@example(rows=[(None, None, None, None)], times=CHUNK_ROWS)
@example(rows=[("", 5e-324, -1, False), (None, -0.0, 0, None)], times=1)
@example(rows=[("a", float("nan"), 1, True), ("a", float("-inf"), 1, True)], times=1)
def test_a_stream_gives_what_was_stored_and_what_a_query_gives(
    odd_store: Store, rows: list[tuple[Any, ...]], times: int
) -> None:
    stored = [
        dict(zip(ODD.columns.keys(), (number, *row), strict=True))
        for number, row in enumerate(rows * times)
    ]
    with odd_store.transaction() as connection:
        connection.execute(ODD.delete())
        if stored:
            connection.execute(insert(ODD), stored)
    query = select(ODD).order_by(ODD.c.id)
    with odd_store.session() as session:
        streamed = stream(session, query)
        chunks = [tuple(row) for chunk in streamed.chunks for row in chunk]
        fetched = [tuple(row) for c in fetched_chunks(session.connection(), query) for row in c]
    assert streamed.columns == tuple(ODD.columns.keys())
    # By their texts: those of two floats differ where a bit does, and NaN is not NaN.
    assert repr(chunks) == repr(fetched) == repr([tuple(row.values()) for row in stored])


def test_texts_in_a_query_stay_texts(odd_store: Store) -> None:
    query = select(*(literal(text).label(f"c{n}") for n, text in enumerate(NASTY)))
    with odd_store.session() as session:
        assert list(stream(session, query)) == [{f"c{n}": text for n, text in enumerate(NASTY)}]
        rest = (literal(7) % literal(4)).label("rest")
        assert list(stream(session, select(rest, literal("%%").label("text")))) == [
            {"rest": 3, "text": "%%"}
        ]
        assert list(stream(session, select((ODD.c.id % ODD.c.id).label("none")))) == []


def test_a_client_with_another_encoding_gets_the_same(odd_store: Store, postgres_url: str) -> None:
    with odd_store.transaction() as connection:
        connection.execute(insert(ODD), [{"id": 1, "text": "é"}])
    more = "&" if "?" in postgres_url else "?"
    url = f"{postgres_url}{more}client_encoding=latin1"
    with open_store(url, create=False, writable=False) as store, store.session() as session:
        assert [row["text"] for row in stream(session, select(ODD))] == ["é"]


def test_exports_of_both_stores_keep_every_text(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(NASTY[1]), fresh=False).study_id
        for block, text in enumerate(NASTY):
            point = make_point(block, word=text)
            trial_id = recorder.start_trial(study_id, point, GEOMETRY)
            report = make_failure(message=f"-{text}-", log=text)
            recorder.finish_trial(trial_id, report, bytes_moved=1)
        run_trial(recorder, study_id, 1000, 0.1 + 0.2)
        with store.session() as session:
            rows = list(queries.iter_trials(session))
            columns = queries.TRIAL_COLUMNS
            text = "".join(csv_chunks(queries.iter_trials(session), columns))
            trials = queries.list_trials(session, study_id)
    ok = rows[-1]
    assert {row["study"] for row in rows} == {NASTY[1]}
    assert [row["message"] for row in rows] == [trial.message for trial in trials]
    assert [trial.config["word"] for trial in trials[:-1]] == list(NASTY)
    assert (ok["message"], ok["quick_median_us"], ok["median_us"]) == ("", 0.1 + 0.2, None)
    assert (ok["confirmed"], ok["registers"], ok["spills"]) == (False, 32, None)
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["config"] for row in read] == [row["config"] for row in rows]


def test_an_older_driver_gives_the_same(odd_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.capabilities, "has_stream_chunked", lambda: False)
    with odd_store.session() as session:
        assert len(list(stream(session, many(1000)))) == 1000


# Ends


def test_a_stream_that_is_left_early_leaves_nothing_behind(
    server_store: Store, postgres: PostgresServer, postgres_url: str
) -> None:
    for _ in range(3):
        with server_store.session() as session:
            rows = stream(session, many())
            assert [next(rows)["n"] for _ in range(200)] == list(range(1, 201))
            assert any("generate_series" in query for query in busy(postgres, postgres_url))
            assert session.scalar(select(1)) == 1
        assert busy(postgres, postgres_url) == []
        assert list(rows)[:1] in ([], [{"n": 201}])  # what was read already
    with server_store.session() as session:
        assert sum(row["n"] for row in stream(session, many(1000))) == 500_500


def test_who_takes_rows_and_fails_ends_the_stream(
    server_store: Store, postgres: PostgresServer, postgres_url: str
) -> None:
    def fail() -> None:
        with server_store.session() as session:
            for row in stream(session, many()):
                if row["n"] == 1000:
                    raise BrokenPipeError

    with pytest.raises(BrokenPipeError) as caught:
        fail()
    assert caught.tb is not None  # which holds the stream
    assert busy(postgres, postgres_url) == []


def test_two_streams_of_a_session_take_turns(server_store: Store) -> None:
    with server_store.session() as session:
        first, second = stream(session, many()), stream(session, many())
        both = zip(first, second, strict=True)
        assert sum(one["n"] == other["n"] for one, other in both) == MANY


def test_a_stream_sees_what_its_session_saw_first(url: str) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        first = run_trial(recorder, study_id, 1, 5.0)
        with store.session() as session:
            assert len(queries.list_trials(session, study_id)) == 1
            run_trial(recorder, study_id, 2, 5.0)
            assert [row["trial_id"] for row in queries.iter_trials(session)] == [first]
            assert len(queries.list_trials(session, study_id)) == 1


def test_a_stream_may_take_longer_than_other_statements(postgres_url: str) -> None:
    limits = "%20".join(
        f"-c%20{name}%3D300ms"
        for name in ("statement_timeout", "idle_in_transaction_session_timeout")
    )
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options={limits}"
    with open_store(url, create=False, writable=False) as store, store.session() as session:
        rows = stream(session, many())
        next(rows)
        time.sleep(0.5)
        assert sum(1 for _ in rows) == MANY - 1
        assert session.scalar(select(1)) == 1


# Errors


@contextmanager
def failing(store: Store, kind: type[TunerError]) -> Iterator[pytest.ExceptionInfo[TunerError]]:
    """Expect an error that names the database, after which the store can be used."""
    with pytest.raises(kind) as caught:
        yield caught
    assert str(store.location) in caught.value.message
    assert "\n" not in caught.value.message
    with store.session() as session:
        assert len(list(stream(session, many(10)))) == 10


def test_an_error_on_the_way_is_that_of_a_query(server_store: Store) -> None:
    query = many(quotient=lambda n: 1 // (n - 5000))
    messages = []
    for read in (fetched_chunks, lambda connection, query: stream(session, query).chunks):
        given = 0
        with failing(server_store, UsageError) as caught, server_store.session() as session:
            for chunk in read(session.connection(), query):
                given += len(chunk)
        assert given >= 5000 - 1 - CHUNK_ROWS
        messages.append(caught.value.message)
    assert messages[0] == messages[1]
    assert "division by zero" in messages[0]


def test_a_query_that_fails_does_so_before_a_row_is_asked_for(server_store: Store) -> None:
    with failing(server_store, DatabaseProblem), server_store.session() as session:
        stream(session, many(name=lambda _n: column("nowhere", Text)))


@pytest.mark.parametrize("how", ["by the server", "by the network"])
def test_a_connection_cut_on_the_way_is_told(
    server_store: Store, postgres: PostgresServer, postgres_url: str, how: str
) -> None:
    taken: list[Any] = []

    def cut() -> None:
        if how == "by the server":
            name = make_url(postgres_url).database
            where = f"FROM pg_stat_activity WHERE datname = '{name}'"
            postgres.run(f"SELECT pg_terminate_backend(pid) {where}")
        else:
            with socket.socket(fileno=os.dup(taken[-1].fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)

    with failing(server_store, DatabaseProblem) as caught, server_store.session() as session:
        event.listen(session.get_bind(), "checkout", lambda driver, *_: taken.append(driver))
        for row in stream(session, many()):
            if row["n"] == 1000:
                cut()
    assert "the connection was lost" in caught.value.message
