"""Turns what is wrong in a study file into one line: file, line, key, fault and remedy.

``tomllib`` forgets where a key stood, so a small scanner finds it again. It runs before
``tomllib`` too, to refuse nesting and dotted keys so deep that parsing them would not end.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TypeAlias

from pydantic_core import ErrorDetails
from pydantic_core import PydanticCustomError

from tuner.domain.patterns import IN_WORDS
from tuner.errors import UsageError

KeyPath: TypeAlias = tuple[str | int, ...]

MAX_DEPTH = 16
_SHOWN_CHARACTERS = 60

_PIECE = re.compile(
    r"""
      \"{3}(?:[^\\]|\\.)*?(?:\"{3,5}|\Z)                   # multi-line; an endless one ends with
    | '{3}.*?(?:'{3,5}|\Z)                                 # the text, so that time stays linear
    | \"(?:[^\"\\\n]|\\[^\n])*\" | '[^'\n]*'               # strings
    | \#[^\n]* | \n | [\[\]{}=,.] | [^\S\n]+ | [A-Za-z0-9_+:-]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class SpecSource:
    """Text of a study file and what to call it, for messages."""

    origin: str
    text: str = field(repr=False)

    def fault(self, path: KeyPath, what: str, hint: str) -> UsageError:
        """Return the error for a key: ``FILE:LINE: key 'a.b': what``."""
        place = f"{self.origin}:{line_of(self.text, path)}"
        return UsageError(f"{place}: key '{path_text(path)}': {what}", hint=hint)

    def line_fault(self, line: int, what: str, hint: str) -> UsageError:
        """Return the error for a line that is not TOML at all."""
        return UsageError(f"{self.origin}:{line}: {what}", hint=hint)

    def syntax_fault(self, error: ValueError) -> UsageError:
        """Return the error for what ``tomllib`` refused; it puts the position in its message."""
        message = " ".join(str(error).split())
        position = _TOML_POSITION.search(message)
        if position is None:  # a number too long for Python's int()
            return self.line_fault(
                _longest_line(self.text), "a number is too long", "write it shorter"
            )
        line = int(position[1]) if position[1] else self.text.count("\n") + 1
        what = message[: position.start()]
        return self.line_fault(line, f"not valid TOML: {what[:1].lower()}{what[1:]}", TOML_HINT)


TOML_HINT = "see docs/study-files.md; strings need quotes, and each key stands once"


def shown(value: object) -> str:
    """Return a value as TOML or JSON writes it: one line, ASCII, not too long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def path_text(path: KeyPath) -> str:
    """Return ``space.hip-block.BLOCK[0]`` for a key path; odd keys are quoted and cut."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + (part if _BARE.fullmatch(part) else shown(part))
    return text if len(text) <= 2 * _SHOWN_CHARACTERS else text[: 2 * _SHOWN_CHARACTERS] + "..."


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word most like this one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word[:100], names, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"


def line_of(text: str, path: KeyPath) -> int:
    """Return the line (from 1) where a key is set, or that of the nearest table around it.

    Elements of an array are found where the array is written as ``[[tables]]``; of other arrays
    and inline tables the line of the key that holds them is given.
    """
    return _nearest_line(_key_lines(text), path)


def _nearest_line(lines: dict[KeyPath, int], path: KeyPath) -> int:
    candidates = (lines.get(path[:length]) for length in range(len(path), 0, -1))
    return next((line for line in candidates if line is not None), 1)


def check_depth(source: SpecSource) -> None:
    """Refuse brackets or dotted keys deeper than any study needs, in linear time.

    Raises:
        UsageError: There are some.
    """
    depth = dots = 0
    for line, piece in _pieces(source.text):
        if piece in ("[", "{"):
            depth += 1
        elif piece in ("]", "}"):
            depth -= 1
        if piece in ("[", "{", "]", "}", "=", ",", "\n"):
            dots = 0
        elif piece == ".":
            dots += 1
        if max(depth, dots) > MAX_DEPTH:
            raise source.line_fault(line, f"nested deeper than {MAX_DEPTH} levels", TOML_HINT)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    line = 1
    for match in _PIECE.finditer(text):
        piece = match[0]
        yield line, piece
        line += piece.count("\n")


def _longest_line(text: str) -> int:
    lines = text.split("\n")
    return max(range(len(lines)), key=lambda index: len(lines[index])) + 1


def _key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line where each table and each key outside brackets first stands."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    lines: dict[KeyPath, int] = {}
    for line, statement in _statements(text):
        brackets = 2 if statement[:2] == ["[", "["] else 1 if statement[0] == "[" else 0
        end = next((i for i, piece in enumerate(statement) if piece in ("=", "]")), None)
        keys: KeyPath = tuple(_key(piece) for piece in statement[brackets:end] if piece != ".")
        if brackets:
            table = _indexed(keys, counts, is_array=brackets == 2)
            keys = ()
        path = (*table, *keys)
        for length in range(1, len(path) + 1):
            lines.setdefault(path[:length], line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each logical line: its first line's number and its pieces, up to the value."""
    statement: list[str] = []
    first = depth = 0
    for line, piece in _pieces(text):
        if piece == "\n" and depth <= 0:
            if statement:
                yield first, statement
            statement, depth = [], 0
            continue
        if piece in ("[", "{"):
            depth += 1
        elif piece in ("]", "}"):
            depth -= 1
        if piece.strip() and not piece.startswith("#"):
            first = first if statement else line
            statement.append(piece)
    if statement:
        yield first, statement


def _indexed(keys: KeyPath, counts: dict[KeyPath, int], *, is_array: bool) -> KeyPath:
    """Put the current index after each array of tables a header passes through."""
    path: KeyPath = ()
    for position, key in enumerate(keys):
        path = (*path, key)
        if is_array and position == len(keys) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _key(piece: str) -> str:
    if piece.startswith('"'):
        try:
            return str(json.loads(piece))
        except ValueError:  # TOML's \UXXXXXXXX, which JSON does not have
            return piece[1:-1]
    return piece[1:-1] if piece.startswith("'") else piece


def translate(
    source: SpecSource, errors: Sequence[ErrorDetails], known: Mapping[KeyPath, Sequence[str]]
) -> UsageError:
    """Return the first of pydantic's errors, in the order of the file, in a user's words.

    Args:
        source: The file.
        errors: ``ValidationError.errors()``.
        known: The keys of each table that has a fixed set, for suggestions.
    """
    lines = _key_lines(source.text)
    first = min(errors, key=lambda error: _nearest_line(lines, _path(error)))
    what, hint = _words(first, known)
    if len(errors) > 1:
        what += f" (and {len(errors) - 1} more)"
    return source.fault(_path(first), what, hint)


def problem(what: str, hint: str) -> PydanticCustomError:
    """Return an error for a validator to raise, with words for the user that are kept as is."""
    return PydanticCustomError("study", "{what}", {"what": what, "hint": hint})


def _path(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part != "[key]")


def _words(error: ErrorDetails, known: Mapping[KeyPath, Sequence[str]]) -> tuple[str, str]:
    context = error.get("ctx", {})
    value = shown(error["input"])
    path = _path(error)
    match error["type"]:
        case "study":
            return context["what"], context["hint"]
        case "extra_forbidden":
            return "unknown key", nearest(str(path[-1]), known.get(path[:-1], ()))
        case "missing":
            return "is missing", "add it; docs/study-files.md shows a whole file"
        case "literal_error":
            return f"must be {context['expected']}, not {value}", "choose one of these"
        case "string_pattern_mismatch":
            return f"{value} is not allowed", f"use {IN_WORDS[context['pattern']]}"
        case kind if kind in _TYPE_WORDS:
            wanted, hint = _TYPE_WORDS[kind]
            return f"must be {wanted}, not {value}", hint
        case _:
            limit = error["msg"].removeprefix("Input should ").removeprefix("be ")
            return f"must be {limit}, not {value}", "see docs/study-files.md for its range"


_TYPE_WORDS = {
    "int_type": ("a whole number", "write it without quotes and without a decimal point"),
    "float_type": ("a number", "write it without quotes"),
    "string_type": ("a string", "put it in quotes"),
    "list_type": ("an array", "put it in brackets: [1, 2]"),
    "dict_type": ("a table", "write it as [table] or { key = value }"),
    "model_type": ("a table", "write it as [table] or { key = value }"),
    "finite_number": ("a finite number", "nan and inf have no place in a study"),
}
