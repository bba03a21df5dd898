"""CSV as this project writes it: UTF-8, a header, full-precision numbers, no formulas."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TextIO

from tuner.domain.identity import Plain

# A spreadsheet runs a cell that starts with one of these as a formula (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_CSV_LINE_END = "\r\n"


def write_csv(rows: Iterable[Mapping[str, Plain]], columns: Sequence[str], target: TextIO) -> int:
    """Write rows in the order of ``columns`` and return how many there were.

    Numbers are written so that they read back bit-equal; None is an empty cell; a text that a
    spreadsheet would run as a formula gets a leading apostrophe. Numbers never do.
    """
    writer = csv.writer(_LineFeeds(target), lineterminator=_CSV_LINE_END)
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow([cell(row.get(name)) for name in columns])
        count += 1
    return count


class _LineFeeds:
    """Ends each row with a line feed.

    The csv module quotes a cell that holds a character of its line end, and no other: told of
    a bare line feed, it would write a carriage return in a text as it is (Python 3.11).
    """

    def __init__(self, target: TextIO) -> None:
        self._target = target

    def write(self, row: str) -> int:
        """Write one row."""
        return self._target.write(row.removesuffix(_CSV_LINE_END) + "\n")


def cell(value: Plain) -> str:
    """Return the text of one cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    return "'" + text if text.startswith(_FORMULA_STARTS) else text
