"""Random search, calculated, and how a search compares with it.

The score is that of Willemsen, Schoonhoven, Filipovič, Tørring, van Nieuwpoort and van Werkhoven,
"A methodology for comparing optimization algorithms for auto-tuning", Future Generation Computer
Systems 159 (2024), doi 10.1016/j.future.2024.05.021, over evaluations: 1 is a search that has the
optimum at once, 0 is random search, below 0 is worse than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CUTOFF = 0.95  # of the way from the median to the optimum ends the budget
POINTS = 32  # equidistant points of the budget at which a search is compared


@dataclass(frozen=True, slots=True)
class Baseline:
    """Random search without replacement over one space.

    Attributes:
        times_us: All times of the space in ascending order. A config that failed stands in it
            as slow as the slowest valid one.
    """

    times_us: tuple[float, ...]

    @property
    def optimum_us(self) -> float:
        """The smallest time."""
        return self.times_us[0]

    @property
    def median_us(self) -> float:
        """What half of the configs are not slower than."""
        middle = len(self.times_us) // 2
        if len(self.times_us) % 2:
            return self.times_us[middle]
        return (self.times_us[middle - 1] + self.times_us[middle]) / 2.0

    def within(self, fraction: float) -> int:
        """Return how many configs are at most this fraction slower than the optimum."""
        limit_us = self.optimum_us * (1.0 + fraction)
        return sum(1 for each in self.times_us if each <= limit_us)

    def expected_best_us(self, evaluations: int) -> float:
        """Return the expected smallest time of so many configs drawn without replacement.

        Of N configs in order, the i-th is the best of k draws in C(N-i, k-1) of C(N, k) cases.
        """
        count, draws = len(self.times_us), min(evaluations, len(self.times_us))
        share = draws / count  # of the cases in which the first is among the draws
        total = 0.0
        for index, time_us in enumerate(self.times_us):
            total += share * time_us
            left = count - index - 1
            if left < draws:
                break
            share *= (left - draws + 1) / left
        return total

    def budget(self) -> int:
        """Return after how many evaluations random search is expected to be at the cutoff."""
        goal_us = self.median_us - CUTOFF * (self.median_us - self.optimum_us)
        low, high = 1, len(self.times_us)
        while low < high:  # what is expected falls with the number of draws
            middle = (low + high) // 2
            if self.expected_best_us(middle) <= goal_us:
                high = middle
            else:
                low = middle + 1
        return low

    def score(self, best_so_far_us: Sequence[float]) -> float:
        """Return how much better than random search a search was, on average over the budget.

        Args:
            best_so_far_us: Best time after 1, 2, ... evaluations; its last value holds on.
        """
        budget = self.budget()
        points = sorted({max(1, round(budget * step / POINTS)) for step in range(1, POINTS + 1)})
        shares = []
        for point in points:
            random_us = self.expected_best_us(point)
            reached_us = best_so_far_us[min(point, len(best_so_far_us)) - 1]
            room_us = random_us - self.optimum_us
            shares.append((random_us - reached_us) / room_us if room_us > 0.0 else 0.0)
        return sum(shares) / len(shares)


def evaluations_quantile(count: int, good: int, probability: float) -> int:
    """Return the fewest draws that hold one of ``good`` among ``count`` with a probability.

    Raises:
        ValueError: There is no good one.
    """
    if not 1 <= good <= count:
        raise ValueError(f"{good} good configs of {count}")
    missed = 1.0
    for draws in range(1, count + 1):
        missed *= max(0, count - good - draws + 1) / (count - draws + 1)
        if 1.0 - missed >= probability - 1e-12:
            return draws
    return count


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % interval of a mean: 1.96 standard errors to each side."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return (mean, mean)
    variance = sum((each - mean) ** 2 for each in values) / (len(values) - 1)
    half = 1.96 * math.sqrt(variance / len(values))
    return (mean - half, mean + half)
