"""Reads files of results that others measured: bytes in, ``ParsedFile`` out. No database here.

A format is recognised from what a file holds, never from its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping

from tuner.report.importers import kernel_tuner
from tuner.report.importers import result_lines
from tuner.report.importers import tables
from tuner.report.importers.parsed import LineProblem
from tuner.report.importers.parsed import ParsedFile

__all__ = ["MAX_FILE_BYTES", "READERS", "LineProblem", "ParsedFile", "recognise"]

MAX_FILE_BYTES = 32_000_000

READERS: Mapping[str, Callable[[bytes], ParsedFile]] = {
    "log": result_lines.read_log,
    "summary-csv": tables.read_summary,
    "samples-csv": tables.read_samples,
    "profile-csv": tables.read_profile,
    "kernel-tuner-t4": kernel_tuner.read_results,
    "kernel-tuner-cache": kernel_tuner.read_cache,
}

_LOG_LINE = re.compile(rb"^(RESULT|ENV) ", re.MULTILINE)


def recognise(content: bytes) -> str | None:
    """Return the name of the format in ``READERS`` that a file is in, or None."""
    stripped = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if stripped.startswith(b"{"):
        if b'"tune_params_keys"' in content:
            return "kernel-tuner-cache"
        return "kernel-tuner-t4" if b'"results"' in content else None
    header = stripped.partition(b"\n")[0].decode("utf-8", "replace").strip().split(",")
    return tables.table_kind(header) or ("log" if _LOG_LINE.search(content) else None)
