"""All charts of a study's report, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.controls import fastest_copy
from tuner.domain.identity import config_text
from tuner.domain.study import BestCandidate
from tuner.report.chart_bars import bar_figure
from tuner.report.chart_bars import bar_panels
from tuner.report.chart_heatmap import config_label
from tuner.report.chart_heatmap import FAILED_MARK
from tuner.report.chart_heatmap import fixed_parameters
from tuner.report.chart_heatmap import heatmap_configs
from tuner.report.chart_heatmap import heatmap_figure
from tuner.report.chart_heatmap import MAX_CONFIGS
from tuner.report.chart_heatmap import MAX_SHAPES
from tuner.report.chart_heatmap import QUICK_MARK
from tuner.report.chart_heatmap import SKIPPED_MARK
from tuner.report.chart_heatmap import slowdown_cells
from tuner.report.chart_heatmap import without_fixed
from tuner.report.chart_samples import samples_figure
from tuner.report.chart_style import Chart
from tuner.report.chart_style import slug
from tuner.report.chart_style import Style
from tuner.report.chart_style import styles
from tuner.report.chart_sweep import points_figure
from tuner.report.chart_sweep import Sweep
from tuner.report.chart_sweep import sweep_figure
from tuner.report.chart_sweep import sweeps
from tuner.report.study_report import sampled
from tuner.report.study_report import StudyReport
from tuner.report.study_report import WorkloadReport
from tuner.report.tables import fastest_of

# A page with more charts of a kind is slow to open and read by no one.
MAX_CHARTS_OF_A_KIND = 40
SWEEP_NAME = "chart-sweep"


@dataclass(frozen=True, slots=True)
class ChartGroup:
    """Charts of one kind.

    Attributes:
        name: Letters and dashes, for links to it.
        title: Heading.
        note: What holds for all of them, and what is left out.
        charts: None where the note says why.
    """

    name: str
    title: str
    note: str
    charts: tuple[Chart, ...]


def study_charts(report: StudyReport) -> tuple[ChartGroup, ...]:
    """Return the groups of charts for which the study has data."""
    style_of = styles(report.implementations)
    groups = (
        _bars(report, style_of),
        _sweeps(report, style_of),
        _heatmaps(report),
        _samples(report, style_of),
    )
    has_results = any(each.confirmed for each in report.workloads)
    return tuple(
        group for group in groups if group.charts or (has_results and group.name == SWEEP_NAME)
    )


def _bars(report: StudyReport, style_of: Mapping[str, Style]) -> ChartGroup:
    shown = [each for each in report.workloads if each.confirmed]
    charts = []
    for index, workload in enumerate(shown[:MAX_CHARTS_OF_A_KIND]):
        results = list(_results(report, workload))
        panels = len(bar_panels(results))
        charts.append(
            Chart(
                f"implementations-{slug(workload.label, index)}",
                workload.label,
                "" if panels < 2 else f"{panels} panels, each with a time axis of its own.",
                bar_figure(workload.label, results, style_of),
                width_px=70 + 122 * len(results) + 60 * panels,
                height_px=420,
            )
        )
    return ChartGroup(
        "chart-implementations",
        "Implementations at each shape",
        "Fastest confirmed config of each implementation; whiskers: range of the process medians. "
        "What takes many times as long has a panel with a scale of its own."
        + _left_out(len(shown)),
        tuple(charts),
    )


def _sweeps(report: StudyReport, style_of: Mapping[str, Style]) -> ChartGroup:
    measured = [each for each in report.workloads if each.confirmed]
    # One dtype and one set of scalars: shapes that occur twice would make a line jump.
    first = {each.workload.shape: each for each in reversed(measured)}
    drawn = sweeps([each.workload.shape for each in measured])
    charts = tuple(
        _sweep_chart(report, each, [first[shape] for shape in each.shapes], index, style_of)
        for index, each in enumerate(drawn[:MAX_CHARTS_OF_A_KIND])
    )
    shown = [first[shape] for each in drawn for shape in each.shapes]
    others = [each.label for each in measured if each not in shown]
    return ChartGroup(
        SWEEP_NAME,
        "Time and bandwidth over the column count",
        _sweep_note(report, others) if charts else _no_sweep_note(measured),
        charts,
    )


def _sweep_chart(
    report: StudyReport,
    sweep: Sweep,
    workloads: Sequence[WorkloadReport],
    index: int,
    style_of: Mapping[str, Style],
) -> Chart:
    results: dict[str, list[BestCandidate]] = {}
    for workload in workloads:
        for each in _results(report, workload):
            results.setdefault(each.implementation, []).append(each)
    ordered = {name: results[name] for name in report.implementations if name in results}
    copies = [copy for each in workloads if (copy := fastest_copy(each.beside))]
    words = []
    if not sweep.is_line:
        words.append(
            "They share neither rows nor element count: their times say nothing beside each other, "
            "so bandwidth alone is drawn, and no line."
        )
    if copies:
        mark = "Dashed" if sweep.is_line else "Grey"
        words.append(f"{mark}: a copy of as many bytes, measured beside the best.")
    draw = sweep_figure if sweep.is_line else points_figure
    name = f"sweep-{index + 1}" if index else "sweep"
    height_px = 760 if sweep.is_line else 420
    figure = draw(ordered, style_of, copies)
    return Chart(name, sweep.title, " ".join(words), figure, 920, height_px)


def _sweep_note(report: StudyReport, others: Sequence[str]) -> str:
    cache = report.protocol.cache if report.protocol else "unknown"
    note = (
        "At equal element count the work is the same, laid out differently; at equal rows it grows "
        f"with the columns. Fastest confirmed config of each implementation; {cache} cache"
    )
    note += ", so that bandwidth can exceed what the memory gives." if cache == "hot" else "."
    if others:
        note += f" Not drawn, as no other shape can stand beside it: {', '.join(others)}."
    return note


def _no_sweep_note(measured: Sequence[WorkloadReport]) -> str:
    columns = {each.workload.shape[-1] for each in measured if each.workload.shape}
    listed = ", ".join(str(each) for each in columns)
    return f"Not drawn: something is confirmed for one column count only ({listed})."


def _heatmaps(report: StudyReport) -> ChartGroup:
    workloads = report.workloads[:MAX_SHAPES]
    shapes = [each.label for each in workloads]
    charts = []
    for index, implementation in enumerate(report.implementations):
        cells = slowdown_cells(workloads, implementation)
        fixed = fixed_parameters(cells)
        cells = without_fixed(cells)
        configs = heatmap_configs(cells)
        if not configs:
            continue
        ran = {config_text(cell.config) for cell in cells if cell.slowdown is not None}
        dropped = len(ran) - len(configs)
        widest = max(len(config_label(config)) for config in configs)
        charts.append(
            Chart(
                f"slowdown-{slug(implementation, index)}",
                implementation,
                _heatmap_caption(fixed, dropped),
                heatmap_figure(implementation, cells, shapes),
                width_px=max(560, 190 + 8 * widest + 56 * len(shapes)),
                height_px=max(360, 190 + 24 * len(configs)),
            )
        )
    return ChartGroup(
        "chart-slowdown",
        "Configs by shape: time against the best of the shape",
        f"1 is the shape's best over all implementations. {QUICK_MARK} quick stage only, not "
        f"confirmed, so it can fall below 1 by noise; {SKIPPED_MARK} refused by a constraint; "
        f"{FAILED_MARK} failed. Configs that ran at no shape are left out, at most {MAX_CONFIGS} "
        f"are drawn." + _left_out(len(report.workloads), MAX_SHAPES),
        tuple(charts[:MAX_CHARTS_OF_A_KIND]),
    )


def _heatmap_caption(fixed: Sequence[str], dropped: int) -> str:
    words = []
    if fixed:
        words.append(f"{', '.join(fixed)} follows from the shape and is not part of the names.")
    if dropped:
        words.append(f"{dropped} configs that are slow at every shape are left out.")
    return " ".join(words)


def _samples(report: StudyReport, style_of: Mapping[str, Style]) -> ChartGroup:
    labels = {each.workload: each.label for each in report.workloads}
    winners = [each.answer.best for each in report.workloads if each.answer]
    trials = [
        *report.chosen,
        *(sampled(each) for each in winners[:MAX_CHARTS_OF_A_KIND]),
    ]
    unique = list({each.trial_id: each for each in trials}.values())
    charts = tuple(
        Chart(
            f"samples-{slug(labels[each.workload], index)}",
            f"{labels[each.workload]}: {each.implementation} {config_text(each.config)}",
            f"Trial {each.trial_id}" + ("." if each.stage == "confirm" else ", quick stage only."),
            samples_figure(each, labels[each.workload], style_of[each.implementation]),
            width_px=720,
            height_px=320,
        )
        for index, each in enumerate(unique)
    )
    return ChartGroup(
        "chart-samples",
        "Samples in the order taken",
        "Winners, and trials asked for. Dashed: median of the process. The time axis does not "
        "start at 0, so that small drifts show; time passed between the processes."
        + _left_out(len(winners)),
        charts,
    )


def _results(report: StudyReport, workload: WorkloadReport) -> Iterator[BestCandidate]:
    for implementation in report.implementations:
        found = fastest_of(workload, implementation)
        if found is not None:
            yield found


def _left_out(count: int, limit: int = MAX_CHARTS_OF_A_KIND) -> str:
    return f" The first {limit} of {count} shapes are drawn." if count > limit else ""


def all_charts(groups: Sequence[ChartGroup]) -> tuple[Chart, ...]:
    """Return the charts of all groups."""
    return tuple(chart for group in groups for chart in group.charts)
