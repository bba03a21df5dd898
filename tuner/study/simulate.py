"""Replays searches on spaces of which every config has been measured."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from tuner.domain.identity import Config
from tuner.domain.identity import Scalar
from tuner.domain.space import Grid
from tuner.domain.study import NearbyResults
from tuner.domain.workload import Workload
from tuner.study.baseline import Baseline
from tuner.study.baseline import evaluations_quantile
from tuner.study.baseline import mean_interval
from tuner.study.search import make_search
from tuner.study.searchable import config_key

CLOSE = 0.05
CLOSEST = 0.01


@dataclass(frozen=True, slots=True)
class RecordedSpace:
    """A space with the result of each config, to be searched as if it were not known.

    Attributes:
        workload: What was solved.
        implementation: Name of the implementation.
        results: Configs with their times in microseconds; None where one failed.
        default: Tried first; None lets the sampler choose.
        cost: The implementation's cost model.
    """

    workload: Workload
    implementation: str
    results: Sequence[tuple[Config, float | None]]
    default: Config | None = None
    cost: Callable[[Config], float] = lambda _config: 0.0
    _times_us: dict[str, float | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        times_us = {config_key(config): value for config, value in self.results}
        object.__setattr__(self, "_times_us", times_us)

    @property
    def grid(self) -> Grid:
        """The values that the configs have."""
        values: dict[str, dict[Scalar, None]] = {}
        for config, _ in self.results:
            for name, value in config.items():
                values.setdefault(name, {})[value] = None
        return {name: tuple(each) for name, each in values.items()}

    @property
    def trials(self) -> int:
        """All configs."""
        return len(self._times_us)

    @property
    def baseline(self) -> Baseline:
        """Random search over it.

        Raises:
            ValueError: No config has a time.
        """
        valid = [value for value in self._times_us.values() if value is not None]
        worst_us = max(valid)
        times = (worst_us if value is None else value for value in self._times_us.values())
        return Baseline(tuple(sorted(times)))

    def time_us(self, config: Config) -> float | None:
        """Return what a config took."""
        return self._times_us[config_key(config)]

    def is_allowed(self, config: Config) -> bool:
        """Tell whether a config is among them."""
        return config_key(config) in self._times_us

    def allowed(self) -> Iterator[Config]:
        """Yield all configs, the default first."""
        first = None if self.default is None else config_key(self.default)
        if self.default is not None:
            yield self.default
        for config, _ in self.results:
            if config_key(config) != first:
                yield config

    def prior(self, config: Config) -> float:
        """Return what the cost model expects."""
        return self.cost(config)

    def as_nearby(self) -> NearbyResults:
        """Return its valid results, for the search of another space."""
        valid = tuple((config, value) for config, value in self.results if value is not None)
        return NearbyResults(self.workload, same_device=True, results=valid)


@dataclass(frozen=True, slots=True)
class Replay:
    """One search of one space.

    Attributes:
        best_so_far_us: Best time after 1, 2, ... evaluations; infinite before the first valid one.
        propose_s: Seconds the sampler took for all proposals and tellings together.
    """

    best_so_far_us: tuple[float, ...]
    propose_s: float

    def evaluations_within(self, fraction: float, optimum_us: float) -> float:
        """Return how many evaluations it took to be that close; infinite where it never was."""
        for position, best_us in enumerate(self.best_so_far_us, start=1):
            if best_us <= optimum_us * (1.0 + fraction):
                return position
        return math.inf


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How one sampler did on one space, over several repeats.

    Attributes:
        sampler: Its name.
        within: By fraction: evaluations until so close to the optimum, one a repeat.
        scores: Score against calculated random search, one a repeat.
        propose_ms: Mean milliseconds a proposal, with being told its result.
    """

    sampler: str
    within: Mapping[float, tuple[float, ...]]
    scores: tuple[float, ...]
    propose_ms: float


def replay(
    space: RecordedSpace,
    sampler: str,
    seed: int,
    evaluations: int,
    nearby: Sequence[NearbyResults] = (),
) -> Replay:
    """Search a recorded space, until so many configs are evaluated or none is left."""
    begun = time.perf_counter()
    search = make_search(space, sampler, seed, nearby=nearby)
    best_us = math.inf
    so_far_us: list[float] = []
    while len(so_far_us) < evaluations and (config := search.ask()) is not None:
        value_us = space.time_us(config)
        search.tell(config, value_us)
        best_us = min(best_us, math.inf if value_us is None else value_us)
        so_far_us.append(best_us)
    return Replay(tuple(so_far_us), time.perf_counter() - begun)


def without_default(space: RecordedSpace) -> RecordedSpace:
    """Return the space for a search that is not told where to begin."""
    return RecordedSpace(space.workload, space.implementation, space.results, None, space.cost)


def judge(space: RecordedSpace, sampler: str, replays: Sequence[Replay]) -> Efficiency:
    """Return how replays of a sampler compare with the optimum and with random search."""
    baseline = space.baseline
    worst_us = baseline.times_us[-1]
    trials = sum(len(each.best_so_far_us) for each in replays)
    return Efficiency(
        sampler=sampler,
        within={
            fraction: tuple(
                each.evaluations_within(fraction, baseline.optimum_us) for each in replays
            )
            for fraction in (CLOSE, CLOSEST)
        },
        scores=tuple(
            baseline.score([min(best_us, worst_us) for best_us in each.best_so_far_us])
            for each in replays
        ),
        propose_ms=1000.0 * sum(each.propose_s for each in replays) / max(1, trials),
    )


def summarize(efficiencies: Sequence[Efficiency]) -> dict[str, float | None]:
    """Return the figures of one sampler over one or several spaces, as a row's columns.

    Medians and 90th percentiles are over all repeats of all spaces; None where so many did not
    come that close within their evaluations. The score is the mean over the spaces, its interval
    over the repeats.
    """
    row: dict[str, float | None] = {}
    for fraction, name in ((CLOSE, "within_5_percent"), (CLOSEST, "within_1_percent")):
        counts = sorted(value for each in efficiencies for value in each.within[fraction])
        row[f"{name}_median"] = _finite(statistics.median(counts))
        row[f"{name}_p90"] = _finite(counts[math.ceil(0.9 * len(counts)) - 1])
    by_repeat = [
        statistics.fmean(scores)
        for scores in zip(*(each.scores for each in efficiencies), strict=True)
    ]
    row["score"] = statistics.fmean(by_repeat)
    row["score_low"], row["score_high"] = mean_interval(by_repeat)
    row["propose_ms"] = statistics.fmean(each.propose_ms for each in efficiencies)
    return row


def summarize_random(baseline: Baseline) -> dict[str, float | None]:
    """Return the columns of ``summarize`` for random search, calculated: its score is 0."""
    row: dict[str, float | None] = {}
    for fraction, name in ((CLOSE, "within_5_percent"), (CLOSEST, "within_1_percent")):
        counts = len(baseline.times_us), baseline.within(fraction)
        row[f"{name}_median"] = evaluations_quantile(*counts, 0.5)
        row[f"{name}_p90"] = evaluations_quantile(*counts, 0.9)
    return {**row, "score": 0.0}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
