"""Writing the report of a study: CSV tables, Markdown, one HTML file, and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from pathlib import Path
from typing import Literal
from typing import TYPE_CHECKING
from typing import TypeAlias

from tuner import __version__
from tuner.api.common import open_database
from tuner.api.viewing import check_size
from tuner.domain.identity import Plain
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.report.charts import ChartGroup
    from tuner.report.study_report import StudyReport

ReportFormat: TypeAlias = Literal["html", "md", "csv"]
ImageChoice: TypeAlias = Literal["png", "svg", "none"]
ALL_FORMATS: tuple[ReportFormat, ...] = ("html", "md", "csv")
SIDECAR_SCHEMA = "tuner.report.csv/1"


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """What a report left in its folder.

    Attributes:
        folder: Where the files are.
        files: Their names within it, in order.
        problem: Why pictures that were asked for are missing, or "".
    """

    folder: Path
    files: tuple[str, ...]
    problem: str = ""


def write_report(
    study: str,
    output: Path | None = None,
    *,
    formats: Sequence[ReportFormat] = ALL_FORMATS,
    images: ImageChoice = "none",
    trials: Sequence[int] = (),
    settings: Settings | None = None,
) -> ReportFiles:
    """Write the report of a study into a folder.

    Args:
        study: Name or id of the study.
        output: The folder; None makes ``report-STUDY`` here. An older report of the same study
            is replaced, anything else is left alone.
        formats: ``html``, ``md`` and ``csv``, any of them.
        images: Whether each chart is written as a picture too. Needs Chrome or Chromium;
            without it the rest is written and the answer says why pictures are missing.
        trials: Ids of trials whose samples are drawn beside those of the winners.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: There is no such study or trial, or no database.
        UsageError: The folder can't be written or holds something else. It is as it was then.
        DatabaseProblem: The database can't be used.
    """
    from tuner.report.bundle import staged
    from tuner.report.study_report import read_study_report
    from tuner.store import queries

    created_at = datetime.now(UTC)
    with open_database(settings or load_settings(), create=False, writable=False) as store:
        revision = store.info().revision
        with store.session() as session:
            found = queries.find_study(session, study)
        folder = output or Path(f"report-{_file_name(found.name)}")
        facts = {"study_id": found.id, "created_at": created_at.isoformat()}
        with staged(folder, found.name, facts) as staging:
            # One snapshot for tables and pages; drawing pictures takes long and is outside it.
            with store.session() as session:
                report = read_study_report(
                    session,
                    queries.find_study(session, found.id),
                    chosen=trials,
                    revision=revision,
                    program_version=__version__,
                    created_at=created_at,
                )
                if "csv" in formats:
                    _write_tables(session, report, staging)
            problem = _write_pages(report, staging, formats, images)
            files = _names(staging)
    return ReportFiles(folder, files, problem)


def report_text(study: str, format_name: Literal["html", "md"], settings: Settings) -> str:
    """Return the report of a study as text, the same that ``tuner report`` writes.

    Args:
        study: Name or id.
        format_name: ``html`` or ``md``.
        settings: Say which database.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: It has too many trials for one page.
        DatabaseProblem: The database can't be used.
    """
    from tuner.report.charts import study_charts
    from tuner.report.study_report import read_study_report
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store:
        revision = store.info().revision
        with store.session() as session:
            found = queries.find_study(session, study)
            check_size(found)
            report = read_study_report(
                session,
                found,
                revision=revision,
                program_version=__version__,
                created_at=datetime.now(UTC),
            )
    return _page(report, format_name, study_charts(report) if format_name == "html" else (), {})


def _write_tables(session: Session, report: StudyReport, folder: Path) -> None:
    from tuner.report.study_report import PROCESS_COLUMNS
    from tuner.report.study_report import process_rows
    from tuner.report.tables import BEST_COLUMNS
    from tuner.report.tables import best_rows
    from tuner.store import queries

    study_id = report.study.id
    tables: dict[str, tuple[Iterable[Mapping[str, Plain]], Sequence[str]]] = {
        "trials": (queries.iter_trials(session, study_id=study_id), queries.TRIAL_COLUMNS),
        "best": (best_rows(report), BEST_COLUMNS),
        "processes": (
            process_rows(queries.iter_samples(session, study_id=study_id)),
            PROCESS_COLUMNS,
        ),
    }
    for name, (rows, columns) in tables.items():
        _write_table(folder / f"{name}.csv", name, rows, columns, report)


def _write_table(
    path: Path,
    name: str,
    rows: Iterable[Mapping[str, Plain]],
    columns: Sequence[str],
    report: StudyReport,
) -> None:
    """Write a CSV file, and beside it what would not belong into its cells."""
    from tuner.report.csv_text import write_csv

    with path.open("w", encoding="utf-8", newline="") as file:
        count = write_csv(rows, columns, file)
    sidecar = {
        "schema": SIDECAR_SCHEMA,
        "file": path.name,
        "table": name,
        "columns": list(columns),
        "rows": count,
        "filter": {"study": report.study.name, "study_id": report.study.id},
        "database_revision": report.revision,
        "created_at": report.created_at.isoformat(),
        "program_version": report.program_version,
    }
    text = json.dumps(sidecar, allow_nan=False, indent=2) + "\n"
    path.with_name(f"{path.name}.json").write_text(text, encoding="utf-8")


def _write_pages(
    report: StudyReport,
    folder: Path,
    formats: Sequence[ReportFormat],
    images: ImageChoice,
) -> str:
    """Write pictures, Markdown and HTML; return why pictures are missing, or ""."""
    from tuner.report.charts import study_charts

    wants_charts = "html" in formats or images != "none"
    groups = study_charts(report) if wants_charts else ()
    problem, links = _write_images(groups, folder, images)
    for name in ("md", "html"):
        if name in formats:
            text = _page(report, name, groups, links)
            (folder / f"report.{name}").write_text(text, encoding="utf-8", newline="\n")
    return problem


def _page(
    report: StudyReport,
    name: str,
    groups: Sequence[ChartGroup],
    links: Mapping[str, Sequence[tuple[str, str]]],
) -> str:
    from tuner.report.html import html_page
    from tuner.report.markdown import markdown_page

    return html_page(report, groups) if name == "html" else markdown_page(report, links)


def _write_images(
    groups: Sequence[ChartGroup], folder: Path, images: ImageChoice
) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    from tuner.report.charts import all_charts
    from tuner.report.images import write_images

    if images == "none" or not groups:
        return "", {}
    charts = folder / "charts"
    charts.mkdir()
    problem = write_images(all_charts(groups), charts, images)
    links = {
        group.title: [
            (chart.title, f"charts/{chart.name}.{images}")
            for chart in group.charts
            if (charts / f"{chart.name}.{images}").exists()
        ]
        for group in groups
    }
    return problem, {title: paths for title, paths in links.items() if paths}


def _names(folder: Path) -> tuple[str, ...]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(folder).as_posix() for path in paths))


def _file_name(name: str) -> str:
    """Return a study's name as part of a file name: nothing in it leads to another folder."""
    safe = "".join(each if each.isalnum() or each in "-_." else "_" for each in name)
    return safe[:100]
