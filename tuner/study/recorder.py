"""What a study needs of a store. ``tuner.api`` plugs in ``tuner.store``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tuner.domain.controls import ControlRound
from tuner.domain.job import LaunchGeometry
from tuner.domain.records import TrialReport
from tuner.domain.study import NearbyResults
from tuner.domain.study import OpenedStudy
from tuner.domain.study import SkippedPoint
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload


class Recorder(Protocol):
    """Stores a study as it runs. Each call is one transaction, durable when it returns."""

    def together(self) -> AbstractContextManager[None]:
        """Make the changes inside one transaction: all or nothing, durable when it is left."""

    def open_study(self, definition: StudyDefinition, *, fresh: bool) -> OpenedStudy:
        """Create the study, or go on with the newest one of equal key.

        Trials found running whose owner process is gone become ``interrupted``. ``fresh``
        makes a new study even where an equal one exists.

        Raises:
            EnvironmentProblem: A live process is driving this study.
        """

    def stored_trials(
        self, study_id: int, trial_ids: Sequence[int] | None = None
    ) -> list[StoredTrial]:
        """Return all or some trials of a study, in the order they were started."""

    def find_reusable(self, definition: StudyDefinition, point: TrialPoint) -> int | None:
        """Return a finished trial of equal identity in any study, or None.

        Equal: workload, implementation, config, source hash, environment identity, protocol.
        Interrupted, reused and imported trials don't count, nor do ``timeout`` and ``crash``,
        which may be the machine's fault.
        """

    def nearby_results(
        self, definition: StudyDefinition, workload: Workload, implementation: str
    ) -> list[NearbyResults]:
        """Return valid results of other workloads, and of other devices of the same family.

        Without those that ``find_reusable`` finds for this workload.
        """

    def reuse_trial(self, study_id: int, point: TrialPoint, origin_id: int) -> StoredTrial:
        """Add a trial that takes outcome and quick median from an equal, earlier one.

        Where the origin is confirmed, the returned trial counts as confirmed too.
        """

    def skip_points(self, study_id: int, skipped: Sequence[SkippedPoint]) -> None:
        """Add trials with outcome ``skipped``; points already stored are left alone."""

    def start_trial(self, study_id: int, point: TrialPoint, geometry: LaunchGeometry) -> int:
        """Add a running trial owned by this process and return its id."""

    def finish_trial(self, trial_id: int, report: TrialReport, *, bytes_moved: int) -> None:
        """Store everything the quick stage gave and end the trial with its outcome."""

    def record_confirmation(
        self, position: int, reports: Sequence[tuple[int, TrialReport]], *, required: int
    ) -> None:
        """Store what one fresh process gave for several finalists, all or nothing.

        A trial whose report failed takes that outcome; one with ``required`` valid processes
        becomes confirmed, with its median, range, bandwidth and stability warnings.
        """

    def record_controls(self, study_id: int, measured: ControlRound) -> None:
        """Store what the controls gave in one round of a run, all or nothing."""

    def finish_study(self, study_id: int) -> None:
        """Mark the study finished."""
