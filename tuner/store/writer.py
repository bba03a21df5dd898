"""Stores a study as it runs: ``tuner.study.recorder.Recorder``, by shape and not by name.

Every call that changes something is one transaction, on disk when it returns. Rows are written
through ``tuner.store.table`` alone, which keeps their checksums.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import contextmanager
from contextlib import nullcontext
from datetime import datetime
from datetime import UTC
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.controls import ControlRound
from tuner.domain.identity import canonical_json
from tuner.domain.job import LaunchGeometry
from tuner.domain.outcome import Outcome
from tuner.domain.records import TrialReport
from tuner.domain.study import NearbyResults
from tuner.domain.study import OpenedStudy
from tuner.domain.study import SkippedPoint
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import DatabaseProblem
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.store import driving
from tuner.store import leases
from tuner.store import nearby
from tuner.store import resume
from tuner.store import rows
from tuner.store.controls import add_controls
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.problems import checked_integer
from tuner.store.reports import confirm_trial
from tuner.store.reports import same_binary_warning
from tuner.store.reports import sound_report
from tuner.store.reports import store_report
from tuner.store.rows import Values
from tuner.store.table import find_or_insert
from tuner.store.table import insert_row
from tuner.store.table import insert_rows
from tuner.store.table import read_row
from tuner.store.table import table_of
from tuner.store.table import update_row

Writing: TypeAlias = Callable[[], AbstractContextManager[Connection]]
Reading: TypeAlias = Callable[[], AbstractContextManager[Session]]

_BLANK_TRIAL: Values = {
    "attempt": 0,
    "origin": "measured",
    "message": "",
    "log": "",
    "confirmed": False,
    "warnings": "[]",
}
# What a reused trial takes from its origin: the verdict, and what follows from equal source,
# config and compiler. Times of building and measuring were not spent again.
_REUSED = (
    *("outcome", "stage", "message", "geometry", "quick_median_us", "bytes_moved"),
    *("binary_hash", "compiler", "build_options"),
    *("registers", "spills", "spill_bytes", "shared_bytes", "code_bytes"),
)


class StudyRecorder:
    """Writes studies and their trials; see ``Recorder`` for what each method promises.

    What is written of a study is refused, with ``EnvironmentProblem``, once another process has
    taken it over.

    Args:
        write: Opens a write transaction that commits when it is left without an exception.
        read: Opens a session that reads one snapshot.
        renewal_s: How often it says that it lives.
    """

    def __init__(self, write: Writing, read: Reading, renewal_s: float = leases.RENEWAL_S) -> None:
        self._write = write
        self._read = read
        self._driven: dict[int, driving.DrivenStudy] = {}
        self._keeper = leases.LeaseKeeper(write, renewal_s)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make the changes inside one transaction: all or nothing, on disk when it is left.

        A commit waits for the disk, which takes as long as everything else that is done to store
        a trial.
        """
        outer = self._write
        with outer() as connection:
            self._write = lambda: nullcontext(connection)
            try:
                yield
            finally:
                self._write = outer

    def open_study(self, definition: StudyDefinition, *, fresh: bool) -> OpenedStudy:
        """Create the study, or go on with the newest one of equal key.

        Raises:
            EnvironmentProblem: A live process is driving this study.
        """
        with self._write() as connection:
            driven = driving.store_definition(connection, definition)
            opened = driving.open_study(connection, definition, driven, fresh=fresh)
        self._driven[opened.study_id] = driven
        if opened.state != "finished":
            self._keeper.keep(opened.study_id)
        return opened

    def stored_trials(
        self, study_id: int, trial_ids: Sequence[int] | None = None
    ) -> list[StoredTrial]:
        """Return all or some trials of a study, in the order they were started."""
        with self._read() as session:
            return resume.stored_trials(session, study_id, trial_ids)

    def find_reusable(self, definition: StudyDefinition, point: TrialPoint) -> int | None:
        """Return a finished trial of equal identity in any study, or None."""
        with self._read() as session:
            return resume.find_reusable(session, definition, point)

    def nearby_results(
        self, definition: StudyDefinition, workload: Workload, implementation: str
    ) -> list[NearbyResults]:
        """Return what an implementation gave on other workloads and on like devices."""
        with self._read() as session:
            return nearby.nearby_results(session, definition, workload, implementation)

    def reuse_trial(self, study_id: int, point: TrialPoint, origin_id: int) -> StoredTrial:
        """Add a trial that takes outcome and quick median from an equal, earlier one.

        Where the origin is confirmed, the returned trial counts as confirmed too.
        """
        now = datetime.now(UTC)
        table = table_of(TrialRow)
        with self._write() as connection:
            columns = [table.c[name] for name in _REUSED]
            query = select(*columns).where(table.c.id == origin_id, table.c.outcome.is_not(None))
            origin = connection.execute(query).mappings().first()
            if origin is None:
                raise DatabaseProblem(f"trial {origin_id} is not a finished one to reuse")
            values = self._trial_values(connection, study_id, point)
            values |= {**origin, "reused_from_id": origin_id}
            values |= {"started_at": now, "finished_at": now}
            leases.require_driver(connection, study_id)
            trial_id = insert_row(connection, TrialRow, values)
        with self._read() as session:
            return resume.stored_trial(session, trial_id)

    def skip_points(self, study_id: int, skipped: Sequence[SkippedPoint]) -> None:
        """Add trials with outcome ``skipped``; points already stored are left alone."""
        table = table_of(TrialRow)
        point_columns = (table.c.workload_id, table.c.implementation_id, table.c.config_key)
        now = datetime.now(UTC)
        with self._write() as connection:
            query = select(*point_columns).where(table.c.study_id == study_id)
            seen = {tuple(row) for row in connection.execute(query)}
            new = []
            shared: dict[tuple[str, str], Values] = {}  # what a space's points have in common
            for each in skipped:
                space = (each.point.workload.key, each.point.implementation)
                if space not in shared:
                    shared[space] = self._trial_values(connection, study_id, each.point)
                values = shared[space] | _config_values(each.point)
                key = tuple(values[column.name] for column in point_columns)
                if key in seen:
                    continue
                seen.add(key)
                values |= {
                    "outcome": Outcome.SKIPPED.value,
                    "stage": each.stage.value,
                    "message": rows.message_text(each.reason, "skipped"),
                    "started_at": now,
                    "finished_at": now,
                }
                new.append(values)
            leases.require_driver(connection, study_id)
            insert_rows(connection, TrialRow, new)

    def start_trial(self, study_id: int, point: TrialPoint, geometry: LaunchGeometry) -> int:
        """Add a running trial owned by this process and return its id.

        Raises:
            DatabaseProblem: The point is stored already and was not interrupted.
        """
        table = table_of(TrialRow)
        with self._write() as connection:
            values = self._trial_values(connection, study_id, point)
            same_point = [
                table.c[name] == values[name]
                for name in ("study_id", "workload_id", "implementation_id", "config_key")
            ]
            # Counting only the interrupted lets the unique constraint refuse a second trial of
            # a point that has one.
            interrupted = table.c.outcome == Outcome.INTERRUPTED.value
            attempt = connection.scalar(
                select(func.count()).select_from(table).where(*same_point, interrupted)
            )
            leases.require_driver(connection, study_id)
            values |= {
                "attempt": attempt,
                "geometry": rows.geometry_json(geometry),
                "started_at": datetime.now(UTC),
            }
            return insert_row(connection, TrialRow, values)

    def finish_trial(self, trial_id: int, report: TrialReport, *, bytes_moved: int) -> None:
        """Store everything the quick stage gave and end the trial with its outcome.

        Raises:
            DatabaseProblem: The trial has ended already.
        """
        sound = sound_report(report)
        with self._write() as connection:
            trial = _trial(connection, trial_id)
            leases.require_driver(connection, trial["study_id"])
            if trial["outcome"] is not None:
                raise DatabaseProblem(f"trial {trial_id} has ended already: {trial['outcome']}")
            changes = store_report(connection, trial_id, sound, stage="quick", position=0)
            changes |= rows.failure_values(sound.failure)
            changes |= rows.build_values(sound.build)
            changes |= same_binary_warning(connection, trial, sound.build)
            changes |= {
                "bytes_moved": checked_integer("bytes moved", bytes_moved),
                "validate_s": rows.finite(sound.validate_s),
                "measure_s": rows.finite(sound.measure_s),
                "finished_at": datetime.now(UTC),
            }
            update_row(connection, TrialRow, trial_id, changes, trial)

    def record_confirmation(
        self, position: int, reports: Sequence[tuple[int, TrialReport]], *, required: int
    ) -> None:
        """Store what one fresh process gave for several finalists, all or nothing.

        Raises:
            DatabaseProblem: A trial is not waiting for confirmation by this process.
        """
        with self._write() as connection:
            for trial_id, report in reports:
                trial = _trial(connection, trial_id)
                leases.require_driver(connection, trial["study_id"])
                if trial["outcome"] != Outcome.OK.value or trial["confirmed"]:
                    raise DatabaseProblem(f"trial {trial_id} is not waiting for confirmation")
                changes = confirm_trial(connection, trial, sound_report(report), position, required)
                update_row(connection, TrialRow, trial_id, changes, trial)

    def record_controls(self, study_id: int, measured: ControlRound) -> None:
        """Store what the controls gave in one round of a run, all or nothing."""
        with self._write() as connection:
            leases.require_driver(connection, study_id)
            add_controls(connection, study_id, measured)

    def finish_study(self, study_id: int) -> None:
        """Mark the study finished."""
        with self._write() as connection:
            leases.require_driver(connection, study_id)
            changes = {"state": "finished", "owner": None, "finished_at": datetime.now(UTC)}
            update_row(connection, StudyRow, study_id, changes)
        self._keeper.drop(study_id)

    def release(self) -> None:
        """Give up the studies opened here, so that others can go on with them at once.

        Raises:
            DatabaseProblem: Of some, this could not be stored. Their leases run out.
        """
        studies = list(self._driven)
        self._driven.clear()
        for study_id in studies:
            self._keeper.drop(study_id)
        problems: list[TunerError] = []
        for study_id in studies:
            try:
                with self._write() as connection:
                    driving.release(connection, study_id)
            except TunerError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def _trial_values(self, connection: Connection, study_id: int, point: TrialPoint) -> Values:
        driven = self._driven.get(study_id)
        if driven is None:
            raise UsageError(f"study {study_id} was not opened by this recorder")
        workload = rows.workload_values(point.workload)
        return {
            **_BLANK_TRIAL,
            **driven.trial_values(point.implementation),
            "study_id": study_id,
            "workload_id": find_or_insert(connection, WorkloadRow, ["key"], workload),
            **_config_values(point),
        }


def _config_values(point: TrialPoint) -> Values:
    return {"config": canonical_json(dict(point.config)), "config_key": point.config_key}


def _trial(connection: Connection, trial_id: int) -> Values:
    row = read_row(connection, TrialRow, trial_id)
    if row is None:
        raise DatabaseProblem(f"there is no trial {trial_id}")
    return row
