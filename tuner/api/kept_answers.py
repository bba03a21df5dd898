"""Keeps finished answers for as long as the database says that they are right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.known_operators import KnownOperator
from tuner.api.question import Asked
from tuner.domain.environment import Environment
from tuner.errors import TunerError
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.store.answer_changes import AnswerChanges
    from tuner.store.changes import Changes
    from tuner.store.known_devices import RegisteredDevice

MAX_KEPT = 16384  # answers of about 5 kB each
# Where the database was written to since, an answer is read again after so long, whatever was
# written: the list of what has changed knows of this program's changes only.
MAX_AGE_S = 600.0
SWEEP_S = 60.0  # between two looks for answers of that age
# SQLite's driver gives up the interpreter's lock at every row, and gets it back up to 5 ms later
# where others compute: eight lookups at a time take several times as long as one by one. Those
# that ask a server wait for it most of the time.
LOOKUPS_AT_A_TIME = {"file": 1, "server": 4}


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer with what it follows from.

    Attributes:
        content: The answer.
        workload_key: Whose trials decide it; None where those of other shapes do, too.
        read_at_s: When it was read.
        known: The operator.
        here: Environment of the device that was asked for; None where none was.
    """

    content: bytes
    workload_key: str | None
    read_at_s: float
    known: KnownOperator
    here: Environment | None


@dataclass(frozen=True, slots=True)
class OpenDatabase:
    """A database that is kept open, with the answers that are right since it changed last."""

    store: Store
    changes: Changes
    answer_changes: AnswerChanges
    turns: threading.BoundedSemaphore
    mark: object = None
    registered: tuple[RegisteredDevice, ...] = ()
    answers: dict[Asked, KeptAnswer] = field(default_factory=dict)
    swept_at_s: float = 0.0

    def close(self) -> None:
        self.changes.close()
        self.store.close()


class AnswerKeeper:
    """An open database and the answers that were read from it. Safe to use from many threads.

    Args:
        settings: Name the database.
        clock: Seconds, for the age of answers.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: OpenDatabase | None = None
        self._changed: set[str] | None = None

    @property
    def count(self) -> int:
        """How many answers are kept."""
        opened = self._opened
        return 0 if opened is None else len(opened.answers)

    def holds(self, asked: Asked) -> bool:
        """Tell whether an answer was kept, right now or not any more. Never waits."""
        opened = self._opened
        return opened is not None and asked in opened.answers

    def unchanged(self, asked: Asked) -> OpenDatabase | None:
        """Return the open database if that can be told at once, and it has not changed."""
        hint = self._opened
        if hint is None or asked not in hint.answers or not hint.changes.tells_at_once:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            opened = self._opened
            if opened is not hint or not opened.changes.is_there():
                return None
            return opened if opened.changes.mark() == opened.mark else None
        finally:
            self._lock.release()

    def current(self) -> OpenDatabase:
        """Return the open database, with the answers that are right at this moment.

        Raises:
            DatabaseProblem: It can't be used.
        """
        with self._lock:
            opened = self._opened
            if opened is None or not opened.changes.is_there():
                opened = self._opened_anew()
            mark = opened.changes.mark()
            if mark != opened.mark:
                opened = self._opened = self._without_what_ended(replace(opened, mark=mark))
            return opened

    def keep(self, opened: OpenDatabase, asked: Asked, answer: KeptAnswer) -> None:
        """Keep an answer that was read after a look gave the database as it is."""
        with self._lock:
            while len(opened.answers) >= MAX_KEPT:
                del opened.answers[next(iter(opened.answers))]  # the oldest
            opened.answers[asked] = answer

    def take_changed(self) -> frozenset[str] | None:
        """Return the keys of workloads whose answers ended since the last call; None: all.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        self.current()
        with self._lock:
            changed, self._changed = self._changed, set()
        return None if changed is None else frozenset(changed)

    def close(self) -> None:
        """Give up the connections to the database."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _opened_anew(self) -> OpenDatabase:
        from tuner.store.answer_changes import AnswerChanges
        from tuner.store.changes import watch_changes

        old, self._opened = self._opened, None
        if old is not None:
            old.close()
        store = open_database(self._settings, create=False, writable=False)
        try:
            kind = "file" if store.location.path is not None else "server"
            turns = threading.BoundedSemaphore(LOOKUPS_AT_A_TIME[kind])
            changes = watch_changes(store.location)
            self._opened = OpenDatabase(store, changes, AnswerChanges(), turns)
        except TunerError:
            store.close()
            raise
        return self._opened

    def _without_what_ended(self, opened: OpenDatabase) -> OpenDatabase:
        """Return a database that has changed, with the answers that are still right.

        Where all are, in the same dictionary: a lookup under way may still add to that. Else in
        another one, and what is under way, which may have been read before the change, is not
        kept.
        """
        registered, changed = _read_changes(opened)
        now_s = self._clock()
        if changed is None:
            self._changed = None
            return replace(opened, registered=registered, answers={}, swept_at_s=now_s)
        if not changed and now_s - opened.swept_at_s < SWEEP_S:
            return replace(opened, registered=registered)
        ended = {
            asked: kept
            for asked, kept in opened.answers.items()
            if kept.workload_key in changed
            or (changed and kept.workload_key is None)
            or now_s - kept.read_at_s > MAX_AGE_S
        }
        if self._changed is not None:
            self._changed |= changed
            self._changed.update(each.workload_key for each in ended.values() if each.workload_key)
        answers = {asked: kept for asked, kept in opened.answers.items() if asked not in ended}
        return replace(opened, registered=registered, answers=answers, swept_at_s=now_s)


def _read_changes(
    opened: OpenDatabase,
) -> tuple[tuple[RegisteredDevice, ...], frozenset[str] | None]:
    """Return the registered devices of a database that has changed, and what has.

    Raises:
        SchemaMismatch: It was upgraded, which is a change, too.
    """
    from tuner.store.known_devices import registered_devices
    from tuner.store.schema import require_current

    with opened.store.session() as session:
        require_current(session.connection(), str(opened.store.location))
        return registered_devices(session), opened.answer_changes.since_last(session)
