"""What a running study tells whoever listens: a progress bar, a log, later a web page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tuner.domain.outcome import Outcome
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload


@dataclass(frozen=True, slots=True)
class StudyOpened:
    """The study's rows are there; ``done`` of ``planned`` trials are from an earlier run."""

    study_id: int
    state: str
    definition: StudyDefinition
    done: int


@dataclass(frozen=True, slots=True)
class TrialBegun:
    """A trial is under way."""

    point: TrialPoint


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is stored. ``quick_median_us`` is None unless it is ok."""

    point: TrialPoint
    outcome: Outcome
    message: str
    quick_median_us: float | None


@dataclass(frozen=True, slots=True)
class Confirming:
    """A fresh process is measuring a workload's finalists."""

    workload: Workload
    process: int
    processes: int
    finalists: int


@dataclass(frozen=True, slots=True)
class StudyEnded:
    """The study stopped: finished, or its budget is used up."""

    study_id: int
    finished: bool


Event: TypeAlias = StudyOpened | TrialBegun | TrialEnded | Confirming | StudyEnded
Listener: TypeAlias = Callable[[Event], None]
