"""Merges rows of another database into this one without doubling what both hold.

Rows are the same where their content is: vocabulary by its hash, a study by its key, start and
environment, a trial by its study, point and start. Ids are this database's own; only a table that
was empty keeps those of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase

from tuner.errors import UsageError
from tuner.store import leases
from tuner.store.bundle_rows import BUNDLED
from tuner.store.bundle_rows import BundleRow
from tuner.store.bundle_rows import OF_STUDIES
from tuner.store.bundle_rows import OF_TRIALS
from tuner.store.bundle_rows import VOCABULARY
from tuner.store.checksums import CHECKSUM_COLUMN
from tuner.store.evidence_models import ReproductionRow
from tuner.store.merge_values import grouped
from tuner.store.merge_values import IdMap
from tuner.store.merge_values import MergeReport
from tuner.store.merge_values import progress_of
from tuner.store.merge_values import RESULT
from tuner.store.models import ProcessRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import ValidationRow
from tuner.store.profile_models import ProfileRow
from tuner.store.rows import Values
from tuner.store.server import go_on_counting
from tuner.store.table import insert_row
from tuner.store.table import insert_samples
from tuner.store.table import restore_row
from tuner.store.table import table_of
from tuner.store.table import update_row

_UNIQUE = {
    "tuner_workload": ("key",),
    "tuner_implementation": ("operator", "name", "language"),
    "tuner_source": ("source_hash",),
    "tuner_environment": ("fingerprint",),
    "tuner_protocol": ("key",),
    "tuner_control": ("study_id", "workload_id", "run_started_at", "position", "kind"),
    "tuner_evidence_file": ("sha256",),
    "tuner_record": ("file_id", "line"),
    "tuner_reproduction": ("created_at", "original_kind", "original_id"),
}
_POINT = ("study_id", "workload_id", "implementation_id", "config_key")


def merge(connection: Connection, rows: Iterable[BundleRow]) -> MergeReport:
    """Merge rows in the order of ``bundle.iter_rows``. Call it in a transaction of its own.

    Raises:
        UsageError: The rows contradict each other or this database's rules. Roll back then.
    """
    merger = _Merger(connection)
    for row, belonging in grouped(rows):
        try:
            merger.add(row, belonging)
        except IntegrityError as error:
            name = table_of(row.model).name
            reason = " ".join(str(error.orig).split())
            raise UsageError(
                f"row {row.values.get('id')} of {name} breaks a rule of the database: {reason}",
                hint="nothing was stored; check the other database with `tuner db check`",
            ) from error
    merger.finish()
    return merger.report


class _Merger:
    """The state of one merge."""

    def __init__(self, connection: Connection) -> None:
        self.report = MergeReport()
        self._connection = connection
        self._ids = {table_of(model).name: IdMap() for model in BUNDLED}
        # Ids of their studies that are left alone, since a process is running them here.
        self._skipped_studies: set[int] = set()
        self._keeps_ids = {
            model: connection.execute(select(table_of(model)).limit(1)).first() is None
            for model in BUNDLED
        }

    def add(self, row: BundleRow, belonging: Sequence[BundleRow]) -> None:
        """Merge a row; of a trial, what belongs to it too."""
        if row.model is StudyRow:
            self._add_study(row)
        elif row.model is TrialRow:
            if row.values["study_id"] not in self._skipped_studies:
                self._add_trial(row, belonging)
        elif row.model not in OF_STUDIES or row.values["study_id"] not in self._skipped_studies:
            self._add_plain(row)

    def finish(self) -> None:
        """Let a server's counters go on behind the ids that were kept."""
        kept = [table_of(model) for model, was_empty in self._keeps_ids.items() if was_empty]
        go_on_counting(self._connection, kept)

    def _add_plain(self, row: BundleRow) -> None:
        values = self._mapped(row)
        if row.model is ReproductionRow:
            values["original_id"] = self._mapped_original(values)
        unique = _UNIQUE[table_of(row.model).name]
        found = self._find(row.model, {name: values[name] for name in unique})
        if found is None:
            self._insert(row, values)
            return
        if row.model in VOCABULARY:
            _require_equal(row, found, values)
        self._note_known(row, found)

    def _add_study(self, row: BundleRow) -> None:
        values = self._mapped(row)
        same = ("key", "created_at", "environment_id")
        found = self._find(StudyRow, {name: values[name] for name in same})
        values["owner"] = None  # no process of another database drives it here
        if found is None:
            table = table_of(StudyRow)
            taken = self._find(StudyRow, {name: values[name] for name in ("key", "generation")})
            if taken is not None:
                newest = select(func.max(table.c.generation)).where(table.c.key == values["key"])
                values["generation"] = (self._connection.scalar(newest) or 0) + 1
            self._insert(row, values)
            return
        self._note_known(row, found)
        if leases.is_driven(self._connection, found):
            self._skipped_studies.add(row.values["id"])
            self.report.left_out.append(
                f"study {found['name']} (id {found['id']}) is being run here; import again when "
                "it has ended"
            )
        elif found["state"] == "running" and values["state"] == "finished":
            names = ("state", "finished_at", "planned", "owner")
            changes = {name: values[name] for name in names}
            update_row(self._connection, StudyRow, found["id"], changes, found)
            self.report.advanced += 1

    def _add_trial(self, row: BundleRow, belonging: Sequence[BundleRow]) -> None:
        for model in OF_TRIALS:  # nothing of another trial refers to them
            self._ids[table_of(model).name] = IdMap()
        values = self._mapped(row)
        point = {name: values[name] for name in _POINT}
        found = self._find(TrialRow, {**point, "started_at": values["started_at"]})
        if found is None:
            values["attempt"] = self._free_attempt(point, values["attempt"])
            self._insert(row, values)
            self._add_belonging(belonging, with_own_validations=True)
        else:
            self._note_known(row, found)
            self._go_on_with(found, values, belonging)
        self._add_profiles(belonging)

    def _go_on_with(self, found: Values, values: Values, belonging: Sequence[BundleRow]) -> None:
        """Bring a trial that is here to where it is there, if that is further."""
        if progress_of(values) <= progress_of(found):
            self.report.known += sum(row.model is not ProfileRow for row in belonging)
            if progress_of(values) > RESULT and _differ(values, found):
                self._leave_out_times(found)
            return
        if self._contradicts(found, belonging):
            self._leave_out_times(found)
            return
        kept = ("id", "attempt", CHECKSUM_COLUMN)
        changes = {name: value for name, value in values.items() if name not in kept}
        update_row(self._connection, TrialRow, found["id"], changes, found)
        self.report.advanced += 1
        self._add_belonging(belonging, with_own_validations=progress_of(found) < RESULT)

    def _leave_out_times(self, found: Values) -> None:
        self.report.left_out.append(
            f"trial {found['id']} was gone on with in both databases; its times here are kept"
        )

    def _free_attempt(self, point: Values, wanted: int) -> int:
        """Return the attempt, or the next free one: a copied study can go on in two places."""
        if self._find(TrialRow, {**point, "attempt": wanted}) is None:
            return wanted
        table = table_of(TrialRow)
        newest = select(func.max(table.c.attempt)).where(
            *(table.c[name] == value for name, value in point.items())
        )
        return int(self._connection.scalar(newest) or 0) + 1

    def _contradicts(self, found: Values, belonging: Sequence[BundleRow]) -> bool:
        """Tell whether a process of the trial is another one there than here."""
        for row in belonging:
            if row.model is ProcessRow:
                ours = self._find_process(found["id"], row.values)
                if ours is not None and ours["recorded_at"] != row.values["recorded_at"]:
                    return True
        return False

    def _add_belonging(self, rows: Sequence[BundleRow], *, with_own_validations: bool) -> None:
        """Add what is new of a trial's processes and validations.

        Args:
            rows: Processes come before validations.
            with_own_validations: Add validations that belong to no process too.
        """
        added: set[int] = set()
        for row in rows:
            values = self._mapped(row)
            if row.model is ProcessRow:
                ours = self._find_process(values["trial_id"], values)
                if ours is not None:
                    self._note_known(row, ours)
                    continue
                self._insert(row, values)
                added.add(row.values["id"])
            elif row.model is ValidationRow:
                process_id = row.values["process_id"]
                is_new = with_own_validations if process_id is None else process_id in added
                if is_new:
                    self._insert(row, values)

    def _add_profiles(self, rows: Sequence[BundleRow]) -> None:
        """Add the profiles of a trial that are new; they come and go on their own."""
        for row in rows:
            if row.model is ProfileRow:
                values = self._mapped(row)
                own = "created_at" if values["file_sha256"] is None else "file_sha256"
                same = {name: values[name] for name in ("trial_id", own)}
                found = self._find(ProfileRow, same)
                if found is None:
                    self._insert(row, values)
                else:
                    self.report.known += 1

    def _find_process(self, trial_id: int, values: Values) -> Values | None:
        same = {"trial_id": trial_id, "stage": values["stage"], "position": values["position"]}
        return self._find(ProcessRow, same)

    def _mapped(self, row: BundleRow) -> Values:
        """Return a row's values with the ids that it refers to as they are here.

        Raises:
            UsageError: It needs a row that did not come before it.
        """
        values = dict(row.values)
        for column in table_of(row.model).columns:
            for link in column.foreign_keys:
                target = link.column.table.name
                theirs = values[column.name]
                if theirs is None or target == "tuner_source":
                    continue
                ours = self._ids[target].get(theirs)
                if ours is None and not column.nullable:
                    raise UsageError(
                        f"row {values.get('id')} of {column.table.name} refers to row {theirs} of "
                        f"{target}, which does not come before it"
                    )
                values[column.name] = ours
        return values

    def _mapped_original(self, values: Values) -> str:
        """Return what a reproduction repeated: a row's id changes, a name or a hash does not."""
        original: str = values["original_id"]
        ids = self._ids.get(f"tuner_{values['original_kind']}")
        if ids is None or not original.isascii() or not original.isdecimal():
            return original
        ours = ids.get(int(original)) if len(original) < 19 else None
        return original if ours is None else str(ours)

    def _find(self, model: type[DeclarativeBase], same: Mapping[str, Any]) -> Values | None:
        table = table_of(model)
        query = select(table).where(*(table.c[name] == value for name, value in same.items()))
        row = self._connection.execute(query.limit(1)).mappings().first()
        return None if row is None else dict(row)

    def _insert(self, row: BundleRow, values: Values) -> None:
        model = row.model
        if self._keeps_ids[model] or "id" not in values:
            restore_row(self._connection, model, values, row.samples_us)
            our_id = values.get("id")
        else:
            fresh = {
                name: value for name, value in values.items() if name not in ("id", "checksum")
            }
            our_id = insert_row(self._connection, model, fresh, row.samples_us)
        if our_id is not None:
            insert_samples(self._connection, our_id, row.samples_us)
            self._ids[table_of(model).name].put(row.values["id"], our_id)
        self.report.count(model)

    def _note_known(self, row: BundleRow, found: Values) -> None:
        self.report.known += 1
        if "id" in found:
            self._ids[table_of(row.model).name].put(row.values["id"], found["id"])


def _differ(left: Values, right: Values) -> bool:
    """Tell whether a trial ended otherwise there than here."""
    return any(left[name] != right[name] for name in ("outcome", "median_us", "finished_at"))


def _require_equal(row: BundleRow, found: Values, values: Values) -> None:
    """Check that a hash stands for the same content here and there.

    Raises:
        UsageError: It does not.
    """
    own = ("id", CHECKSUM_COLUMN)
    other = [name for name, value in values.items() if name not in own and found[name] != value]
    if other:
        raise UsageError(
            f"{table_of(row.model).name}: {', '.join(other)} of a row differ here and there "
            "though its key is the same",
            hint="one of the two was changed by hand; `tuner db check` says more",
        )
