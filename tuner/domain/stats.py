"""Statistics of timed samples: intervals, stability and ties. Standard library only, deterministic.

All values are durations in microseconds, finite and greater than 0; the bench half refuses
others. A *result* is the samples of each of its processes, in the order taken. Two levels of
variation are kept apart throughout: samples within a process, and processes among themselves
(memory layout, clocks and placement differ from one process to the next and stay put within
it), after Kalibera and Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013).
"""

from __future__ import annotations

import bisect
import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Processes: TypeAlias = Sequence[Sequence[float]]

# Thresholds of pyperf's `check` command.
MAX_RELATIVE_STDEV = 0.10
MAX_OUTLIER_DISTANCE = 0.50
WANTED_PRECISION = 0.01
# Ours: what moves a winner among kernels that differ by a few percent.
MAX_PROCESS_SPREAD = 0.05
MAX_DRIFT = 0.02
MIN_SAMPLES_FOR_DRIFT = 10  # two halves of 5 lie apart by chance in 2 of 252 orders
# How much slower than the fastest a tied result may be and still be preferred.
MAX_TIE_LOSS = 0.01
# Results nearer than this can tie although their process medians don't overlap.
MAX_TIE_GAP = 0.02

_Z_95 = 1.96
_EXACT_COUNT = 1000  # above it the normal approximation of the binomial is as good, and 2^-n is 0
# 97.5 % points of Student's t by degrees of freedom.
_T_95 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
    10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 60: 2.000, 120: 1.980,
}  # fmt: skip
_T_KEYS = tuple(_T_95)


@dataclass(frozen=True, slots=True)
class _LogMean:
    """Mean of the logs of a result's process medians, with the variance of that mean."""

    mean: float
    variance: float
    freedom: float


def median(values: Sequence[float]) -> float:
    """Return the median; the mean of the middle two of an even number.

    Raises:
        ValueError: There are no values.
    """
    return float(statistics.median(values))


def result_median(processes: Processes) -> float:
    """Return the figure of a result: the median of its process medians.

    Raises:
        ValueError: There is no process, or one without samples.
    """
    return median([median(samples) for samples in processes])


def relative_stdev(values: Sequence[float]) -> float:
    """Return the sample standard deviation over the mean; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    return statistics.stdev(values) / statistics.fmean(values)


def relative_range(values: Sequence[float]) -> float:
    """Return (largest - smallest) over the median.

    Raises:
        ValueError: There are no values.
    """
    return (max(values) - min(values)) / median(values)


def relative_deviation(value: float, reference: float) -> float:
    """Return how far a value is from a reference, as a fraction of the reference: 0.1 is +10 %."""
    return value / reference - 1.0


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval that holds the true median with at least the given confidence.

    The interval lies between two order statistics, chosen by the binomial distribution; it
    assumes nothing about the shape of the distribution (Le Boudec, "Performance Evaluation of
    Computer and Communication Systems", theorem 2.1). Fewer than six values can't give 95 %;
    the answer is then the smallest and the largest value.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    ordered = sorted(values)
    cut = _cut(len(ordered), confidence)
    return ordered[cut], ordered[-1 - cut]


def stability_warnings(processes_us: Processes) -> tuple[str, ...]:
    """Say in which ways a result is unsteady. Each text is ``code: what is seen and the remedy``.

    The first three are the checks of pyperf's ``check`` command, over all samples; the last two
    look at what those miss: processes that disagree, and time that grows or shrinks within a
    process (a warming device). The codes are ``high_stdev``, ``outliers``, ``few_samples``,
    ``process_spread`` and ``drift``; they are stored, so they don't change.

    Raises:
        ValueError: There is no process, or one without samples.
    """
    values = [sample for samples in processes_us for sample in samples]
    if not values or not all(processes_us):
        raise ValueError("stability needs samples of every process")
    found = (
        _stdev_warning(values),
        _outlier_warning(values),
        _count_warning(values),
        _spread_warning([median(samples) for samples in processes_us]),
        _drift_warning(processes_us),
    )
    return tuple(text for text in found if text)


def ratio_interval(a_processes: Processes, b_processes: Processes) -> tuple[float, float]:
    """Return a 95 % interval of how many times as long ``b`` takes as ``a``.

    Welch's interval on the logs of the process medians, so that it is the inverse when the
    sides are swapped. The variance of a result is that of its process medians; as that is a
    rough estimate with three processes, it is never taken to be less than what the samples
    within the processes show (the variance of a process median, from its order-statistic
    interval). Processes are the unit of repetition, as in Kalibera and Jones. One process
    alone can't show how processes differ: its interval holds for that process only.

    Returns:
        Lower and upper end; ``(0, inf)`` where either side is one single sample.

    Raises:
        ValueError: A side has no process, a process has no samples, or a sample is not > 0.
    """
    a, b = _log_mean(a_processes), _log_mean(b_processes)
    variance = a.variance + b.variance
    if math.isinf(variance):
        return 0.0, math.inf
    half_width = 0.0
    if variance > 0.0:
        freedom = variance**2 / (a.variance**2 / a.freedom + b.variance**2 / b.freedom)
        half_width = _student_95(freedom) * math.sqrt(variance)
    difference = b.mean - a.mean
    return math.exp(difference - half_width), math.exp(difference + half_width)


def tied(best: Processes, other: Processes) -> bool:
    """Tell whether two results can't be told apart.

    The interval of their ratio must hold 1, and, where both have several processes, either
    their process medians overlap or the results lie within 2 %. With two or three processes
    Student's interval alone is so wide that it would tie results of which one was 70 % slower
    in every process.

    Raises:
        ValueError: As ``ratio_interval``.
    """
    low, high = ratio_interval(best, other)
    if not low <= 1.0 <= high:
        return False
    return may_tie([median(samples) for samples in best], [median(samples) for samples in other])


def may_tie(best_medians: Sequence[float], other_medians: Sequence[float]) -> bool:
    """Tell whether results with these process medians can tie, whatever their samples are.

    Raises:
        ValueError: A side has no process.
    """
    if min(len(best_medians), len(other_medians)) < 2:  # one process shows no range to overlap
        return True
    overlap = min(other_medians) <= max(best_medians) and min(best_medians) <= max(other_medians)
    return overlap or abs(math.log(median(other_medians) / median(best_medians))) <= MAX_TIE_GAP


def tie_set(results: Sequence[Processes]) -> tuple[int, ...]:
    """Return the indices of the fastest result and of all that tie with it, fastest first.

    Equal medians keep their order.

    Raises:
        ValueError: There are no results, or one is not a result.
    """
    order = _by_median(results)
    fastest = results[order[0]]
    return (order[0], *(index for index in order[1:] if tied(fastest, results[index])))


def choose(results: Sequence[Processes]) -> int:
    """Return the index of the result to use: of those tied with the fastest, the first given.

    Give results in the order of preference, the simplest first: repeated measurements then name
    the same one, not whichever was luckiest. A tied result that measures more than 1 % slower
    than the fastest is not taken, so that a wide interval does not cost speed.

    Raises:
        ValueError: There are no results, or one is not a result.
    """
    ties = tie_set(results)
    limit_us = result_median(results[ties[0]]) * (1.0 + MAX_TIE_LOSS)
    return min(index for index in ties if result_median(results[index]) <= limit_us)


def _by_median(results: Sequence[Processes]) -> list[int]:
    if not results:
        raise ValueError("there are no results to compare")
    return sorted(range(len(results)), key=lambda index: result_median(results[index]))


@functools.cache
def _cut(count: int, confidence: float) -> int:
    """Return how many values to leave off at each end of ``count`` ordered ones."""
    tail = (1.0 - confidence) / 2.0
    if count > _EXACT_COUNT:
        z = statistics.NormalDist().inv_cdf(1.0 - tail)
        return math.floor((count - z * math.sqrt(count)) / 2.0) - 1
    cut, below = 0, 0.5**count
    # `below` is P(Binomial(count, 1/2) <= cut): leaving off `cut` values is right while the
    # median has no more than `tail` probability to lie among them.
    while below <= tail:
        cut += 1
        below += math.comb(count, cut) * 0.5**count
    return max(0, cut - 1)


def _coverage(count: int, cut: int) -> float:
    """Return the probability that the interval without ``cut`` values at each end is right."""
    if count > _EXACT_COUNT:
        return 0.95
    return 1.0 - 2.0 * sum(math.comb(count, k) for k in range(cut + 1)) * 0.5**count


def _median_variance(logs: Sequence[float]) -> float:
    """Return the variance of a median, from the width of its interval; inf for one value."""
    count = len(logs)
    if count < 2:
        return math.inf
    low, high = median_interval(logs)
    z = statistics.NormalDist().inv_cdf((1.0 + _coverage(count, _cut(count, 0.95))) / 2.0)
    return float(((high - low) / (2.0 * z)) ** 2)


def _log_mean(processes: Processes) -> _LogMean:
    if not processes:
        raise ValueError("a result needs at least one process")
    logs = [[math.log(sample) for sample in samples] for samples in processes]
    medians = [median(samples) for samples in logs]
    count = len(logs)
    within = [_median_variance(samples) for samples in logs if len(samples) > 1]
    within_variance = statistics.fmean(within) / count if within else math.inf
    if count == 1:
        return _LogMean(medians[0], within_variance, max(1, len(logs[0]) - 1))
    between_variance = statistics.variance(medians) / count
    if within and within_variance > between_variance:
        freedom = sum(len(samples) - 1 for samples in logs)
        return _LogMean(statistics.fmean(medians), within_variance, freedom)
    return _LogMean(statistics.fmean(medians), between_variance, count - 1)


def _student_95(freedom: float) -> float:
    """Return Student's t for the next lower tabled degrees of freedom, which is the wider one."""
    position = bisect.bisect_right(_T_KEYS, freedom * (1.0 + 1e-9)) - 1
    return _T_95[_T_KEYS[max(0, position)]]


def _stdev_warning(values: Sequence[float]) -> str:
    share = relative_stdev(values)
    if share < MAX_RELATIVE_STDEV:
        return ""
    return (
        f"high_stdev: standard deviation is {share:.0%} of the mean; "
        "free the device of other work, or take more or longer samples"
    )


def _outlier_warning(values: Sequence[float]) -> str:
    mean = statistics.fmean(values)
    low, high = (relative_deviation(edge, mean) for edge in (min(values), max(values)))
    if max(-low, high) < MAX_OUTLIER_DISTANCE:
        return ""
    edge = "shortest" if -low > high else "longest"
    return (
        f"outliers: the {edge} sample is {max(-low, high):.0%} off the mean; "
        "look for other work on the device, or lengthen the samples"
    )


def _count_warning(values: Sequence[float]) -> str:
    wanted = math.ceil((_Z_95 * relative_stdev(values) / WANTED_PRECISION) ** 2)
    if len(values) >= max(2, wanted):
        return ""
    return (
        f"few_samples: {len(values)} taken, {max(2, wanted)} are needed to be 95 % certain "
        "within 1 %; raise samples or processes"
    )


def _spread_warning(medians: Sequence[float]) -> str:
    spread = relative_range(medians)
    if spread < MAX_PROCESS_SPREAD:
        return ""
    return (
        f"process_spread: process medians lie {spread:.0%} apart; "
        "raise processes, or look for what differs from one process to the next"
    )


def _drift_warning(processes: Processes) -> str:
    worst = 0.0
    for samples in processes:
        if len(samples) < MIN_SAMPLES_FOR_DRIFT:
            continue
        half = len(samples) // 2
        first, second = samples[:half], samples[-half:]
        first_low, first_high = median_interval(first)
        second_low, second_high = median_interval(second)
        drift = relative_deviation(median(second), median(first))
        if (second_low > first_high or second_high < first_low) and abs(drift) > abs(worst):
            worst = drift
    if abs(worst) < MAX_DRIFT:
        return ""
    return (
        f"drift: the second half of a process is {worst:+.0%} against the first; "
        "raise warmup, or let the device cool down"
    )
