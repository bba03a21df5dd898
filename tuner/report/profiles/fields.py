"""Cells of profiler tables as numbers. Text in, values out; a cell without a value is None."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.domain.profile import Size3
from tuner.errors import UsageError

# Nsight Compute groups digits by the locale's separator: 53,261,312.
_NUMBER = re.compile(r"(\d+|\d{1,3}(,\d{3})+)(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_SIZE3 = re.compile(r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)", re.ASCII)
_ABSENT = frozenset({"", "n/a", "nan", "-nan", "(!) n/a", "none", "-"})
MAX_WHOLE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a profiler's table.

    Attributes:
        file: Name of the file, for messages.
        line: Line of the file, from 1.
        cells: Text by column.
    """

    file: str
    line: int
    cells: Mapping[str, str]

    def text(self, *columns: str) -> str | None:
        """Return the first of these columns that has a value."""
        for column in columns:
            text = self.cells.get(column, "").strip()
            if text.lower() not in _ABSENT:
                return text
        return None

    def number(self, *columns: str) -> float | None:
        """Return a column's number, which is never negative.

        Raises:
            UsageError: The cell holds something else.
        """
        text = self.text(*columns)
        if text is None:
            return None
        value = float(text.replace(",", "")) if _NUMBER.fullmatch(text) else math.inf
        if not math.isfinite(value):
            raise self.error(f"{columns[0]} is {text[:40]!r}, not a number")
        return value

    def whole(self, *columns: str) -> int | None:
        """Return a column's whole number, exactly.

        Raises:
            UsageError: The cell holds something else, or more than 64 bits.
        """
        text = self.text(*columns)
        value = self.number(*columns)
        if text is None or value is None:
            return None
        digits = text.replace(",", "")
        whole = int(digits) if digits.isdecimal() else int(value)
        if whole > MAX_WHOLE or (whole != value and not digits.isdecimal()):
            raise self.error(f"{columns[0]} is {text[:40]!r}, not a whole number")
        return whole

    def size3(self, column: str) -> Size3 | None:
        """Return a column such as ``(256, 1, 1)``.

        Raises:
            UsageError: The cell holds something else, or an axis is 0.
        """
        text = self.text(column)
        if text is None:
            return None
        match = _SIZE3.fullmatch(text)
        if match is None:
            raise self.error(f"{column} is {text[:40]!r}, not a size such as (256, 1, 1)")
        return self._sound(column, (int(match[1]), int(match[2]), int(match[3])))

    def axes(self, prefix: str) -> Size3 | None:
        """Return three columns ``PREFIX_X``, ``PREFIX_Y`` and ``PREFIX_Z``; None without X.

        Raises:
            UsageError: A cell is no whole number, or an axis is 0.
        """
        x, y, z = (self.whole(f"{prefix}_{axis}") for axis in "XYZ")
        if x is None:
            return None
        return self._sound(prefix, (x, 1 if y is None else y, 1 if z is None else z))

    def rest(self, known: frozenset[str]) -> dict[str, str]:
        """Return the cells of all other columns that have a value, as written."""
        found = {}
        for column in self.cells:
            text = None if column in known else self.text(column)
            if text is not None:
                found[column] = text
        return found

    def _sound(self, name: str, size: Size3) -> Size3:
        if min(size) < 1:
            raise self.error(f"{name} is {size}: no axis can be 0")
        return size

    def error(self, message: str) -> UsageError:
        """Return an error that names the line."""
        return UsageError(
            f"{self.file}:{self.line}: {message}", hint="nothing of the file was stored"
        )
