"""What results of neighbouring workloads and devices say about a space before its first trial."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tuner.domain.identity import Config
from tuner.domain.study import NearbyResults
from tuner.domain.workload import Workload
from tuner.study.candidates import Encoding
from tuner.study.searchable import config_key
from tuner.study.searchable import Searchable
from tuner.study.surrogate import Floats
from tuner.study.surrogate import Surrogate

# Half: a neighbour's times tell the rank better than the size of a difference. Chosen, as the
# weights below, on 12 shapes of one kernel on an H200 (docs/results/search.md).
TRUST = 0.5
WORST_LOG = 1.0  # slower than e times the best is just slow
DECAY = 2.0
# How far a factor of two puts a workload away. The last dimension is the contiguous one, which
# decides more about a kernel than how often it is repeated.
LAST_DIMENSION, OTHER_DIMENSION = 1.0, 0.5
OTHER_DTYPE, OTHER_DEVICE = 0.5, 0.5
MAX_NEIGHBOURS = 8
MAX_LEARNT = 256


class NearbyModel:
    """Expects of a config what it gave elsewhere, the nearer the more.

    Args:
        space: The space to be searched.
        nearby: Results of the same implementation; those without a valid time are left out.
    """

    def __init__(self, space: Searchable, nearby: Sequence[NearbyResults]) -> None:
        self._encoding = Encoding(space)
        weighted = sorted(
            ((weight(space.workload, each), each) for each in nearby),
            key=lambda pair: -pair[0],
        )
        models = [
            (each_weight, _Neighbour(self._encoding, each))
            for each_weight, each in weighted[:MAX_NEIGHBOURS]
        ]
        self._models = [(each_weight, model) for each_weight, model in models if model.is_usable]

    def expected(self, configs: Sequence[Config], points: Floats) -> Floats:
        """Return the expected logarithm of the time over the best; 0 where nothing is known.

        Args:
            configs: n configs of the space.
            points: Their coordinates, shape (n, dimensions).
        """
        total = sum(each_weight for each_weight, _ in self._models)
        result = np.zeros(len(configs))
        for each_weight, model in self._models:
            result += TRUST * each_weight / total * model.expected(configs, points)
        return result


def weight(workload: Workload, nearby: NearbyResults) -> float:
    """Return how much a neighbour counts: 1.0 for the same workload on the same device."""
    other = nearby.workload
    pairs = list(zip(workload.shape, other.shape, strict=True))
    factors = [OTHER_DIMENSION] * (len(pairs) - 1) + [LAST_DIMENSION]
    distance = sum(
        factor * abs(math.log2(mine / theirs))
        for factor, (mine, theirs) in zip(factors, pairs, strict=True)
    )
    distance += OTHER_DTYPE * (workload.dtype != other.dtype)
    distance += OTHER_DEVICE * (not nearby.same_device)
    return math.exp(-DECAY * distance)


class _Neighbour:
    """One neighbour's results: known for the configs tried there, modelled for the others."""

    def __init__(self, encoding: Encoding, nearby: NearbyResults) -> None:
        valid = [
            (config, value_us)
            for config, value_us in nearby.results
            if math.isfinite(value_us) and value_us > 0.0
        ]
        best_us = min((value_us for _, value_us in valid), default=1.0)
        self._known: dict[str, float] = {}
        rows: list[list[float]] = []
        for config, value_us in valid:
            try:
                rows.append(encoding.point(config))
            except (KeyError, ValueError):  # a value that this space does not have
                continue
            self._known[config_key(config)] = min(math.log(value_us / best_us), WORST_LOG)
        self.is_usable = bool(rows)
        if self.is_usable:
            self._fit(np.array(rows).reshape(len(rows), encoding.dimensions))

    def expected(self, configs: Sequence[Config], points: Floats) -> Floats:
        modelled, _ = self._surrogate.predict(points)
        return np.array(
            [
                self._known.get(config_key(config), self._mean + value)
                for config, value in zip(configs, modelled.tolist(), strict=True)
            ]
        )

    def _fit(self, points: Floats) -> None:
        logs = np.array(list(self._known.values()))
        order = np.argsort(logs, kind="stable")
        spread = np.linspace(0, len(order) - 1, min(len(order), MAX_LEARNT)).round().astype(int)
        learnt = order[np.unique(spread)]
        self._mean = float(logs[learnt].mean())
        self._surrogate = Surrogate(points.shape[1])
        self._surrogate.fit(points[learnt], logs[learnt] - self._mean)
