"""Statistics on simulated devices whose truth is known."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from tuner.domain import stats


def simulate(
    rng: random.Random,
    true_us: float,
    *,
    within: float,
    between: float = 0.0,
    processes: int = 3,
    samples: int = 50,
) -> list[list[float]]:
    """Return samples of log-normal noise at two levels."""
    shifts = [math.exp(rng.gauss(0.0, between)) for _ in range(processes)]
    return [
        [true_us * shift * math.exp(rng.gauss(0.0, within)) for _ in range(samples)]
        for shift in shifts
    ]


def codes(processes: list[list[float]]) -> set[str]:
    return {text.partition(":")[0] for text in stats.stability_warnings(processes)}


def test_result_median_is_the_median_of_process_medians() -> None:
    assert stats.result_median([[1.0, 2.0, 9.0], [5.0], [3.0, 4.0]]) == 3.5


def test_statistics_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="median"):
        stats.median([])
    with pytest.raises(ValueError, match="samples of every process"):
        stats.stability_warnings([[1.0], []])
    with pytest.raises(ValueError, match="no results"):
        stats.tie_set([])


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Tabled order statistics, e.g. Conover or Le Boudec: 6 -> (1, 6), 9 -> (2, 8), 50 -> (18, 33).
    [(1, 1, 1), (5, 1, 5), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (50, 18, 33)],
)
def test_median_interval_uses_the_tabled_order_statistics(count: int, low: int, high: int) -> None:
    values = [float(value) for value in range(count, 0, -1)]
    assert stats.median_interval(values) == (low, high)


def test_median_interval_is_continuous_where_the_normal_approximation_takes_over() -> None:
    exact = stats.median_interval([float(value) for value in range(1000)])
    approximate = stats.median_interval([float(value) for value in range(1001)])
    assert approximate[0] == pytest.approx(exact[0], abs=2)
    assert approximate[1] == pytest.approx(exact[1], abs=2)
    assert stats.median_interval([1.0] * 100_000) == (1.0, 1.0)


def test_median_interval_holds_the_true_median_as_often_as_it_says() -> None:
    rng = random.Random(5)
    held = 0
    for _ in range(2000):
        low, high = stats.median_interval([rng.expovariate(1.0) for _ in range(25)])
        held += low <= math.log(2.0) <= high
    assert held / 2000 >= 0.94


@pytest.mark.parametrize("degrees", [1, 2, 5, 12, 30, 120])
def test_student_table_agrees_with_numerical_integration(degrees: int) -> None:
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    scale /= math.sqrt(degrees * math.pi)
    end, steps = stats._student_95(degrees), 20_000
    width = end / steps
    area = sum(
        scale * (1 + ((step + 0.5) * width) ** 2 / degrees) ** (-(degrees + 1) / 2) * width
        for step in range(steps)
    )
    assert 2 * area == pytest.approx(0.95, abs=2e-4)


@pytest.mark.parametrize("within", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("between", [0.0, 0.01])
def test_ratio_interval_covers_the_true_ratio(within: float, between: float) -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(200):
        a = simulate(rng, 10.0, within=within, between=between)
        b = simulate(rng, 10.1, within=within, between=between)
        low, high = stats.ratio_interval(a, b)
        held += low <= 1.01 <= high
    assert held >= 184  # 95 % of 200, less three standard deviations


def test_ratio_interval_inverts_when_sides_are_swapped_and_holds_the_ratio() -> None:
    rng = random.Random(8)
    a, b = simulate(rng, 10.0, within=0.02), simulate(rng, 12.0, within=0.02)
    low, high = stats.ratio_interval(a, b)
    assert low <= stats.result_median(b) / stats.result_median(a) <= high
    assert stats.ratio_interval(b, a) == pytest.approx((1 / high, 1 / low))


def test_processes_that_disagree_widen_the_interval() -> None:
    steady = [[10.0, 10.01, 9.99] * 10] * 3
    restless = [[value * shift for value in steady[0]] for shift in (1.0, 1.02, 1.04)]
    assert not stats.tied(steady, [[value * 1.02 for value in each] for each in steady])
    assert stats.tied(steady, restless)


def test_processes_that_agree_by_chance_do_not_hide_noise_within_them() -> None:
    noisy = [[9.0, 9.5, 10.0, 10.5, 11.0] * 4] * 3
    assert stats.tied(noisy, [[value * 1.01 for value in each] for each in noisy])


def test_a_tie_can_be_broken_on_either_side() -> None:
    fast, slow = [[10.0, 10.01, 9.99] * 10] * 3, [[11.0, 11.01, 10.99] * 10] * 3
    assert not stats.tied(fast, slow)
    assert not stats.tied(slow, fast)


def test_a_single_sample_is_tied_with_everything() -> None:
    assert stats.ratio_interval([[1.0]], [[5.0] * 10]) == (0.0, math.inf)
    assert stats.tied([[1.0]], [[5.0]])


def test_a_wide_interval_does_not_tie_what_every_process_tells_apart() -> None:
    # Two processes each: Student's factor is 4.3 and more, and the interval holds 1.
    fast, slow = [[33.6] * 10, [41.3] * 10], [[59.2] * 10, [70.5] * 10]
    low, high = stats.ratio_interval(fast, slow)
    assert low < 1.0 < high
    assert not stats.tied(fast, slow)
    assert stats.tied(fast, [[40.0] * 10, [52.0] * 10])


def test_exact_samples_tie_only_when_equal() -> None:
    assert stats.tied([[2.0] * 7] * 3, [[2.0] * 7] * 3)
    assert not stats.tied([[2.0] * 7] * 3, [[2.001] * 7] * 3)


def test_tie_set_names_the_fastest_first_and_leaves_out_what_is_slower() -> None:
    rng = random.Random(9)
    results = [simulate(rng, true, within=0.03) for true in (11.5, 10.0, 10.0, 10.0, 13.0)]
    ties = stats.tie_set(results)
    assert sorted(ties) == [1, 2, 3]
    medians = [stats.result_median(results[index]) for index in ties]
    assert medians[0] == min(medians)


def test_choose_prefers_the_first_given_of_equal_ones() -> None:
    rng = random.Random(10)
    chosen = [stats.choose([simulate(rng, 10.0, within=0.02) for _ in range(3)]) for _ in range(60)]
    assert chosen.count(0) >= 54


def test_choose_does_not_pay_for_a_wide_interval() -> None:
    wide = [[12.0] * 10, [9.0] * 10, [12.0] * 10]
    steady = [[10.0, 10.01, 9.99] * 5] * 3
    assert stats.tied(steady, wide)
    assert stats.choose([wide, steady]) == 1


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.10])
@pytest.mark.parametrize("shape", ["plain", "drift", "bimodal"])
def test_regret_is_small_or_the_result_is_flagged(sigma: float, shape: str) -> None:
    """True gap 1 %: the choice costs at most 2 %, or the winner is marked as unsteady."""
    rng = random.Random(f"{sigma}{shape}")
    truths = [10.2, 10.0, 10.1, 10.5, 11.0]
    good = flagged = tie_or_clear = 0
    for _ in range(60):
        results = [simulate(rng, true, within=sigma) for true in truths]
        if shape == "drift":
            results = [
                [[s * (1 + 0.3 * i / 50) for i, s in enumerate(each)] for each in result]
                for result in results
            ]
        if shape == "bimodal":
            results = [
                [[s * (1.4 if rng.random() < 0.3 else 1.0) for s in each] for each in result]
                for result in results
            ]
        chosen = stats.choose(results)
        good += truths[chosen] / 10.0 <= 1.02
        flagged += bool(codes(results[chosen]) & {"high_stdev", "drift", "few_samples"})
        tie_or_clear += 1 in stats.tie_set(results)
    if sigma <= 0.03:
        assert good >= 57
        assert tie_or_clear >= 54
    if sigma > 0.03 or shape != "plain":
        assert flagged >= 57


def test_a_steady_result_gets_no_warning() -> None:
    rng = random.Random(11)
    assert sum(bool(codes(simulate(rng, 8.0, within=0.01))) for _ in range(100)) <= 2
    assert stats.stability_warnings([[8.0] * 50] * 3) == ()


@pytest.mark.parametrize(
    ("processes", "code"),
    [
        ([[10.0, 13.0] * 25] * 3, "high_stdev"),
        ([[10.0] * 49 + [16.0]] * 3, "outliers"),
        ([[10.0] * 49 + [4.0]] * 3, "outliers"),
        ([[10.0, 10.5, 9.5]], "few_samples"),
        ([[10.0]], "few_samples"),
        ([[10.0] * 50, [10.0] * 50, [10.6] * 50], "process_spread"),
        ([[10.0] * 25 + [10.4] * 25] * 3, "drift"),
        ([[10.0] * 50, [10.4] * 25 + [10.0] * 25, [10.0] * 50], "drift"),
    ],
)
def test_each_kind_of_unrest_has_its_code(processes: list[list[float]], code: str) -> None:
    warnings = [text for text in stats.stability_warnings(processes) if text.startswith(code)]
    assert len(warnings) == 1
    assert "; " in warnings[0]  # what is seen; the remedy


def test_thresholds_are_those_of_pyperf() -> None:
    just_below = [10.0 * (1 + 0.099 * sign) for sign in (-1, 1)] * 500
    assert statistics.stdev(just_below) / 10.0 < 0.1
    assert "high_stdev" not in codes([just_below])
    assert "outliers" not in codes([[10.0] * 200 + [14.9]])
