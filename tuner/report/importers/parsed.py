"""What every reader returns, and the checks of single values that they share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from tuner.domain.evidence import EvidenceRecord
from tuner.domain.identity import Plain
from tuner.domain.identity import Scalar
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.errors import UsageError

MAX_TEXT = 1000
MAX_DEPTH = 16
MAX_INTEGER = 2**63 - 1

_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_SHOWN_CHARACTERS = 60


class BadEntry(ValueError):
    """A line or entry can't be a record; the message says why, in words for the user."""


@dataclass(frozen=True, slots=True)
class LineProblem:
    """What is wrong with a line.

    Attributes:
        line: From 1; in a JSON file, the number of the entry.
        what: One line for the user.
    """

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What a file holds.

    Attributes:
        records: In the order of the file.
        problems: Lines that are no records, by line. A file that is no such file at all has
            one problem and no records.
        name: Of the set, where the file states it.
        counts: What the line numbers count: ``line`` or ``entry``.
    """

    records: tuple[EvidenceRecord, ...]
    problems: tuple[LineProblem, ...]
    name: str | None = None
    counts: str = "line"


def text_of(content: bytes) -> str:
    """Decode a file.

    Raises:
        BadLine: It is not UTF-8; with the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadLine(content.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from error


class BadLine(ValueError):
    """A line makes the rest of the file unreadable."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.problem = LineProblem(line, what)


def shown(value: object) -> str:
    """Return a value for a message: one line of ASCII, not too long."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def checked_text(name: str, value: str) -> str:
    """Return a text that is one printable line.

    Raises:
        BadEntry: It is not, or is too long.
    """
    if len(value) > MAX_TEXT:
        raise BadEntry(f"{name} has {len(value)} characters; at most {MAX_TEXT} are taken")
    if not value.isprintable() or "\N{REPLACEMENT CHARACTER}" in value:
        raise BadEntry(f"{name} is {shown(value)}, which is not plain text")
    return value


def whole_number(name: str, text: str) -> int:
    """Return a whole number of at most 64 bits.

    Raises:
        BadEntry: It is none.
    """
    value = int(text) if _WHOLE.fullmatch(text) else None
    if value is None or abs(value) > MAX_INTEGER:
        raise BadEntry(f"{name} is {shown(text)}, not a whole number of 64 bits")
    return value


def real_number(name: str, text: str) -> float:
    """Return a finite number.

    Raises:
        BadEntry: It is none.
    """
    value = float(text) if len(text) <= MAX_TEXT and _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise BadEntry(f"{name} is {shown(text)}, not a finite number")
    return value


def typed(text: str) -> Scalar:
    """Return a text as the whole number or finite number it writes, or as it is."""
    if _WHOLE.fullmatch(text) and abs(int(text)) <= MAX_INTEGER:
        return int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def checked_shape(text: str) -> str:
    """Return a shape in its usual spelling.

    Raises:
        BadEntry: It is none.
    """
    try:
        return shape_text(parse_shape(text))
    except UsageError as error:
        raise BadEntry(error.message) from error


def day_of(text: str) -> str | None:
    """Return the day of an ISO 8601 time, or None where the text does not start with one."""
    match = _DAY.match(text)
    try:
        return date.fromisoformat(match[0]).isoformat() if match else None
    except ValueError:  # such as 30 February
        return None


def checked_config(values: Mapping[str, Plain]) -> dict[str, Scalar]:
    """Return a config from JSON values.

    Raises:
        BadEntry: A value is no bool, finite number of 64 bits or short text.
    """
    config: dict[str, Scalar] = {}
    for name, value in values.items():
        checked_text("a parameter's name", name)
        if isinstance(value, str):
            config[name] = checked_text(name, value)
        elif isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_INTEGER):
            config[name] = value
        elif isinstance(value, float) and math.isfinite(value):
            config[name] = float(value)
        else:
            raise BadEntry(f"{name} is {shown(value)}, which can't be a parameter's value")
    return config


def require_shallow(value: Plain) -> None:
    """Check that JSON values are not nested deeper than any result needs.

    Raises:
        BadEntry: They are.
    """
    layer: Iterable[Plain] = [value]
    for _ in range(MAX_DEPTH):
        layer = [part for each in layer for part in _parts(each)]
        if not layer:
            return
    raise BadEntry(f"nested deeper than {MAX_DEPTH} levels")


def _parts(value: Plain) -> Iterable[Plain]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
