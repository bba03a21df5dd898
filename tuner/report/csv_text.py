"""CSV as this project writes it: UTF-8, a header, full-precision numbers, no formulas."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from itertools import chain
from itertools import islice
from typing import TextIO

from tuner.domain.identity import canonical_json
from tuner.domain.identity import Plain
from tuner.domain.row_stream import RowStream

# A spreadsheet runs a cell that starts with one of these as a formula (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_SPECIAL = re.compile(r'[",\r\n]')
_BATCH_ROWS = 128
_BATCHES_A_PIECE = 8
_MAX_TEXTS = 10_000


def write_csv(rows: Iterable[Mapping[str, Plain]], columns: Sequence[str], target: TextIO) -> int:
    """Write rows in the order of ``columns`` and return how many there were.

    Numbers are written so that they read back bit-equal; None is an empty cell, a list or an
    object is JSON; a text that a spreadsheet would run as a formula gets a leading apostrophe.
    Numbers never do.
    """
    count = -1  # the header is no row
    for lines in _lines(rows, columns):
        target.writelines(lines)
        count += len(lines)
    return count


def csv_chunks(rows: Iterable[Mapping[str, Plain]], columns: Sequence[str]) -> Iterator[str]:
    """Yield what ``write_csv`` writes, in pieces of about a thousand rows."""
    batches = _lines(rows, columns)
    while several := list(islice(batches, _BATCHES_A_PIECE)):
        yield "".join(chain.from_iterable(several))


def _lines(rows: Iterable[Mapping[str, Plain]], columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the header, then the lines of about a hundred rows at a time.

    Column by column, and not by the csv module, which looks at each character by itself. A test
    holds that its reader reads the same cells back.
    """
    texts = _Texts()
    yield [_line([texts[name] for name in columns])]
    for batch in _batches(rows, columns):
        cells = [_column(values, texts) for values in zip(*batch, strict=True)]
        yield [_line(line) for line in zip(*cells, strict=True)]


def _batches(
    rows: Iterable[Mapping[str, Plain]], columns: Sequence[str]
) -> Iterator[Sequence[Sequence[Plain]]]:
    """Yield the values of about a hundred rows at a time."""
    if isinstance(rows, RowStream) and rows.columns == tuple(columns):
        yield from rows.chunks
        return
    left = iter(rows)
    while batch := list(islice(left, _BATCH_ROWS)):
        yield [tuple(map(row.get, columns)) for row in batch]


def _column(values: Sequence[Plain], texts: _Texts) -> list[str]:
    kinds = set(map(type, values))
    if kinds <= {str, type(None)}:
        return [texts[value] for value in values]
    if kinds <= {float, int, type(None)}:
        return ["" if value is None else repr(value) for value in values]
    return [_quoted(cell(value)) for value in values]


class _Texts(dict[str | None, str]):
    """Cells by their texts: most texts of an export are those of the rows before."""

    def __missing__(self, text: str | None) -> str:
        if len(self) >= _MAX_TEXTS:
            self.clear()
        found = self[text] = _quoted(cell(text))
        return found


def _line(cells: Sequence[str]) -> str:
    # A line with nothing on it is no row to a reader.
    return (",".join(cells) or '""') + "\n"


def _quoted(text: str) -> str:
    """Return a cell in quotes where a reader would take a part of it for the end of the cell."""
    if _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def cell(value: Plain) -> str:
    """Return the text of one cell: JSON where it is a list or an object."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict | list | tuple):
        return canonical_json(value)
    text = str(value)
    return "'" + text if text.startswith(_FORMULA_STARTS) else text
