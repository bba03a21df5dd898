"""Answers to ``best`` that are kept for as long as they are right: what the service gives.

An answer follows from the question, from what the database has of its workload, the operator's
files, and the machine and toolchain of the device: as registered in the database, or as a probe
found it lately. It is given again while none of them has changed, and never after. Two things are
believed for a time: what a device is that nobody takes jobs for (see ``known_devices``), and that
no other program than this one has changed rows of the database that were there (``MAX_AGE_S``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.api.answer import answer_question
from tuner.api.kept_answers import AnswerKeeper
from tuner.api.kept_answers import KeptAnswer
from tuner.api.kept_answers import OpenDatabase
from tuner.api.known_devices import DeviceFinder
from tuner.api.known_devices import DeviceRecall
from tuner.api.known_devices import find_here
from tuner.api.known_devices import recall_nothing
from tuner.api.known_operators import KnownOperator
from tuner.api.known_operators import OperatorMemory
from tuner.api.known_operators import SETTLED_NS
from tuner.api.question import Asked
from tuner.domain.environment import Environment
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.json_text import json_text
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store.answer_reads import AnswerReads
    from tuner.store.known_devices import RegisteredDevice
    from tuner.store.tuned import TunedWorkload

Look = OpenDatabase  # outside this module, only to be handed back


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A question, with what its answer follows from beside the database."""

    asked: Asked
    workload: Workload
    known: KnownOperator
    here: Environment | None


class BestAnswers:
    """Answers questions from one database, which it keeps open. Safe to use from many threads.

    Args:
        settings: Name the database and the folders of operators.
        find_device: Tells the environment of a device.
        recall_device: Tells it where nothing needs to be asked.
        settled_ns: How old a file must be for its times to tell of the next change.
        clock: Seconds, for the age of answers.
    """

    def __init__(
        self,
        settings: Settings,
        find_device: DeviceFinder = find_here,
        recall_device: DeviceRecall = recall_nothing,
        settled_ns: int = SETTLED_NS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._find_device = find_device
        self._recall_device = recall_device
        self._clock = clock
        self._operators = OperatorMemory(settings, settled_ns)
        self._keeper = AnswerKeeper(settings, clock)
        self._asked_devices: set[str] = {settings.device}

    @property
    def kept(self) -> int:
        """How many answers are kept."""
        return self._keeper.count

    def may_be_kept(self, asked: Asked) -> bool:
        """Tell whether an answer was kept, right now or not any more. Never waits."""
        return self._keeper.holds(asked)

    def look(self) -> Look:
        """Look whether the database has changed: a round trip to a server.

        Returns:
            For ``kept_json_at_once``: the database as it is at this moment.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        return self._keeper.current()

    def kept_json_at_once(self, asked: Asked, looked: Look | None = None) -> bytes | None:
        """Return the kept answer to a question, for a caller that must not wait.

        It looks at files and at what is in memory; it waits for no lock, server or process.

        Args:
            asked: The question.
            looked: What a look gave that began after the question was asked; None looks here,
                where that takes no time.

        Returns:
            None, too, where only ``kept_json`` can tell.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        opened = self._keeper.unchanged(asked) if looked is None else looked
        kept = None if opened is None else opened.answers.get(asked)
        if opened is None or kept is None or not self._operators.is_current(kept.known):
            return None
        if asked.device is not None:
            here = self._recall_device(asked.device, opened.registered)
            if here != kept.here:
                return None
        return kept.content

    def kept_json(self, asked: Asked) -> bytes | None:
        """Return the kept answer to a question, or None where it may not be right now.

        Raises:
            DeviceUnavailable: The device can't be used any more.
            DatabaseProblem: The database can't be used.
        """
        if not self.may_be_kept(asked):
            return None
        opened = self._keeper.current()
        kept = opened.answers.get(asked)
        if kept is None or not self._operators.is_current(kept.known):
            return None
        if asked.device is not None:
            here = self._find_device(asked.device, self._settings, opened.registered)
            if here != kept.here:
                return None
        return kept.content

    def best_json(self, asked: Asked) -> bytes:
        """Return what ``tuner best --format json`` prints for the same question, to the byte.

        The answer is kept.

        Raises:
            NotFound: Nothing matches; the message says what differs.
            UsageError: What is asked for is no workload of the operator.
            DeviceUnavailable: The device can't be used.
            DatabaseProblem: The database can't be used.
        """
        from tuner.store.answer_reads import AnswerReads

        prepared = self._prepared(asked, self._keeper.current().registered)
        # Looked at before the answer is read: what is committed between the two makes the next
        # look differ.
        opened = self._keeper.current()
        read_at_s = self._clock()
        with opened.turns, opened.store.session() as session:
            kept = _answered(AnswerReads(session), prepared, read_at_s)
        self._keeper.keep(opened, asked, kept)
        if asked.device is not None:
            self._asked_devices.add(asked.device)
        return kept.content

    def keep_ahead(self, questions: Sequence[Asked]) -> None:
        """Make and keep the answers to questions, reading what they share once.

        Those that have none are left out.

        Args:
            questions: About some dozens of workloads at most.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        from tuner.store.answer_reads import AnswerReads

        opened = self._keeper.current()
        read_at_s = self._clock()
        wanted = [each for each in questions if each not in opened.answers]
        prepared = self._all_prepared(wanted, opened.registered)
        workloads = {each.workload.key: each.workload for each in prepared}
        with opened.turns, opened.store.session() as session:
            reads = AnswerReads(session, list(workloads.values()))
            for each in prepared:
                with suppress(NotFound):
                    self._keeper.keep(opened, each.asked, _answered(reads, each, read_at_s))

    def _prepared(self, asked: Asked, registered: Sequence[RegisteredDevice]) -> _Prepared:
        known = self._operators.find(asked.operator)
        workload = asked.question.workload(known.operator)
        here = None
        if asked.device is not None:
            here = self._find_device(asked.device, self._settings, registered)
        return _Prepared(asked, workload, known, here)

    def _all_prepared(
        self, questions: Sequence[Asked], registered: Sequence[RegisteredDevice]
    ) -> list[_Prepared]:
        """Prepare what can be answered; look once for each operator and device."""
        operators: dict[str, KnownOperator | None] = {}
        devices: dict[str, Environment | None] = {}
        prepared = []
        for each in questions:
            if each.operator not in operators:
                operators[each.operator] = None
                with suppress(NotFound, UsageError):
                    operators[each.operator] = self._operators.find(each.operator)
            if each.device is not None and each.device not in devices:
                devices[each.device] = self._recall_device(each.device, registered)
            known, here = operators[each.operator], devices.get(each.device or "")
            if known is not None and (here is not None or each.device is None):
                with suppress(UsageError):  # tuned when the operator had other dimensions
                    workload = each.question.workload(known.operator)
                    prepared.append(_Prepared(each, workload, known, here))
        return prepared

    def take_changed(self) -> frozenset[str] | None:
        """Return the keys of workloads whose answers ended since the last call; None: all.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        return self._keeper.take_changed()

    def tuned(self, keys: Collection[str] | None) -> list[TunedWorkload]:
        """Return the workloads with an answer, of all or of some keys.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        from tuner.store.tuned import tuned_workloads

        opened = self._keeper.current()
        with opened.store.session() as session:
            return tuned_workloads(session, keys)

    def devices(self) -> dict[str, Environment]:
        """Return the devices that were asked for or take jobs, where nothing need be asked.

        Raises:
            DatabaseProblem: The database can't be used.
        """
        registered = self._keeper.current().registered
        names = {*self._asked_devices, *(each.device_id for each in registered)}
        found = {name: self._recall_device(name, registered) for name in sorted(names)}
        return {name: here for name, here in found.items() if here is not None}

    def close(self) -> None:
        """Give up the connections to the database."""
        self._keeper.close()


def _answered(reads: AnswerReads, prepared: _Prepared, read_at_s: float) -> KeptAnswer:
    question, workload = prepared.asked.question, prepared.workload
    answer = answer_question(reads, question, workload, prepared.here, prepared.known.hashes)
    content = json_text(answer.as_plain()).encode("ascii")
    key = workload.key if question.match != "nearest-shape" else None
    return KeptAnswer(content, key, read_at_s, prepared.known, prepared.here)
