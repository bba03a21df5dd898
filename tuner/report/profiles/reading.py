"""Recognises a profiler's file from its content and reads it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tuner.domain.identity import bytes_hash
from tuner.domain.profile import Trace
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.profiles import ncu
from tuner.report.profiles import rocprofv3
from tuner.report.profiles.fields import Row

MAX_FILE_BYTES = 32_000_000
MAX_COLUMNS = 4096
_HINT = "give the kernel trace of rocprofv3, or the output of `ncu --csv --page raw`"


def read_trace_file(path: Path) -> tuple[Trace, str]:
    """Read a file of any known profiler; return it with the SHA-256 of its bytes.

    Raises:
        NotFound: There is no such file.
        UsageError: It can't be read, is no profiler's file, or is malformed; names the line.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES} bytes", hint=_HINT)
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"no file {path}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)[:200]!r} can't be read: {error}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text in UTF-8", hint=_HINT) from error
    return parse_trace(text, path.name), bytes_hash(content)


def parse_trace(text: str, name: str) -> Trace:
    """Read the text of a profiler's file.

    Args:
        text: Content of the file.
        name: Its name, for messages.

    Raises:
        UsageError: It is no profiler's file, holds no dispatch, or is malformed.
    """
    rows = _rows(text, name)
    if not rows:
        raise UsageError(f"{name} holds no dispatch of a known profiler", hint=_HINT)
    is_rocprof = rows[0].cells.keys() >= rocprofv3.NEEDED
    trace = rocprofv3.parse(rows) if is_rocprof else ncu.parse(rows)
    if not trace.dispatches:
        raise UsageError(f"{name} holds no dispatch of a kernel", hint=_HINT)
    return trace


def _rows(text: str, name: str) -> list[Row]:
    """Return the rows under each header; what stands before the first one is not the table's.

    A header may come again (several sections, several processes). Lines of ``ncu`` itself
    (``==PROF==``) and of the profiled program have not the table's number of cells.
    """
    found: list[Row] = []
    header: list[str] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=False)
    try:
        for cells in reader:
            if _is_header(cells):
                _check_header(cells, header, f"{name}:{reader.line_num}")
                header = cells
            elif header and len(cells) == len(header):
                found.append(Row(name, reader.line_num, dict(zip(header, cells, strict=True))))
            elif _is_broken(cells, header):
                raise UsageError(
                    f"{name}:{reader.line_num}: {len(cells)} cells under a header of {len(header)}",
                    hint="nothing of the file was stored",
                )
    except csv.Error as error:
        raise UsageError(f"{name}:{reader.line_num}: not CSV: {error}", hint=_HINT) from error
    return found


def _is_header(cells: list[str]) -> bool:
    names = set(cells)
    return names >= rocprofv3.NEEDED or names >= ncu.NEEDED


def _check_header(cells: list[str], before: list[str], place: str) -> None:
    if len(cells) > MAX_COLUMNS:
        raise UsageError(f"{place}: a header of {len(cells)} columns", hint=_HINT)
    if len(set(cells)) != len(cells):
        twice = next(name for name in cells if cells.count(name) > 1)
        raise UsageError(f"{place}: column {twice[:60]!r} is there twice")
    if before and (set(before) >= rocprofv3.NEEDED) != (set(cells) >= rocprofv3.NEEDED):
        raise UsageError(f"{place}: tables of two profilers in one file")


def _is_broken(cells: list[str], header: list[str]) -> bool:
    """Tell a row cut short from a line that ``ncu`` or the profiled program printed."""
    if not header or not cells:
        return False
    # Nothing but the table is in a file of rocprofv3; rows of ncu begin with a number.
    return set(header) >= rocprofv3.NEEDED or (len(cells) > 1 and cells[0].isdecimal())
