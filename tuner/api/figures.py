"""The charts of a study as JSON for Plotly, the same figures that its report holds."""

from __future__ import annotations

from tuner.api.common import open_database
from tuner.api.viewing import read_report
from tuner.domain.identity import Plain
from tuner.errors import UsageError
from tuner.settings import Settings

MAX_COPY_GB_S = 1e9


def check_copy(copy_gb_s: float | None) -> None:
    """Check what a plain copy is said to reach.

    Raises:
        UsageError: Nothing reaches that.
    """
    if copy_gb_s is not None and not 0.0 < copy_gb_s < MAX_COPY_GB_S:
        raise UsageError(f"a copy can't reach {copy_gb_s} GB/s", hint="give what was measured")


def study_figures(
    study: str | int, settings: Settings, *, copy_gb_s: float | None = None
) -> dict[str, Plain]:
    """Return the charts of a study in groups, and Plotly's templates for light and dark pages.

    Args:
        study: Name or id.
        settings: Say which database.
        copy_gb_s: What a plain copy reaches on the device, in 10^9 bytes a second, for a line
            in the chart of bandwidths; None draws none.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: The copy is no such figure, or the study too large for one page.
    """
    from tuner.report.chart_style import template
    from tuner.report.charts import study_charts

    check_copy(copy_gb_s)
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        report = read_report(session, study)
    groups = study_charts(report, copy_gb_s=copy_gb_s)
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
