"""Stores studies without a device, trial by trial."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tuner.domain.controls import ControlPoint
from tuner.domain.controls import ControlRound
from tuner.domain.identity import Scalar
from tuner.domain.study import SkippedPoint
from tuner.domain.study import TrialPoint
from tuner.domain.workload import make_workload
from tuner.store import Store
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_report
from tuner.testing.store_values import make_source

SWEEP = ((1024, 64), (256, 256), (64, 1024))


class StudyMaker:
    """Stores one study, trial by trial."""

    def __init__(self, store: Store, **changes: Any) -> None:
        self.recorder = store.recorder()
        self.names = changes.pop("implementations", ("serial", "block"))
        changes.setdefault("spec", {"shapes": []})  # its shapes are those of its trials
        definition = make_definition(
            sources={each: make_source(each) for each in self.names},
            languages=dict.fromkeys(self.names, "hip"),
            **changes,
        )
        self.study_id = self.recorder.open_study(definition, fresh=False).study_id

    def point(
        self, implementation: str, shape: Sequence[int], config: dict[str, Scalar]
    ) -> TrialPoint:
        workload = make_workload("vector_add", shape, "float32", {"scale": 0.1})
        return TrialPoint(workload, implementation, config)

    def measured(
        self,
        implementation: str,
        shape: Sequence[int],
        config: dict[str, Scalar],
        *processes_us: Sequence[float],
        quick_us: float = 10.0,
    ) -> int:
        """Add a valid trial; with processes, a confirmed one."""
        point = self.point(implementation, shape, config)
        trial_id = self.recorder.start_trial(self.study_id, point, GEOMETRY)
        self.recorder.finish_trial(trial_id, make_report([quick_us] * 3), bytes_moved=1_000_000)
        for position, samples_us in enumerate(processes_us):
            self.recorder.record_confirmation(
                position, [(trial_id, make_report(samples_us))], required=len(processes_us)
            )
        return trial_id

    def controls(
        self, shape: Sequence[int], *copies_us: float | None, started_at: datetime
    ) -> None:
        """Add rounds of a run's controls beside the shape's first trial; None is a failed copy."""
        workload = self.point("", shape, {}).workload
        trials = self.recorder.stored_trials(self.study_id)
        sentinel_id = next(each.trial_id for each in trials if each.point.workload == workload)
        point = ControlPoint(workload, sentinel_id, 1_000_000)
        for position, copy_us in enumerate(copies_us):
            copy = make_failure() if copy_us is None else make_report([copy_us])
            reports = (make_report([1.0]), copy, make_report([10.0]))
            self.recorder.record_controls(
                self.study_id, ControlRound(started_at, position, point, reports)
            )

    def failed(
        self, implementation: str, shape: Sequence[int], config: dict[str, Scalar], message: str
    ) -> int:
        """Add a trial that failed to compile."""
        point = self.point(implementation, shape, config)
        trial_id = self.recorder.start_trial(self.study_id, point, GEOMETRY)
        self.recorder.finish_trial(trial_id, make_failure(message=message), bytes_moved=1)
        return trial_id

    def skipped(
        self, implementation: str, shape: Sequence[int], config: dict[str, Scalar], reason: str
    ) -> None:
        """Add a trial that a constraint refused."""
        point = self.point(implementation, shape, config)
        self.recorder.skip_points(self.study_id, [SkippedPoint(point, reason)])
