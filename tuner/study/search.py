"""What proposes the next config of a search space.

Optuna is loaded when a search needs it, and known here and in ``optuna_copy`` only. Our own rows
are the record: an Optuna study lives in memory and is built again from them when a study goes on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Protocol
from typing import TYPE_CHECKING

from tuner.domain.identity import Config
from tuner.domain.identity import content_hash
from tuner.domain.identity import Scalar
from tuner.study.plan import config_key
from tuner.study.plan import EXHAUSTIVE
from tuner.study.plan import SearchSpace

if TYPE_CHECKING:
    import optuna

# Draws before the first untried config is taken instead. On a simulated space of 1008 configs,
# 100 trials, 4 found the best as reliably as 8, at 6 to 10 ms instead of 8 to 18 ms a config
# (2-core CPU machine, Optuna 5.0.0).
MAX_DRAWS = 4


class Search(Protocol):
    """Proposes the configs of one space, never one twice and never a refused one."""

    def ask(self) -> Config | None:
        """Return the next config to try, or None when the plan for this space is done."""

    def tell(self, config: Config, value_us: float | None) -> None:
        """Tell the median a config gave; None, or a value that is no duration, where it failed."""


def make_search(
    space: SearchSpace, sampler: str, seed: int, history: Sequence[tuple[Config, float | None]] = ()
) -> Search:
    """Return the search of a space, having been told what was measured before.

    Args:
        space: What to search.
        sampler: ``exhaustive``, ``tpe`` or ``random``: usually ``space.sampler``.
        seed: From the study file. Spaces, and parts of an interrupted search, get their own
            seeds derived from it, so that none repeats the draws of another.
        history: Configs tried already with their medians, None for failed ones, in order.
    """
    if sampler == EXHAUSTIVE:
        return ExhaustiveSearch(space, history)
    return OptunaSearch(space, sampler, seed, history)


def interleave(searches: Mapping[str, Search]) -> Iterator[tuple[str, Config]]:
    """Yield configs of several searches in turn until all are done: first each one's default.

    Tell a search the outcome of its config before the next one is taken.
    """
    left = dict(searches)
    while left:
        for name, search in list(left.items()):
            config = search.ask()
            if config is None:
                del left[name]
            else:
                yield name, config


class ExhaustiveSearch:
    """Every allowed config once, the default first, then in the order of the grid."""

    def __init__(
        self, space: SearchSpace, history: Sequence[tuple[Config, float | None]] = ()
    ) -> None:
        self._tried = {config_key(config) for config, _ in history}
        self._configs = space.allowed()

    def ask(self) -> Config | None:
        """Return the next untried config."""
        for config in self._configs:
            if config_key(config) not in self._tried:
                self._tried.add(config_key(config))
                return config
        return None

    def tell(self, config: Config, value_us: float | None) -> None:
        """Note that a config was tried."""
        del value_us
        self._tried.add(config_key(config))


class OptunaSearch:
    """A sampler of Optuna over the positions of the parameters' values.

    Numbers are sorted and searched by position, which is their logarithm for the usual powers
    of two; other values are categories. Optuna repeats points and knows no constraints, so
    its draws are filtered here; when it keeps drawing what was tried or is refused, the first
    untried config in the space's own order is taken. Failed trials are told as failed, which
    its samplers leave out; they never get a number.
    """

    def __init__(
        self,
        space: SearchSpace,
        sampler: str,
        seed: int,
        history: Sequence[tuple[Config, float | None]] = (),
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._values = _ordered_values(space)
        self._distributions = _distributions(self._values)
        self._tried: set[str] = set()
        self._told: set[str] = set()
        self._open: dict[str, optuna.Trial] = {}
        self._untried = space.allowed()
        self._study = optuna.create_study(
            sampler=_make_sampler(sampler, _derived_seed(space, seed, len(history)))
        )
        for config, value_us in history:
            self.tell(config, value_us)

    def ask(self) -> Config | None:
        """Return the next config: the default, then what the sampler draws."""
        if len(self._tried) >= self._space.trials:
            return None
        default = self._space.default
        if default is not None and config_key(default) not in self._tried:
            return self._take(default)
        for _ in range(MAX_DRAWS):
            config = self._draw()
            if config is not None:
                return config
        for config in self._untried:
            if config_key(config) not in self._tried:
                return self._take(config)
        return None

    def tell(self, config: Config, value_us: float | None) -> None:
        """Tell the sampler a median; a second telling of the same config changes nothing."""
        from optuna.trial import TrialState

        key = config_key(config)
        self._tried.add(key)
        if key in self._told:
            return
        self._told.add(key)
        is_valid = value_us is not None and math.isfinite(value_us) and value_us > 0.0
        state = TrialState.COMPLETE if is_valid else TrialState.FAIL
        value = value_us if is_valid else None
        trial = self._open.pop(key, None)
        if trial is not None:
            self._study.tell(trial, value, state=state)
        else:
            self._add(config, value, state)

    def _take(self, config: Config) -> Config:
        self._tried.add(config_key(config))
        return config

    def _draw(self) -> Config | None:
        """Return what the sampler draws where it is new and allowed."""
        from optuna.trial import TrialState

        trial = self._study.ask(self._distributions)
        config = {name: values[trial.params[name]] for name, values in self._values.items()}
        key = config_key(config)
        if key in self._tried or not self._space.is_allowed(config):
            self._study.tell(trial, state=TrialState.FAIL)
            return None
        self._open[key] = trial
        return self._take(config)

    def _add(self, config: Config, value: float | None, state: optuna.trial.TrialState) -> None:
        """Add a trial that no draw of this search proposed: the default, or an earlier one's."""
        import optuna

        try:
            params = {
                name: _position(values, config[name]) for name, values in self._values.items()
            }
        except (KeyError, ValueError):  # tried under another grid: it teaches this one nothing
            return
        self._study.add_trial(
            optuna.create_trial(
                state=state, value=value, params=params, distributions=self._distributions
            )
        )


def _ordered_values(space: SearchSpace) -> dict[str, list[Scalar]]:
    """Return each parameter's values, numbers in order, with the default's added if missing."""
    ordered = {}
    for name, given in space.grid.items():
        values = list(given)
        if space.default is not None and space.default[name] not in values:
            values.append(space.default[name])
        ordered[name] = sorted(values, key=float) if _is_numeric(values) else values
    return ordered


def _is_numeric(values: Sequence[Scalar]) -> bool:
    return all(type(value) in (int, float) for value in values)


def _position(values: Sequence[Scalar], value: Scalar) -> int:
    for position, candidate in enumerate(values):
        if type(candidate) is type(value) and candidate == value:
            return position
    raise ValueError(value)


def _distributions(
    values: Mapping[str, Sequence[Scalar]],
) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import CategoricalDistribution
    from optuna.distributions import IntDistribution

    return {
        name: IntDistribution(0, len(each) - 1)
        if _is_numeric(each)
        else CategoricalDistribution(range(len(each)))
        for name, each in values.items()
    }


def _make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    with warnings.catch_warnings():  # multivariate has been called experimental since 2020
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True)


def _derived_seed(space: SearchSpace, seed: int, told: int) -> int:
    """Return a seed that differs between spaces and between the parts of a resumed search."""
    digest = content_hash([seed, space.workload.key, space.implementation, told])
    return int(digest[:8], 16)  # NumPy takes 32 bits
