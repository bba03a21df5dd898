"""Calculated random search against random search done: every order, or very many."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tuner.study.baseline import Baseline
from tuner.study.baseline import evaluations_quantile
from tuner.study.baseline import mean_interval

TIMES = st.lists(
    st.floats(min_value=0.5, max_value=1e6, allow_nan=False), min_size=1, max_size=7
).map(lambda values: tuple(sorted(values)))


@given(TIMES)
def test_the_expected_best_is_the_mean_over_all_draws(times_us: tuple[float, ...]) -> None:
    baseline = Baseline(times_us)
    for draws in range(1, len(times_us) + 1):
        all_draws = list(itertools.combinations(times_us, draws))
        exact = statistics.fmean(min(each) for each in all_draws)
        assert baseline.expected_best_us(draws) == pytest.approx(exact, rel=1e-9)


@given(st.integers(1, 7).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count))))
def test_a_quantile_of_evaluations_is_the_fewest_over_all_orders(pair: tuple[int, int]) -> None:
    count, good = pair
    firsts = [
        1 + next(place for place, each in enumerate(order) if each < good)
        for order in itertools.permutations(range(count))
    ]
    for probability in (0.1, 0.5, 0.9, 1.0):
        fewest = evaluations_quantile(count, good, probability)
        share = sum(each <= fewest for each in firsts) / len(firsts)
        fewer = sum(each <= fewest - 1 for each in firsts) / len(firsts)
        assert share >= probability - 1e-9
        assert fewer < probability - 1e-9


def test_the_published_figures_of_1600_points() -> None:
    assert evaluations_quantile(1600, 80, 0.9) == pytest.approx(45, abs=1)
    assert evaluations_quantile(1600, 16, 0.9) == pytest.approx(214, abs=2)


@given(st.integers(2, 400), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_budget_ends_where_random_search_reaches_the_cutoff(
    count: int, generator: random.Random
) -> None:
    baseline = Baseline(tuple(sorted(generator.uniform(1.0, 9.0) for _ in range(count))))
    budget = baseline.budget()
    goal_us = baseline.median_us - 0.95 * (baseline.median_us - baseline.optimum_us)
    assert baseline.expected_best_us(budget) <= goal_us
    assert budget == 1 or baseline.expected_best_us(budget - 1) > goal_us


def test_scores_of_the_best_of_random_and_of_the_worst_search() -> None:
    generator = random.Random(3)
    baseline = Baseline(tuple(sorted(generator.uniform(1.0, 9.0) for _ in range(300))))
    budget = baseline.budget()
    as_random = [baseline.expected_best_us(each) for each in range(1, budget + 1)]
    assert baseline.score([baseline.optimum_us]) == pytest.approx(1.0)
    assert baseline.score(as_random) == pytest.approx(0.0, abs=1e-9)
    assert baseline.score([baseline.times_us[-1]]) < -1.0


def test_random_search_done_often_scores_0() -> None:
    generator = random.Random(4)
    times_us = [generator.uniform(1.0, 9.0) for _ in range(200)]
    baseline = Baseline(tuple(sorted(times_us)))
    scores = []
    for _ in range(400):
        generator.shuffle(times_us)
        best_us = itertools.accumulate(times_us[: baseline.budget()], min)
        scores.append(baseline.score(list(best_us)))
    low, high = mean_interval(scores)
    assert low - (high - low) / 2 < 0.0 < high + (high - low) / 2
    assert high - low < 0.3


def test_a_space_of_equal_times_has_nothing_to_find() -> None:
    baseline = Baseline((2.0, 2.0, 2.0))
    assert baseline.budget() == 1
    assert baseline.score([2.0]) == 0.0
    assert evaluations_quantile(3, baseline.within(0.01), 0.9) == 1


@pytest.mark.parametrize("good", [0, 4])
def test_no_good_config_is_no_question(good: int) -> None:
    with pytest.raises(ValueError, match="good configs"):
        evaluations_quantile(3, good, 0.5)


def test_one_value_has_no_width() -> None:
    assert mean_interval([2.0]) == (2.0, 2.0)
    low, high = mean_interval([1.0, 3.0])
    assert math.isclose((low + high) / 2, 2.0)
    assert math.isclose(high - 2.0, 1.96 * math.sqrt(2.0) / math.sqrt(2.0))
