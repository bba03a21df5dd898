"""What a run of a study left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.domain.controls import RunControls
from tuner.domain.workload import Workload
from tuner.report.best import BestAnswer
from tuner.study.coverage import Coverage


@dataclass(frozen=True, slots=True)
class StudyResult:
    """What a run of a study left behind.

    Attributes:
        study_id: Row of the study.
        name: Its name.
        finished: Everything planned is stored.
        counts: Trials by outcome.
        best: Best config of each workload that has a valid one, in the study's order.
        unanswered: Workloads without a valid config.
        uncovered: Spaces of which configs were not tried, because of the budget or by plan.
        controls: What was measured beside the trials of this run, by workload.
        database: Path, or URL without user and password.
        elapsed_s: Wall-clock seconds of this run.
    """

    study_id: int
    name: str
    finished: bool
    counts: Mapping[str, int]
    best: tuple[BestAnswer, ...]
    unanswered: tuple[Workload, ...]
    uncovered: tuple[Coverage, ...]
    controls: tuple[RunControls, ...]
    database: str
    elapsed_s: float

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from tuner.report.notebook import study_result_html

        state = "finished" if self.finished else "not finished"
        return study_result_html(self.name, state, self.counts, self.best, self.unanswered)
