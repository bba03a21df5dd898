"""What answers to ``best`` are read from: one state of the database, read once for many."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from tuner.domain.controls import RunControls
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.store.best import best_candidates
from tuner.store.best import candidates_of_workloads
from tuner.store.best import process_samples
from tuner.store.best import Samples
from tuner.store.controls import controls_of_trials
from tuner.store.queries import tuned_shapes


class AnswerReads:
    """Reads what decides answers. Of some workloads all candidates and controls are read at once.

    Six questions about each workload share them, and a server is asked once for dozens.

    Args:
        session: Of the store. What was read holds for as long as its transaction.
        workloads: Those that will be asked about, some dozens at most; others can be, too.
    """

    def __init__(self, session: Session, workloads: Sequence[Workload] = ()) -> None:
        self._session = session
        self._candidates = candidates_of_workloads(session, workloads) if workloads else {}
        trial_ids = [each.trial_id for found in self._candidates.values() for each in found]
        self._controls = controls_of_trials(session, trial_ids)
        self._samples: dict[int, Samples] = {}

    def candidates(
        self,
        workload: Workload,
        *,
        implementation: str | None = None,
        environment_key: str | None = None,
        architecture: str | None = None,
    ) -> list[BestCandidate]:
        """Return what ``best_candidates`` gives, without samples."""
        found = self._candidates.get(workload.key)
        if found is None:
            return best_candidates(
                self._session,
                workload,
                implementation=implementation,
                environment_key=environment_key,
                architecture=architecture,
            )
        return [
            each
            for each in found
            if implementation in (None, each.implementation)
            and environment_key in (None, each.environment.key)
            and architecture in (None, each.environment.identity.get("architecture"))
        ]

    def samples(self, trial_ids: Sequence[int]) -> dict[int, Samples]:
        """Return what ``process_samples`` gives."""
        missing = [each for each in trial_ids if each not in self._samples]
        self._samples |= process_samples(self._session, missing)
        return {each: self._samples[each] for each in trial_ids if each in self._samples}

    def controls(self, trial_id: int) -> list[RunControls]:
        """Return what ``trial_controls`` gives."""
        if trial_id not in self._controls:
            self._controls |= controls_of_trials(self._session, [trial_id])
        return self._controls[trial_id]

    def tuned_shapes(
        self, workload: Workload, *, environment_key: str, implementation: str | None
    ) -> list[tuple[int, ...]]:
        """Return what the query of this name gives."""
        return tuned_shapes(
            self._session, workload,
            environment_key=environment_key, implementation=implementation,
        )  # fmt: skip
