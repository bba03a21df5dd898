"""Rows from the text that PostgreSQL's COPY TO writes (its manual: "COPY", "Text Format").

A line for each row, its cells behind each other with tabs between; what could be mistaken for
their ends is written as a backslash and a letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from tuner.domain.identity import Plain

_NULL = r"\N"
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}


def parse_rows(text: str, kinds: Sequence[type]) -> list[tuple[Plain, ...]]:
    """Return the rows of some whole lines, one or more.

    Column by column: most columns hold no NULL, or nothing else, and most blocks no escapes.
    Numbers are those of the database to the last bit: the server writes as many digits as that
    takes.

    Args:
        text: The lines, each with its line feed.
        kinds: bool, int, float or str, for each column.

    Raises:
        ValueError: It is no such text.
    """
    lines = text.split("\n")
    lines.pop()  # nothing is behind the last line feed
    columns = list(zip(*[line.split("\t") for line in lines], strict=True))
    nulls = [column.count(_NULL) for column in columns]
    readers = _READERS if text.count("\\") == sum(nulls) else _READERS_WITH_ESCAPES
    values = [
        _values(cells, readers[kind], empty)
        for cells, kind, empty in zip(columns, kinds, nulls, strict=True)
    ]
    return list(zip(*values, strict=True))


def _values(
    cells: Sequence[str], reader: Callable[[str], Plain] | None, nulls: int
) -> Sequence[Plain]:
    """Return the values of a column; without a reader they are the cells themselves."""
    if nulls == len(cells):
        return [None] * nulls
    if reader is None:
        return [None if cell == _NULL else cell for cell in cells] if nulls else cells
    if nulls:
        return [None if cell == _NULL else reader(cell) for cell in cells]
    return list(map(reader, cells))


def _unescaped(cell: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT[found[1]], cell) if "\\" in cell else cell


_READERS: Mapping[type, Callable[[str], Plain] | None] = {
    bool: "t".__eq__,
    int: int,
    float: float,
    str: None,
}
_READERS_WITH_ESCAPES = {**_READERS, str: _unescaped}
