"""What proposes the next config of a search space."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Protocol
from typing import TYPE_CHECKING

from tuner.domain.identity import Config
from tuner.domain.outcome import Outcome
from tuner.domain.study import NearbyResults
from tuner.domain.study import StoredTrial
from tuner.study.samplers import EXHAUSTIVE
from tuner.study.samplers import GUIDED
from tuner.study.samplers import RANDOM
from tuner.study.searchable import config_key
from tuner.study.searchable import derived_seed
from tuner.study.searchable import History
from tuner.study.searchable import Searchable

if TYPE_CHECKING:
    from tuner.study.plan import SearchSpace

# Configs that a random search draws among at a time.
SHUFFLED = 16_384


class Search(Protocol):
    """Proposes the configs of one space, never one twice and never a refused one.

    Several configs may be asked for before the first of them is told.
    """

    def ask(self) -> Config | None:
        """Return the next config to try, or None when the plan for this space is done."""

    def tell(self, config: Config, value_us: float | None) -> None:
        """Tell the median a config gave; None, or a value that is no duration, where it failed."""


def make_search(
    space: Searchable,
    sampler: str,
    seed: int,
    history: History = (),
    nearby: Sequence[NearbyResults] = (),
) -> Search:
    """Return the search of a space, having been told what was measured before.

    Args:
        space: What to search.
        sampler: One of the names in ``samplers``: usually ``space.sampler``.
        seed: From the study file. Spaces, and parts of an interrupted search, get their own
            seeds derived from it, so that none repeats the draws of another.
        history: Configs tried already with their medians, None for failed ones, in order.
        nearby: Results of other workloads and devices, for a warm start; only ``guided``
            makes use of them.
    """
    if sampler == EXHAUSTIVE:
        return ListedSearch(space, space.allowed(), history)
    if sampler == RANDOM:
        generator = random.Random(derived_seed(space, seed, len(history)))  # noqa: S311
        return ListedSearch(space, _shuffled(space, generator), history)
    if sampler == GUIDED:
        from tuner.study.guided import GuidedSearch

        return GuidedSearch(space, seed, history, nearby)
    from tuner.study.optuna_search import OptunaSearch

    return OptunaSearch(space, sampler, seed, history)


def make_searches(
    spaces: Sequence[SearchSpace],
    trials: Sequence[StoredTrial],
    seed: int,
    nearby: Callable[[str], Sequence[NearbyResults]],
) -> dict[str, Search]:
    """Return the search of each space of a workload, by implementation.

    Args:
        spaces: Of the workload.
        trials: Stored trials on it.
        seed: From the study file.
        nearby: Returns an implementation's results of other workloads and devices; asked only
            where the sampler makes use of them.
    """
    tried = [trial for trial in trials if trial.outcome is not Outcome.SKIPPED]
    searches: dict[str, Search] = {}
    for space in spaces:
        name = space.implementation
        history = [
            (trial.point.config, trial.quick_median_us)
            for trial in tried
            if trial.point.implementation == name
        ]
        found = nearby(name) if space.sampler == GUIDED else ()
        searches[name] = make_search(space, space.sampler, seed, history, found)
    return searches


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


class ListedSearch:
    """The configs of a list in its order, as many as are planned: exhaustive and random search.

    Args:
        space: What is searched.
        configs: Its allowed configs, each once, the default first.
        history: Configs tried already.
    """

    def __init__(self, space: Searchable, configs: Iterator[Config], history: History = ()) -> None:
        self._trials = space.trials
        self._tried = {config_key(config) for config, _ in history}
        self._configs = configs

    def ask(self) -> Config | None:
        """Return the next untried config."""
        if len(self._tried) >= self._trials:
            return None
        for config in self._configs:
            if config_key(config) not in self._tried:
                self._tried.add(config_key(config))
                return config
        return None

    def tell(self, config: Config, value_us: float | None) -> None:
        """Note that a config was tried."""
        del value_us
        self._tried.add(config_key(config))


def _shuffled(space: Searchable, generator: random.Random) -> Iterator[Config]:
    """Yield the default, then the others in random order; large spaces some at a time."""
    configs = space.allowed()
    if space.default is not None:
        yield next(configs)
    while chunk := list(itertools.islice(configs, SHUFFLED)):
        generator.shuffle(chunk)
        yield from chunk
