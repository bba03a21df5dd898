"""What the controls of runs say to a reader: notes beside a time, and a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.domain.controls import MAX_SENTINEL_DRIFT
from tuner.domain.controls import RunControls
from tuner.report.shown import MISSING
from tuner.report.shown import number
from tuner.report.study_report import StudyReport
from tuner.report.tables import Cell
from tuner.report.tables import Table


def mark_text(run: RunControls) -> str:
    """Say why a run is marked and what to do about it; "" where it is not."""
    if not run.is_marked:
        return ""
    return (
        f"{run.drift_text()}, over {MAX_SENTINEL_DRIFT:.0%}: clocks or other work on the device "
        "changed, so times of this run compare less surely; measure again when it is quiet"
    )


def notes_of(runs: Iterable[RunControls], median_us: float | None) -> list[str]:
    """Return what a reader of a time must know of the runs in which it was measured.

    Args:
        runs: Those runs.
        median_us: The time; None where there is none.
    """
    notes = []
    for run in runs:
        notes += [mark_text(run), run.floor_text(median_us) if median_us is not None else ""]
    return [note for note in dict.fromkeys(notes) if note]


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


def marks(runs: Iterable[RunControls]) -> list[str]:
    """Return why runs are marked, the one that drifted most first."""
    marked = sorted((run for run in runs if run.is_marked), key=lambda run: -(run.drift or 0.0))
    return [mark_text(run) for run in marked]


def _row(run: RunControls, label: str) -> tuple[Cell, ...]:
    times = dict.fromkeys(map(number, (run.sentinel_low_us, run.sentinel_high_us)))
    drift = MISSING if run.drift is None else f"{run.drift:.2%}"
    mark = "drifted" if run.is_marked else ""
    return (
        Cell(label),
        Cell(run.run_started_at.isoformat(timespec="seconds")),
        Cell(number(run.null_us), "number"),
        Cell(number(run.copy_us), "number"),
        Cell(number(run.copy_gb_s), "number"),
        Cell(" to ".join(times), "number"),
        Cell(str(run.sentinel_count), "number"),
        Cell(drift, "number", strong=run.is_marked),
        Cell("; ".join(filter(None, (mark, *run.failures))) or MISSING),
    )
