"""The controls of a study as a table."""

from __future__ import annotations

from tuner.domain.controls import MAX_SENTINEL_DRIFT
from tuner.domain.controls import RunControls
from tuner.report.shown import MISSING
from tuner.report.shown import moment
from tuner.report.shown import number
from tuner.report.study_report import StudyReport
from tuner.report.tables import Cell
from tuner.report.tables import Table


def controls_table(report: StudyReport) -> Table:
    """Return the controls of a study, a row each run and workload."""
    labels = {each.workload: each.label for each in report.workloads}  # each has a sentinel
    return Table(
        "controls",
        "Controls: null kernel, copy and sentinel",
        (
            "shape", "run", "null kernel µs", "copy µs", "copy GB/s", "sentinel µs",
            "measurements", "drift", "mark",
        ),
        tuple(_row(each, labels[each.workload]) for each in report.controls),
        "Measured beside the trials, at start, regularly and at the end of each run. The null "
        "kernel does nothing; the copy moves as many bytes as the problem must; the sentinel is "
        "one config of the study, and its drift is how far its medians lie apart. A run that "
        f"drifts by more than {MAX_SENTINEL_DRIFT:.0%} is marked: its times compare less surely.",
    )  # fmt: skip


def _row(run: RunControls, label: str) -> tuple[Cell, ...]:
    sentinel_us = tuple(dict.fromkeys((run.sentinel_low_us, run.sentinel_high_us)))
    drift = MISSING if run.drift is None else f"{run.drift:.2%}"
    exact_drift = "" if run.drift is None else f"{100 * run.drift!r} %"
    mark = "drifted" if run.is_marked else ""
    return (
        Cell(label),
        Cell(moment(run.run_started_at)),
        _figures(run.null_us),
        _figures(run.copy_us),
        _figures(run.copy_gb_s),
        _figures(*sentinel_us),
        Cell(str(run.sentinel_count), "number"),
        Cell(drift, "number", strong=run.is_marked, exact=exact_drift),
        Cell("; ".join(filter(None, (mark, *run.failures))) or MISSING),
    )


def _figures(*values: float | None) -> Cell:
    """Return a figure, or the two ends of a range."""
    texts = dict.fromkeys(map(number, values))
    exact = "" if None in values else " to ".join(map(repr, values))
    return Cell(" to ".join(texts), "number", exact=exact)
