"""Prints a table of a benchmark and puts it into its section of a Markdown page."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import datetime
from datetime import UTC
from pathlib import Path


def machine() -> str:
    """Say on what, and when, a benchmark runs; call it before, for the load of other programs."""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores}-core {platform.machine()}, CPython {platform.python_version()}, "
        f"{datetime.now(UTC):%Y-%m-%d}; load average before the run {os.getloadavg()[0]:.1f}."
    )


def kind_of(database: str) -> str:
    """Name the database system behind a ``--db`` value."""
    return "PostgreSQL" if database.startswith("postgresql") else "SQLite"


def write_section(
    page: str | None,
    title: str,
    lines: Sequence[str],
    header: Sequence[str],
    table: Sequence[Sequence[str]],
) -> None:
    """Print a section, and write it into a page in place of the one with its title.

    Args:
        page: Markdown file; None prints only.
        title: Of the section.
        lines: Paragraphs above the table.
        header: Names of the columns; all but the first two are aligned right.
        table: Cells.
    """
    rule = ["---" if number < 2 else "---:" for number in range(len(header))]
    rows = [" | ".join(cells) for cells in (header, rule, *table)]
    text = "\n".join([f"## {title}", "", *(f"{line}\n" for line in lines)])
    text += "\n".join(["", *(f"| {row} |" for row in rows), ""])
    print(text)
    if page is None:
        return
    path = Path(page)
    old = path.read_text("utf-8") if path.exists() else ""
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    new, count = pattern.subn(lambda _: text + "\n", old)
    path.write_text((new if count else f"{old.rstrip()}\n\n{text}").rstrip() + "\n", "utf-8")
