"""Reads the rows of queries that may have millions: this alone decides how.

They are read in chunks as they are asked for, of the snapshot that the session sees.
"""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import closing
from contextlib import contextmanager
from contextlib import ExitStack
from itertools import chain
from itertools import islice
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import Select
from sqlalchemy.orm import Session

from tuner.domain.identity import Plain
from tuner.domain.row_stream import RowStream
from tuner.store import server

# 1000 at a time took 1.4 times as long a row, written as CSV: 22.4 us instead of 16.3 (10^6 trials
# of 40 columns in SQLite, 2-core x86-64, medians of 9 turns, 2026-12-02).
CHUNK_ROWS = 128

_OPEN = "tuner_streams"


@contextmanager
def streams_of(session: Session) -> Iterator[None]:
    """Let a session have streams; those that were not read to their end are ended with it."""
    with ExitStack() as opened:
        session.info[_OPEN] = opened
        yield


def stream(session: Session, query: Select[*tuple[Any, ...]]) -> RowStream:
    """Return the rows of a query whose columns are whole numbers, floats, booleans and texts.

    Past the ORM, which would take longer for each row than to read it. The first chunk is read
    at once, so that a query that fails does so here.
    """
    connection = session.connection()
    names = tuple(column.name for column in query.selected_columns)
    if connection.dialect.name == "postgresql":
        chunks = server.streamed_chunks(connection, query, CHUNK_ROWS)
    else:
        chunks = fetched_chunks(connection, query)
    opened: ExitStack = session.info[_OPEN]
    opened.enter_context(closing(chunks))
    first = list(islice(chunks, 1))
    return RowStream(names, chain(first, chunks))


def fetched_chunks(
    connection: Connection, query: Select[*tuple[Any, ...]]
) -> Generator[Sequence[Sequence[Plain]]]:
    """Yield the rows of a query as SQLAlchemy gives them."""
    options = {"yield_per": CHUNK_ROWS}
    yield from connection.execute(query, execution_options=options).partitions()
