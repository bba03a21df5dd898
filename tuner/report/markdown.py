"""A study's report as Markdown for a pull request (GitHub's dialect)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from tuner.report.controls import marks
from tuner.report.controls_table import controls_table
from tuner.report.study_report import StudyReport
from tuner.report.tables import best_table
from tuner.report.tables import Cell
from tuner.report.tables import comparison_table
from tuner.report.tables import failure_table
from tuner.report.tables import study_facts
from tuner.report.tables import Table

CPU_NOTE = "Measured on a CPU: these times say nothing about a GPU."
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")


def markdown_page(report: StudyReport, images: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return the report: head, tables and, where there are pictures, links to them.

    Args:
        report: The study.
        images: Title and relative path of each picture, by the heading they stand under.
    """
    lines = [f"# Tuning report: {_words(report.study.name)}", ""]
    lines += [f"- {name}: {_words(value)}" for name, value in study_facts(report).items()]
    lines.append("")
    for warning in warnings_of(report):
        lines += [f"> {_words(warning)}", ""]
    for table in (
        comparison_table(report),
        best_table(report),
        failure_table(report),
        controls_table(report),
    ):
        lines += _table(table)
    for heading, pictures in images.items():
        lines += [f"## {_words(heading)}", ""]
        lines += [f"![{_words(f'{heading}: {title}')}]({path})" for title, path in pictures]
        lines.append("")
    made = report.created_at.isoformat(timespec="seconds")
    lines.append(f"Made by tuner {report.program_version} at {made}.")
    return "\n".join(lines) + "\n"


def warnings_of(report: StudyReport) -> list[str]:
    """Return what a reader must know before the figures."""
    return [*([CPU_NOTE] if report.is_cpu else []), *marks(report.controls)]


def code(text: str) -> str:
    """Return stored text as a code span, in which nothing is markup, a link or a mention."""
    line = " ".join(text.split())
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    # A bar ends the cell even within a code span, unless it is escaped.
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", r"\|")


def _table(table: Table) -> list[str]:
    lines = [f"## {_words(table.title)}", ""]
    if not table.rows:
        return [*lines, "None.", ""]
    numeric = [
        all(row[index].kind == "number" for row in table.rows)
        for index in range(len(table.columns))
    ]
    lines.append(_row(_words(each) for each in table.columns))
    lines.append(_row("---:" if each else "---" for each in numeric))
    lines += [_row(_cell(each) for each in row) for row in table.rows]
    return [*lines, "", *([_words(table.note), ""] if table.note else [])]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    text = code(cell.text) if cell.kind == "code" else _words(cell.text)
    return f"**{text}**" if cell.strong else text


def _words(text: str) -> str:
    """Escape what Markdown and HTML would read as markup."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", line)
