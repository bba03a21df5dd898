"""Our own sampler: a cost model says where to begin, a small Gaussian process where to go on.

The model is of the logarithm of the time, less what was expected before: by the implementation's
``prior``, and by results of other workloads and devices (``warm_start``). Candidates are ranked by
the lower end of what is predicted, one standard deviation below the mean. Where Optuna's samplers
take milliseconds a config at any number of trials, this one looks at all candidates again only
when enough is new: at every trial first, later when the trials have grown by a sixteenth.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tuner.domain.identity import Config
from tuner.domain.study import NearbyResults
from tuner.study.candidates import Candidates
from tuner.study.searchable import config_key
from tuner.study.searchable import derived_seed
from tuner.study.searchable import History
from tuner.study.searchable import Searchable
from tuner.study.surrogate import Floats
from tuner.study.surrogate import Surrogate
from tuner.study.warm_start import NearbyModel

Rows: TypeAlias = npt.NDArray[np.intp]

# Drawn before the model is asked: where the cost model says nothing, and where it does.
BLIND_DRAWS = 4
INFORMED_DRAWS = 2
# A config this much slower than the best (e times) and one much slower still are both just slow:
# the model is not to spend its effort on telling them apart. A config that rather fails than not
# counts as that much slower.
WORST_LOG = 1.0
# The cost model is believed as if it had been right so many times before, and every so many trials
# one is drawn blindly: otherwise a wrong model would never be found out.
FAITH = 4.0
BLIND_EVERY = 16
RANKED_EACH_TIME = 64
RANKED_PART = 16
TUNED_UP_TO = 64
TUNED_EVERY = 4
# Trials the model learns from: the best half of them, and others spread over the search.
MAX_LEARNT = 192
JITTER_LOG = 0.02  # of the first draws: so that searches of different seeds differ
FEWEST_UNTRIED = 1024


class GuidedSearch:
    """Proposes what the model expects most of. See the module's text.

    Args:
        space: What to search.
        seed: From the study file.
        history: Configs tried already.
        nearby: Results of other workloads and devices.
    """

    def __init__(
        self,
        space: Searchable,
        seed: int,
        history: History = (),
        nearby: Sequence[NearbyResults] = (),
    ) -> None:
        self._space = space
        self._random = np.random.default_rng(derived_seed(space, seed, len(history)))
        model = NearbyModel(space, nearby)
        self._candidates = Candidates(
            space,
            lambda configs, points: (
                np.array([space.prior(each) for each in configs]) + model.expected(configs, points)
            ),
        )
        self._surrogate = Surrogate(self._candidates.points.shape[1])
        self._tried: set[str] = set()
        self._open: list[int] = []  # proposed and not told yet
        self._logs: dict[int, float] = {}  # by row; infinite where the trial failed
        self._best = math.inf
        self._ranked: deque[int] = deque()
        self._new = 0  # told since the last ranking
        for config, value_us in history:
            self.tell(config, value_us)

    def ask(self) -> Config | None:
        """Return the next config: the default, then the draws, then what the model ranks first."""
        space = self._space
        if len(self._tried) >= space.trials:
            return None
        if space.default is not None and config_key(space.default) not in self._tried:
            return self._take(self._candidates.take_in(space.default))
        if self._new >= self._patience():
            self._ranked.clear()
        if not self._ranked:
            self._rank()
        return self._take(self._ranked.popleft() if self._ranked else None)

    def tell(self, config: Config, value_us: float | None) -> None:
        """Take in a median; a second telling of the same config changes nothing."""
        self._tried.add(config_key(config))
        row = self._candidates.take_in(config)
        if row is None or row in self._logs:
            return
        if row in self._open:
            self._open.remove(row)
        is_valid = value_us is not None and math.isfinite(value_us) and value_us > 0.0
        self._logs[row] = math.log(value_us) if is_valid and value_us is not None else math.inf
        self._new += 1
        if self._logs[row] < self._best:
            self._best = self._logs[row]
            self._candidates.take_in_neighbours(config)

    def _take(self, row: int | None) -> Config | None:
        if row is None:
            return None
        self._tried.add(self._candidates.keys[row])
        self._open.append(row)
        return self._candidates.configs[row]

    def _patience(self) -> int:
        """How many new results it takes to look at all candidates again."""
        return 1 if len(self._logs) < RANKED_EACH_TIME else len(self._logs) // RANKED_PART

    def _rank(self) -> None:
        """Queue the candidates to try next, as many as are taken before the next ranking."""
        untried = self._untried()
        while not self._candidates.is_whole and len(untried) < FEWEST_UNTRIED:
            self._candidates.grow()
            untried = self._untried()
        self._new = 0
        if len(untried) == 0:
            return
        if len(self._tried) % BLIND_EVERY == BLIND_EVERY - 1:
            self._ranked.append(int(self._random.choice(untried)))
            return
        scores = self._scores(untried)
        count = min(self._patience(), len(untried))
        order = np.argpartition(scores, count - 1)[:count]
        self._ranked.extend(untried[order[np.argsort(scores[order])]].tolist())

    def _untried(self) -> Rows:
        tried = np.zeros(len(self._candidates), dtype=bool)
        tried[self._open] = True
        tried[list(self._logs)] = True
        return np.flatnonzero(~tried)

    def _scores(self, rows: Rows) -> Floats:
        """Return what is expected of untried candidates: the smaller the better."""
        expected = self._candidates.expected
        is_blind = float(np.ptp(expected)) == 0.0
        learnt = self._learnt([row for row, log in self._logs.items() if math.isfinite(log)])
        draws = BLIND_DRAWS if is_blind else INFORMED_DRAWS
        if not learnt or len(self._logs) + len(self._open) < draws:
            return expected[rows] + self._random.normal(0.0, JITTER_LOG, len(rows))
        logs = np.minimum([self._logs[row] for row in learnt], self._best + WORST_LOG)
        means = self._trust(expected[learnt], logs) * expected
        offset = float(np.median(logs - means[learnt]))
        points, residuals = self._candidates.points[learnt], logs - means[learnt] - offset
        if len(learnt) <= TUNED_UP_TO and len(learnt) % TUNED_EVERY == 0:
            self._surrogate.tune(points, residuals)
        self._surrogate.fit(points, residuals)
        if self._open:
            # As if they had come out as predicted: no second one of their kind beside them.
            waiting = self._candidates.points[self._open[-MAX_LEARNT:]]
            guesses, _ = self._surrogate.predict(waiting)
            self._surrogate.fit(
                np.concatenate([points, waiting]), np.concatenate([residuals, guesses])
            )
        mean, deviation = self._surrogate.predict(self._candidates.points[rows])
        return means[rows] + mean - deviation + WORST_LOG * self._is_risky(rows)

    def _trust(self, expected: Floats, logs: Floats) -> float:
        """Return the factor of the cost model that fits the times: 1 before there are any."""
        own = FAITH * float(np.var(self._candidates.expected))
        if own == 0.0:
            return 0.0
        deviations = expected - expected.mean()
        explained = float(deviations @ (logs - logs.mean()))
        return min(max((explained + own) / (float(deviations @ deviations) + own), 0.0), 1.0)

    def _is_risky(self, rows: Rows) -> Floats:
        """Return 1.0 for the candidates that rather fail than not, 0.0 for the others."""
        failed = np.array([not math.isfinite(log) for log in self._logs.values()], dtype=float)
        if not failed.any():
            return np.zeros(len(rows))
        known = list(self._logs)[-MAX_LEARNT:]
        model = Surrogate(self._candidates.points.shape[1])
        model.fit(self._candidates.points[known], failed[-MAX_LEARNT:] - 0.5)
        mean, _ = model.predict(self._candidates.points[rows])
        return np.asarray(mean > 0.0, dtype=float)

    def _learnt(self, rows: list[int]) -> list[int]:
        """Return which of the rows with a time the model is fitted to."""
        if len(rows) <= MAX_LEARNT:
            return rows
        ranked = sorted(rows, key=self._logs.__getitem__)
        best, rest = ranked[: MAX_LEARNT // 2], set(ranked[MAX_LEARNT // 2 :])
        others = [row for row in rows if row in rest]
        spread = np.linspace(0, len(others) - 1, MAX_LEARNT - len(best)).round().astype(int)
        return [*best, *(others[position] for position in dict.fromkeys(spread.tolist()))]
