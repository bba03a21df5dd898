"""What is said where studies have no confirmed trial: why, and whether going on would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.domain.outcome import Outcome
from tuner.domain.queue import StudyState
from tuner.errors import UsageError
from tuner.ways import Way

if TYPE_CHECKING:
    from tuner.store.views import StudySummary

_UNDER_WAY = (StudyState.QUEUED, StudyState.RUNNING)


def no_confirmed_trial(what: str, studies: Sequence[StudySummary]) -> UsageError:
    """Return the error for a comparison with studies that have no confirmed trial.

    Args:
        what: The studies as the user calls them.
        studies: All of them; at least one.
    """
    left = next((each for each in studies if each.state is not StudyState.FINISHED), None)
    if left is None:
        is_valid = any(each.counts.get(Outcome.OK) for each in studies)
        trials = Way.LIST_TRIALS.of(studies[0].id)
        return UsageError(
            f"{what} has no {'confirmed' if is_valid else 'valid'} trial to compare",
            hint=f"it is finished: {trials} says what became of each",
        )
    if left.state in _UNDER_WAY:
        hint = f"study {left.name} is {left.state.value}: wait until it is finished"
    else:
        hint = f"study {left.name} is {left.state.value}; finish it: {Way.FINISH_STUDY.of(left.id)}"
    return UsageError(f"{what} has no confirmed trial to compare", hint=hint)
