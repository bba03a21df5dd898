"""How much of each space of a study has been tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.domain.outcome import Outcome
from tuner.domain.study import StoredTrial
from tuner.domain.workload import Workload
from tuner.study.plan import Plan
from tuner.study.samplers import EXHAUSTIVE


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a space has been tried.

    Attributes:
        workload: What is to be solved.
        implementation: Name of the implementation.
        tried: Configs with an outcome.
        planned: Configs that the study tries in all.
        grid: Points of the whole grid, refused ones included.
        is_whole: The plan is every allowed config, not a sample of them.
    """

    workload: Workload
    implementation: str
    tried: int
    planned: int
    grid: int
    is_whole: bool

    def __str__(self) -> str:
        name = f"{self.workload.shape_text} {self.implementation}"
        if self.is_whole:
            return f"{name}: {self.planned - self.tried} of {self.planned} configs not tried"
        return f"{name}: {self.tried} of at most {self.grid} configs tried"

    @property
    def is_full(self) -> bool:
        """Nothing that could have been tried is left."""
        return self.tried >= (self.planned if self.is_whole else self.grid)


def uncovered_spaces(plan: Plan, trials: Iterable[StoredTrial]) -> tuple[Coverage, ...]:
    """Return the spaces of which configs were not tried, because of a budget or by plan."""
    tried = Counter(
        (trial.point.workload.key, trial.point.implementation)
        for trial in trials
        if trial.outcome is not Outcome.SKIPPED
    )
    found = [
        Coverage(
            space.workload,
            space.implementation,
            tried[space.workload.key, space.implementation],
            space.trials,
            space.size,
            space.sampler == EXHAUSTIVE,
        )
        for space in plan.spaces
    ]
    return tuple(each for each in found if not each.is_full and each.planned)
