"""What the controls of runs say to a reader: notes beside a time. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.domain.controls import MAX_SENTINEL_DRIFT
from tuner.domain.controls import RunControls


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


def marks(runs: Iterable[RunControls]) -> list[str]:
    """Return why runs are marked, the one that drifted most first."""
    marked = sorted((run for run in runs if run.is_marked), key=lambda run: -(run.drift or 0.0))
    return [mark_text(run) for run in marked]
