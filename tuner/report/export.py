"""Writes exports to a file or stream: CSV and JSON as they come, Parquet where pyarrow is there."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tuner.domain.identity import Plain
from tuner.errors import MissingDependency
from tuner.errors import UsageError
from tuner.report.csv_text import write_csv
from tuner.report.frames import to_frame

Rows = Iterable[Mapping[str, Plain]]


def export_rows(
    rows: Rows, columns: Sequence[str], *, what: str, format_name: str, output: Path | None
) -> None:
    """Write rows to a file, or to standard output where ``output`` is None.

    A file is written beside its place and renamed at the end: an export that is interrupted
    leaves an older file as it was.

    Raises:
        UsageError: The target can't be written, or Parquet is to go to standard output.
        MissingDependency: Parquet is asked for and pyarrow is not installed.
    """
    if format_name == "parquet":
        if output is None:
            raise UsageError("Parquet is not text", hint="give --output FILE.parquet")
        with replacing(output) as temporary:
            _write_parquet(rows, columns, temporary)
        return
    write = _text_writer(format_name)
    if output is None:
        write(rows, columns, what, sys.stdout)
        return
    with replacing(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        write(rows, columns, what, file)


def write_lines(lines: Iterable[str], output: Path | None) -> None:
    """Write lines to a file that appears whole or not at all, or to standard output.

    Raises:
        UsageError: The target can't be written.
    """
    if output is None:
        sys.stdout.writelines(lines)
        return
    with replacing(output) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary file that takes the target's place when the block ends well.

    Raises:
        UsageError: The target's folder can't be written, or the target is a folder or a link.
    """
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise UsageError(f"{target} is not a plain file", hint="give another --output")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
    except OSError as error:
        raise UsageError(f"can't write to {target.parent}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError as error:
        raise UsageError(f"can't write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _text_writer(format_name: str) -> Callable[[Rows, Sequence[str], str, TextIO], None]:
    if format_name == "csv":
        return lambda rows, columns, _what, file: _ignore(write_csv(rows, columns, file))
    if format_name == "json":
        return _write_json
    raise UsageError(f"unknown export format {format_name!r}", hint="csv, json or parquet")


def _ignore(_count: int) -> None:
    return None


def _write_json(rows: Rows, columns: Sequence[str], what: str, file: TextIO) -> None:
    """Write one JSON object with the rows, a row a line, without holding them all."""
    file.write(f'{{"schema":"tuner.export.{what}/1","rows":[')
    for number, row in enumerate(rows):
        file.write(",\n" if number else "\n")
        file.write(json.dumps({name: row.get(name) for name in columns}, allow_nan=False))
    file.write("\n]}\n")


def _write_parquet(rows: Rows, columns: Sequence[str], path: Path) -> None:
    try:
        import pyarrow  # noqa: F401 - pandas says less clearly what is missing
    except ImportError as error:
        raise MissingDependency(
            "Parquet needs pyarrow, which is not installed", hint="pip install 'tuner[parquet]'"
        ) from error
    to_frame(rows, columns).to_parquet(path, index=False)
