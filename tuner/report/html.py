"""A study's report as one HTML file that needs no network and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from tuner.report.chart_style import template
from tuner.report.charts import all_charts
from tuner.report.charts import ChartGroup
from tuner.report.controls_table import controls_table
from tuner.report.markdown import warnings_of
from tuner.report.study_report import StudyReport
from tuner.report.tables import best_table
from tuner.report.tables import comparison_table
from tuner.report.tables import environment_table
from tuner.report.tables import failure_table
from tuner.report.tables import study_facts

TEMPLATES = Path(__file__).resolve().parent / "templates"


def html_page(report: StudyReport, groups: Sequence[ChartGroup]) -> str:
    """Return the page: head, tables and charts, with Plotly inlined once.

    Stored text reaches the page escaped by the template, or as JSON that can't end its element.
    Scripts are allowed by their hash alone, so that text which got through would not run either.
    """
    from jinja2 import Environment
    from jinja2 import FileSystemLoader
    from jinja2 import StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = []
    if groups:
        plotly = files("plotly").joinpath("package_data/plotly.min.js").read_text("utf-8")
        scripts = [plotly, (TEMPLATES / "report.js").read_text("utf-8")]
    return environment.get_template("report.html.j2").render(
        study=report.study,
        facts=study_facts(report),
        warnings=warnings_of(report),
        tables=[
            comparison_table(report),
            best_table(report),
            failure_table(report),
            controls_table(report),
        ],
        environment=environment_table(report),
        groups=groups,
        policy=_policy(scripts),
        style=(TEMPLATES / "report.css").read_text("utf-8"),
        charts_json=_json_in_html(_charts(groups)),
        scripts=scripts,
        made=report.created_at.isoformat(timespec="seconds"),
        version=report.program_version,
        revision=report.revision,
    )


def _charts(groups: Sequence[ChartGroup]) -> dict[str, Any]:
    return {
        "figures": {chart.name: chart.figure for chart in all_charts(groups)},
        "templates": {"light": template(dark=False), "dark": template(dark=True)},
    }


def _policy(scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy: these scripts, inline styles, nothing from elsewhere."""
    sources = " ".join(_script_source(each) for each in scripts) or "'none'"
    return (
        # Plotly sets styles at run time, and saves pictures through data: and blob: URLs.
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _script_source(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _json_in_html(value: Mapping[str, Any]) -> str:
    """Return strict JSON in which nothing can end a script element or begin a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
