"""Optuna's samplers over our spaces.

Optuna is loaded when a search needs it, and known here and in ``optuna_copy`` only. Our own rows
are the record: an Optuna study lives in memory and is built again from them when a study goes on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.domain.identity import Config
from tuner.study.samplers import GP
from tuner.study.searchable import config_key
from tuner.study.searchable import derived_seed
from tuner.study.searchable import History
from tuner.study.searchable import numbered_values
from tuner.study.searchable import NumberedValues
from tuner.study.searchable import Searchable

if TYPE_CHECKING:
    import optuna

# Draws before the first untried config is taken instead. On a simulated space of 1008 configs,
# 100 trials, 4 found the best as reliably as 8, at 6 to 10 ms instead of 8 to 18 ms a config
# (2-core CPU machine, Optuna 5.0.0).
MAX_DRAWS = 4


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
        space: Searchable,
        sampler: str,
        seed: int,
        history: History = (),
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._values = numbered_values(space)
        self._distributions = _distributions(self._values)
        self._tried: set[str] = set()
        self._told: set[str] = set()
        self._open: dict[str, optuna.Trial] = {}
        self._untried = space.allowed()
        self._study = optuna.create_study(
            sampler=_make_sampler(sampler, derived_seed(space, seed, len(history)))
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
        config = {name: each.values[trial.params[name]] for name, each in self._values.items()}
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
            params = {name: each.position(config[name]) for name, each in self._values.items()}
        except (KeyError, ValueError):  # tried under another grid: it teaches this one nothing
            return
        self._study.add_trial(
            optuna.create_trial(
                state=state, value=value, params=params, distributions=self._distributions
            )
        )


def _distributions(
    values: Mapping[str, NumberedValues],
) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import CategoricalDistribution
    from optuna.distributions import IntDistribution

    return {
        name: IntDistribution(0, len(each.values) - 1)
        if each.is_numeric
        else CategoricalDistribution(range(len(each.values)))
        for name, each in values.items()
    }


def _make_sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    with warnings.catch_warnings():  # both have been called experimental for years
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == GP:
            return optuna.samplers.GPSampler(seed=seed)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True)
