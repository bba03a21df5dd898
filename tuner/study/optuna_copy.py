"""Optuna studies made from stored trials, for programs that read Optuna's and not ours.

Ours stay the record: a copy is made afresh each time and thrown away. Unlike in a search, the
parameters have their real values, so that charts show them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from typing import TypeAlias

from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.identity import Scalar
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.domain.space import Grid
from tuner.domain.space import is_power_of_two

if TYPE_CHECKING:
    import optuna

    Distributions: TypeAlias = dict[str, optuna.distributions.BaseDistribution]

# Which implementation a trial is of becomes a parameter too. With a space, so that no tunable
# parameter, which is a name in C++ or Python, can be called the same.
IMPLEMENTATION = "kernel implementation"
METRIC = "median_us"


@dataclass(frozen=True, slots=True)
class TrialCopy:
    """A trial as it is copied.

    Attributes:
        implementation: Name of the implementation.
        config: Its config.
        outcome: None while it runs.
        value_us: What it is ranked by, in microseconds a launch; None where there is no time.
        started_at: Aware.
        finished_at: Aware; None while it runs.
        facts: More to show beside it, JSON-ready.
    """

    implementation: str
    config: Config
    outcome: Outcome | None
    value_us: float | None
    started_at: datetime
    finished_at: datetime | None
    facts: Mapping[str, Plain]


@dataclass(frozen=True, slots=True)
class StudyCopy:
    """The trials of one workload of a study: one Optuna study, since times of two differ.

    Attributes:
        name: Unlike that of any other copy.
        facts: What the study is about, JSON-ready.
        spaces: Values of the parameters by implementation, as far as they are known; values of
            the trials are added.
        trials: In the order they were started.
    """

    name: str
    facts: Mapping[str, Plain]
    spaces: Mapping[str, Grid]
    trials: Sequence[TrialCopy]


def copy_to_optuna(copies: Sequence[StudyCopy]) -> optuna.storages.InMemoryStorage:
    """Return Optuna studies in memory. Only valid trials are complete; failed ones have no value.

    Raises:
        ValueError: Two copies have the same name.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()
    if len({copy.name for copy in copies}) != len(copies):
        raise ValueError("two copies of studies have the same name")
    for copy in copies:
        study = optuna.create_study(storage=storage, study_name=copy.name, direction="minimize")
        with warnings.catch_warnings():  # called experimental since 2023
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([METRIC])
        for name, fact in copy.facts.items():
            study.set_user_attr(name, fact)
        known = _values_by_parameter(copy)
        numeric = {name for name, values in known.items() if _is_numeric(values)}
        distributions = {
            name: _distribution(values, is_numeric=name in numeric)
            for name, values in known.items()
        }
        for number, trial in enumerate(copy.trials):
            params = {
                name: value if name in numeric else str(value)
                for name, value in _params(trial).items()
            }
            study.add_trial(
                _frozen(trial, number, params, {name: distributions[name] for name in params})
            )
    return storage


def _params(trial: TrialCopy) -> dict[str, Scalar]:
    return {IMPLEMENTATION: trial.implementation, **trial.config}


def _frozen(
    trial: TrialCopy, number: int, params: Mapping[str, Scalar], distributions: Distributions
) -> optuna.trial.FrozenTrial:
    from optuna.trial import FrozenTrial
    from optuna.trial import TrialState

    value = trial.value_us
    is_valid = (
        trial.outcome is Outcome.OK and value is not None and math.isfinite(value) and value > 0.0
    )
    state = TrialState.COMPLETE if is_valid else TrialState.FAIL
    if trial.outcome is None:
        state = TrialState.RUNNING
    return FrozenTrial(
        number=number,
        trial_id=-1,  # the storage gives it one
        state=state,
        value=value if is_valid else None,
        datetime_start=_local(trial.started_at),
        datetime_complete=None if trial.finished_at is None else _local(trial.finished_at),
        params=dict(params),
        distributions=dict(distributions),
        user_attrs={
            "outcome": RUNNING if trial.outcome is None else trial.outcome.value,
            **trial.facts,
        },
        system_attrs={},
        intermediate_values={},
    )


def _local(time: datetime) -> datetime:
    """Return a time as Optuna keeps it: local, without a zone."""
    return time.astimezone().replace(tzinfo=None)


def _values_by_parameter(copy: StudyCopy) -> dict[str, list[Scalar]]:
    """Return the values of each parameter, over all implementations that have it.

    Optuna wants one distribution a name within a study, and none of no values: that is what a
    parameter has for which a space allows nothing.
    """
    names = list(dict.fromkeys([*copy.spaces, *(each.implementation for each in copy.trials)]))
    found: dict[str, list[Scalar]] = {IMPLEMENTATION: list(names)}
    for space in copy.spaces.values():
        for name, values in space.items():
            found.setdefault(name, []).extend(values)
    for trial in copy.trials:
        for name, value in trial.config.items():
            found.setdefault(name, []).append(value)
    return {name: values for name, values in found.items() if values}


def _is_numeric(values: Sequence[Scalar]) -> bool:
    """Tell whether all values are numbers of one kind. True is none, and 1 and 1.0 are two."""
    return {type(value) for value in values} in ({int}, {float})


def _distribution(
    values: Sequence[Scalar], *, is_numeric: bool
) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution
    from optuna.distributions import FloatDistribution
    from optuna.distributions import IntDistribution

    if not is_numeric:
        return CategoricalDistribution(list(dict.fromkeys(str(value) for value in values)))
    low, high = min(values, key=float), max(values, key=float)
    if isinstance(low, float):
        return FloatDistribution(low, float(high))
    in_octaves = all(is_power_of_two(value) for value in values)
    return IntDistribution(int(low), int(high), log=in_octaves)
