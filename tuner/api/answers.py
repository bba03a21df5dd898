"""Answers to ``best`` that are kept for as long as they are right: what the service gives.

An answer follows from the question, the database, the operator's files, and the machine and
toolchain of the device: as registered in the database, or as a probe found it lately. It is given
again while none of them has changed, and never after; only a device that nobody takes jobs for is
believed to be what it was for the time that ``known_devices`` says.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.api.answer import answer_question
from tuner.api.answer import Question
from tuner.api.common import device_for
from tuner.api.common import open_database
from tuner.api.known_devices import DeviceFinder
from tuner.api.known_devices import DeviceRecall
from tuner.api.known_devices import find_here
from tuner.api.known_devices import recall_nothing
from tuner.api.known_operators import KnownOperator
from tuner.api.known_operators import OperatorMemory
from tuner.api.known_operators import SETTLED_NS
from tuner.domain.environment import Environment
from tuner.domain.workload import parse_shape
from tuner.errors import TunerError
from tuner.report.best import Match
from tuner.report.json_text import json_text
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.store.changes import Changes
    from tuner.store.known_devices import RegisteredDevice

MAX_KEPT = 4096  # answers of about 5 kB each
# SQLite's driver gives up the interpreter's lock at every row, and gets it back up to 5 ms later
# where others compute: eight lookups at a time take several times as long as one by one. Those
# that ask a server wait for it most of the time.
LOOKUPS_AT_A_TIME = {"file": 1, "server": 4}


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer with what it follows from, the database apart."""

    content: bytes
    known: KnownOperator
    device: str | None
    here: Environment | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """A database that is kept open, with what was read of it since it changed last."""

    store: Store
    changes: Changes
    turns: threading.BoundedSemaphore
    mark: object = None
    registered: tuple[RegisteredDevice, ...] = ()
    answers: dict[Hashable, _Answer] = field(default_factory=dict)

    def close(self) -> None:
        self.changes.close()
        self.store.close()


Look = _Opened  # outside this module, only to be handed back


class BestAnswers:
    """Answers questions from one database, which it keeps open. Safe to use from many threads.

    Args:
        settings: Name the database and the folders of operators.
        find_device: Tells the environment of a device.
        recall_device: Tells it where nothing needs to be asked.
        settled_ns: How old a file must be for its times to tell of the next change.
    """

    def __init__(
        self,
        settings: Settings,
        find_device: DeviceFinder = find_here,
        recall_device: DeviceRecall = recall_nothing,
        settled_ns: int = SETTLED_NS,
    ) -> None:
        self._settings = settings
        self._find_device = find_device
        self._recall_device = recall_device
        self._operators = OperatorMemory(settings, settled_ns)
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    def may_be_kept(self, key: Hashable) -> bool:
        """Tell whether something was kept under a key, right now or not any more. Never waits."""
        opened = self._opened
        return opened is not None and key in opened.answers

    def look(self) -> Look:
        """Look whether the database has changed: a round trip to a server.

        Returns:
            For ``kept_json_at_once``: the database as it is at this moment.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        return self._current()

    def kept_json_at_once(self, key: Hashable, looked: Look | None = None) -> bytes | None:
        """Return the answer that was kept under a key, for a caller that must not wait.

        It looks at files and at what is in memory; it waits for no lock, server or process.

        Args:
            key: Of the question.
            looked: What a look gave that began after the question was asked; None looks here,
                where that takes no time.

        Returns:
            None, too, where only ``kept_json`` can tell.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        opened = self._unchanged(key) if looked is None else looked
        kept = None if opened is None else opened.answers.get(key)
        if opened is None or kept is None or not self._operators.is_current(kept.known):
            return None
        if kept.device is not None:
            here = self._recall_device(kept.device, opened.registered)
            if here != kept.here:
                return None
        return kept.content

    def kept_json(self, key: Hashable) -> bytes | None:
        """Return the answer that was kept under a key, or None where it may not be right now.

        Raises:
            DeviceUnavailable: The device can't be used any more.
            DatabaseProblem: The database can't be used.
        """
        if not self.may_be_kept(key):
            return None
        opened = self._current()
        kept = opened.answers.get(key)
        if kept is None or not self._operators.is_current(kept.known):
            return None
        if kept.device is not None:
            here = self._find_device(kept.device, self._settings, opened.registered)
            if here != kept.here:
                return None
        return kept.content

    def best_json(
        self,
        operator: str,
        shape: str | Sequence[int],
        *,
        dtype: str = "float32",
        scalars: Mapping[str, float] | None = None,
        row_padding: int = 0,
        device: str | None = None,
        architecture: str | None = None,
        implementation: str | None = None,
        match: Match | None = None,
        key: Hashable = None,
    ) -> bytes:
        """Return what ``tuner best --format json`` prints for the same question, to the byte.

        Args:
            operator: As the others up to ``match``: those of ``best``.
            shape: See there.
            dtype: See there.
            scalars: See there.
            row_padding: See there.
            device: See there.
            architecture: See there.
            implementation: See there.
            match: See there.
            key: What ``kept_json`` will be asked with for the same question; None keeps nothing.

        Raises:
            NotFound: Nothing matches; the message says what differs.
            UsageError: What is asked for is no workload of the operator.
            DeviceUnavailable: The device can't be used.
            DatabaseProblem: The database can't be used.
        """
        question = Question(
            shape=parse_shape(shape) if isinstance(shape, str) else tuple(shape),
            dtype=dtype,
            scalars=tuple((scalars or {}).items()),
            row_padding=row_padding,
            architecture=architecture,
            implementation=implementation,
            match=match,
        )
        known = self._operators.find(operator)
        workload = question.workload(known.operator)
        chosen, here = None, None
        if architecture is None:
            chosen = device_for(device, "auto", self._settings)
            here = self._find_device(chosen, self._settings, self._current().registered)
        # Looked at before the answer is read: what is committed between the two makes the next
        # look differ.
        opened = self._current()
        with opened.turns, opened.store.session() as session:
            answer = answer_question(session, question, workload, here, known.hashes)
            content = json_text(answer.as_plain()).encode("ascii")
        if key is not None:
            with self._lock:
                while len(opened.answers) >= MAX_KEPT:
                    del opened.answers[next(iter(opened.answers))]  # the oldest
                opened.answers[key] = _Answer(content, known, chosen, here)
        return content

    def close(self) -> None:
        """Give up the connections to the database."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _unchanged(self, key: Hashable) -> _Opened | None:
        """Return the open database if that can be told at once, and it has not changed."""
        hint = self._opened
        if hint is None or key not in hint.answers or not hint.changes.tells_at_once:
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

    def _current(self) -> _Opened:
        """Return the open database, with the answers that are right at this moment."""
        with self._lock:
            opened = self._opened
            if opened is None or not opened.changes.is_there():
                opened = self._opened_anew()
            mark = opened.changes.mark()
            if mark != opened.mark:
                registered = _read_registered(opened.store)
                opened = replace(opened, mark=mark, registered=registered, answers={})
                self._opened = opened
            return opened

    def _opened_anew(self) -> _Opened:
        from tuner.store.changes import watch_changes

        old, self._opened = self._opened, None
        if old is not None:
            old.close()
        store = open_database(self._settings, create=False, writable=False)
        try:
            kind = "file" if store.location.path is not None else "server"
            turns = threading.BoundedSemaphore(LOOKUPS_AT_A_TIME[kind])
            self._opened = _Opened(store, watch_changes(store.location), turns)
        except TunerError:
            store.close()
            raise
        return self._opened


def _read_registered(store: Store) -> tuple[RegisteredDevice, ...]:
    """Return the registered devices of a database that has changed.

    Raises:
        SchemaMismatch: It was upgraded, which is a change, too.
    """
    from tuner.store.known_devices import registered_devices
    from tuner.store.schema import require_current

    with store.session() as session:
        require_current(session.connection(), str(store.location))
        return registered_devices(session)
