"""The report of a study as text, for those who have no use for a folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from tuner.api.reporting import write_report
from tuner.settings import Settings


def report_text(study: str, format_name: Literal["html", "md"], settings: Settings) -> str:
    """Return the report of a study, the same text that ``tuner report`` writes.

    Args:
        study: Name or id.
        format_name: ``html`` or ``md``.
        settings: Say which database.

    Raises:
        NotFound: There is no such study, or no database.
        DatabaseProblem: The database can't be used.
    """
    with tempfile.TemporaryDirectory(prefix="tuner-report-") as folder:
        written = write_report(
            study, Path(folder) / "report", formats=[format_name], settings=settings
        )
        return (written.folder / f"report.{format_name}").read_text(encoding="utf-8")
