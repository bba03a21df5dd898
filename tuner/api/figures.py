"""The charts of a study as JSON for Plotly, the same figures that its report holds."""

from __future__ import annotations

from tuner.api.common import open_database
from tuner.api.viewing import read_report
from tuner.domain.identity import Plain
from tuner.settings import Settings


def study_figures(study: str | int, settings: Settings) -> dict[str, Plain]:
    """Return the charts of a study in groups, and Plotly's templates for light and dark pages.

    Args:
        study: Name or id.
        settings: Say which database.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: The study is too large for one page.
    """
    from tuner.report.chart_style import template
    from tuner.report.charts import study_charts

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        report = read_report(session, study)
    groups = study_charts(report)
    return {
        "schema": "tuner.figures/1",
        "study_id": report.study.id,
        "groups": [
            {
                "name": group.name,
                "title": group.title,
                "note": group.note,
                "charts": [
                    {
                        "name": chart.name,
                        "title": chart.title,
                        "caption": chart.caption,
                        "width_px": chart.width_px,
                        "height_px": chart.height_px,
                        "figure": chart.figure,
                    }
                    for chart in group.charts
                ],
            }
            for group in groups
        ],
        "templates": {"light": template(dark=False), "dark": template(dark=True)},
    }
