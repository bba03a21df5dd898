"""Rows on their way out of the database: one by one by name, or many at a time in order."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from itertools import chain

from tuner.domain.identity import Plain


class RowStream:
    """An iterator of rows as dictionaries, made of chunks of rows in the order of its columns.

    Whoever writes all columns in that order takes the chunks, and needs no dictionary for each
    row. Take the chunks or the rows, not both.

    Attributes:
        columns: Names of the columns.
        chunks: Those of which no row was read yet.
    """

    def __init__(
        self, columns: tuple[str, ...], chunks: Iterable[Sequence[Sequence[Plain]]]
    ) -> None:
        self.columns = columns
        self.chunks = iter(chunks)
        self._rows: Iterator[Sequence[Plain]] = chain.from_iterable(self.chunks)

    def __iter__(self) -> Iterator[dict[str, Plain]]:
        return self

    def __next__(self) -> dict[str, Plain]:
        return dict(zip(self.columns, next(self._rows), strict=True))
