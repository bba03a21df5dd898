"""What merging works with: its report, the map of ids, how far a trial is, rows in groups."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field

from sqlalchemy.orm import DeclarativeBase

from tuner.domain.outcome import Outcome
from tuner.errors import UsageError
from tuner.store.bundle_rows import BundleRow
from tuner.store.bundle_rows import OF_TRIALS
from tuner.store.models import TrialRow
from tuner.store.rows import Values
from tuner.store.table import table_of

RESULT = 2  # progress of a trial that is valid and waits for confirmation


@dataclass(slots=True)
class MergeReport:
    """What a merge changed.

    Attributes:
        added: Rows by table that were not here.
        known: Rows that were here already.
        advanced: Trials and studies that were here, and were further along there.
        left_out: Why something is not here now, one line each.
    """

    added: dict[str, int] = field(default_factory=dict)
    known: int = 0
    advanced: int = 0
    left_out: list[str] = field(default_factory=list)

    def count(self, model: type[DeclarativeBase]) -> None:
        """Count an added row."""
        name = table_of(model).name.removeprefix("tuner_")
        self.added[name] = self.added.get(name, 0) + 1


class IdMap:
    """Ids here by ids there, which come in ascending. 16 bytes a row: fit for 10^6 trials."""

    def __init__(self) -> None:
        self._theirs = array("q")
        self._ours = array("q")

    def put(self, their_id: int, our_id: int) -> None:
        """Note a row.

        Raises:
            UsageError: Its id is not above that of the last one.
        """
        if self._theirs and their_id <= self._theirs[-1]:
            raise UsageError(f"row {their_id} comes twice or out of order")
        self._theirs.append(their_id)
        self._ours.append(our_id)

    def get(self, their_id: int) -> int | None:
        """Return the id of a row here, or None where it did not come."""
        place = bisect_left(self._theirs, their_id)
        is_there = place < len(self._theirs) and self._theirs[place] == their_id
        return self._ours[place] if is_there else None


def progress_of(trial: Values) -> int:
    """Return how far a trial is: running, interrupted, valid and unconfirmed, final."""
    outcome = trial["outcome"]
    if outcome is None:
        return 0
    if outcome == Outcome.INTERRUPTED.value:
        return 1
    is_open = outcome == Outcome.OK.value and not trial["confirmed"]
    return RESULT if is_open else RESULT + 1


def grouped(rows: Iterable[BundleRow]) -> Iterator[tuple[BundleRow, list[BundleRow]]]:
    """Yield each row with those after it that belong to it: a trial's processes and the like.

    Raises:
        UsageError: A row does not follow the trial it belongs to.
    """
    leader: BundleRow | None = None
    belonging: list[BundleRow] = []
    for row in rows:
        if row.model in OF_TRIALS:
            trial_id = leader.values["id"] if leader and leader.model is TrialRow else None
            if row.values["trial_id"] != trial_id:
                raise UsageError(f"row {row.values['id']} does not follow the trial it is of")
            belonging.append(row)
            continue
        if leader is not None:
            yield leader, belonging
        leader, belonging = row, []
    if leader is not None:
        yield leader, belonging
