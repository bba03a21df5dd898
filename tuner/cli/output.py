"""The only module that prints: data to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO
from typing import TYPE_CHECKING

from tuner.cli.options import Format
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.report.csv_text import write_csv
from tuner.report.export import replacing
from tuner.report.json_text import json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Mapping[str, Plain]


def say(text: str) -> None:
    """Write a line for the reader to stderr."""
    print(text, file=sys.stderr)


def stderr_console() -> Console:
    """Return a console on stderr; it obeys NO_COLOR and draws plainly where it is no terminal."""
    from rich.console import Console

    return Console(stderr=True)


def print_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    *,
    schema: str,
    format_name: Format,
    output: Path | None = None,
    title: str = "",
) -> None:
    """Print rows as a table, as JSON ``{"schema": ..., "rows": [...]}`` or as CSV."""
    if format_name is Format.JSON:
        selected = [{name: row.get(name) for name in columns} for row in rows]
        print_object({"schema": schema, "rows": selected}, output=output)
        return
    with _target(output) as file:
        if format_name is Format.CSV:
            write_csv(rows, columns, file)
        else:
            _console(file).print(_table(rows, columns, title))


def print_object(fields: Mapping[str, Plain], *, output: Path | None = None) -> None:
    """Print one JSON object with a ``schema`` key; NaN is an error, not output."""
    with _target(output) as file:
        print(json_text(fields), end="", file=file)


def print_text(text: str, *, output: Path | None = None) -> None:
    """Print text that is data."""
    with _target(output) as file:
        print(text, file=file)


class _target:  # noqa: N801 - used as a function
    """Give stdout, or a file that appears whole or not at all."""

    def __init__(self, output: Path | None) -> None:
        self._replacing = None if output is None else replacing(output)
        self._file: TextIO = sys.stdout

    def __enter__(self) -> TextIO:
        if self._replacing is not None:
            self._file = self._replacing.__enter__().open("w", encoding="utf-8", newline="")
        return self._file

    def __exit__(self, *error: object) -> None:
        if self._replacing is not None:
            self._file.close()
            self._replacing.__exit__(*error)  # type: ignore[arg-type]


def _console(file: TextIO) -> Console:
    from rich.console import Console

    # A table that goes into a file or a pipe is not folded to a terminal's width.
    width = None if file.isatty() else 10_000
    return Console(file=file, width=width)


def _table(rows: Sequence[Row], columns: Sequence[str], title: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    numeric = {name for name in columns if _is_numeric(rows, name)}
    for name in columns:
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(row.get(name))) for name in columns))
    return table


def _is_numeric(rows: Sequence[Row], name: str) -> bool:
    values = [row.get(name) for row in rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def shown(value: Plain) -> str:
    """Return a value for people: four significant digits, a dash for what is not known."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"
    if isinstance(value, dict):
        return config_text(value) if value else "-"
    if isinstance(value, list | tuple):
        return ", ".join(shown(each) for each in value)
    return str(value)
