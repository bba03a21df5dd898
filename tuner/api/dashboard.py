"""Optuna studies for optuna-dashboard, made from our rows."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.common import operator_if_known
from tuner.domain.space import Grid
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.operator import Operator
from tuner.settings import Settings

if TYPE_CHECKING:
    import optuna

    from tuner.store.views import StudySummary
    from tuner.store.views import TrialSummary
    from tuner.study.optuna_copy import StudyCopy
    from tuner.study.optuna_copy import TrialCopy

# All are copied before the first page can be shown.
MAX_TRIALS = 20_000


@dataclass(frozen=True, slots=True)
class OptunaCopies:
    """Stored studies as Optuna studies.

    Attributes:
        storage: Optuna's, in memory.
        names: Of its studies, one a workload.
        trials: How many they hold.
    """

    storage: optuna.storages.InMemoryStorage
    names: tuple[str, ...]
    trials: int


def optuna_copies(studies: Sequence[str], settings: Settings) -> OptunaCopies:
    """Copy stored studies into Optuna studies in memory, one a workload.

    A valid trial is complete with its confirmed median, or the one of the quick stage, in
    microseconds. All others have no value; their outcome is an attribute. The copy does not
    follow a study that goes on.

    Args:
        studies: Names or ids; empty for all.
        settings: Database and folders of operators.

    Raises:
        NotFound: There is no such study, no trial at all, or no database.
        UsageError: The studies hold more than ``MAX_TRIALS`` trials.
    """
    from tuner.store import queries
    from tuner.study.optuna_copy import copy_to_optuna

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = [queries.find_study(session, each) for each in studies]
        chosen = {each.id: each for each in found or queries.list_studies(session)}
        count = sum(sum(each.counts.values()) for each in chosen.values())
        if count > MAX_TRIALS:
            raise UsageError(
                f"{len(chosen)} studies hold {count} trials, more than {MAX_TRIALS}",
                hint="name the studies to look at: tuner dashboard STUDY",
            )
        copies = [
            copy
            for study in chosen.values()
            for copy in _copies(study, queries.list_trials(session, study.id), settings)
        ]
    if not copies:
        raise NotFound("there are no trials to show", hint="`tuner run STUDY.toml` makes some")
    return OptunaCopies(copy_to_optuna(copies), tuple(each.name for each in copies), count)


def _copies(
    study: StudySummary, trials: Sequence[TrialSummary], settings: Settings
) -> list[StudyCopy]:
    """Return a copy for each workload of a study, in the order they were begun."""
    from tuner.study.optuna_copy import StudyCopy

    operator = operator_if_known(study.operator, settings)
    by_workload: dict[Workload, list[TrialSummary]] = {}
    for trial in trials:
        by_workload.setdefault(trial.workload, []).append(trial)
    return [
        StudyCopy(
            # The id, because a study that was started afresh has the name of the one before.
            name=f"{study.name} #{study.id} {workload.shape_text} {workload.dtype}",
            facts={
                "study": study.name,
                "study_id": study.id,
                "state": study.state.value,
                "operator": study.operator,
                "shape": workload.shape_text,
                "dtype": workload.dtype,
                "scalars": dict(workload.scalars),
                "device": study.device_id,
                "architecture": study.architecture,
                "sampler": study.sampler,
                "value": "median in microseconds a launch: confirmed where it was, else quick",
            },
            spaces=_spaces(operator, study, workload),
            trials=[_trial(each) for each in group],
        )
        for workload, group in by_workload.items()
    ]


def _spaces(
    operator: Operator | None, study: StudySummary, workload: Workload
) -> Mapping[str, Grid]:
    """Return what the study could choose from: the operator's values of today, or its own."""
    own: Mapping[str, Grid] | None = study.spec.get("space")
    if operator is None or len(operator.dims) != len(workload.shape):
        return own or {}
    dims = operator.dimensions(workload)
    return {
        each.name: {**each.parameters(dims), **(own or {}).get(each.name, {})}
        for each in operator.implementations
        if own is None or each.name in own
    }


def _trial(trial: TrialSummary) -> TrialCopy:
    from tuner.study.optuna_copy import TrialCopy

    facts = {
        "trial_id": trial.id,
        "stage": str(trial.stage) if trial.stage else None,
        "message": trial.message or None,
        "confirmed": trial.confirmed,
        "low_us": trial.low_us,
        "high_us": trial.high_us,
        "quick_median_us": trial.quick_median_us,
        "bandwidth_gb_s": trial.bandwidth_gb_s,
        "warnings": list(trial.warnings) or None,
    }
    return TrialCopy(
        implementation=trial.implementation,
        config=trial.config,
        outcome=trial.outcome,
        value_us=trial.median_us if trial.confirmed else trial.quick_median_us,
        started_at=trial.started_at,
        finished_at=trial.finished_at,
        facts={name: fact for name, fact in facts.items() if fact is not None},
    )
