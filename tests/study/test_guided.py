"""The guided sampler: what it learns from, how soon it is there, what it costs."""

from __future__ import annotations

import csv
import itertools
import math
import statistics
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tuner.domain.identity import Config
from tuner.domain.space import Grid
from tuner.domain.space import grid_configs
from tuner.domain.study import NearbyResults
from tuner.domain.workload import Workload
from tuner.errors import MissingDependency
from tuner.study import samplers
from tuner.study.candidates import Candidates
from tuner.study.candidates import Encoding
from tuner.study.guided import GuidedSearch
from tuner.study.simulate import RecordedSpace
from tuner.study.simulate import replay
from tuner.study.surrogate import Surrogate
from tuner.study.warm_start import NearbyModel
from tuner.study.warm_start import weight

WORKLOAD = Workload("fake", (1024, 4096))
GRID: Grid = {
    "BLOCK": (32, 64, 128, 256, 512, 1024),
    "ROWS": (1, 2, 4, 8, 16, 32),
    "UNROLL": (1, 2, 3, 4, 6, 8, 12),
    "ORDER": ("row", "column", "tile", "snake"),
}
DATA = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "data"


def time_us(config: Config) -> float:
    """Interacting parameters, one best point of 10 us."""
    block, rows = math.log2(int(config["BLOCK"])), math.log2(int(config["ROWS"]))
    slow_us = 1.5 * (block - 8) ** 2 + (rows - 2) ** 2 + 0.8 * (block - 8) * (rows - 2)
    slow_us += 0.7 * abs(math.log2(int(config["UNROLL"]) / 4))
    return 10.0 + slow_us + {"row": 2.0, "column": 6.0, "tile": 0.0}.get(str(config["ORDER"]), 1.0)


def recorded(
    time_of: Callable[[Config], float | None] = time_us,
    workload: Workload = WORKLOAD,
    cost: Callable[[Config], float] = lambda _config: 0.0,
    grid: Grid = GRID,
) -> RecordedSpace:
    results = [(config, time_of(config)) for config in grid_configs(grid)]
    return RecordedSpace(workload, "hip-fake", results, None, cost)


def evaluations(
    space: RecordedSpace,
    fraction: float,
    seed: int,
    nearby: Sequence[NearbyResults] = (),
    trials: int = 60,
) -> float:
    done = replay(space, "guided", seed, trials, nearby)
    return done.evaluations_within(fraction, space.baseline.optimum_us)


# --- what it finds


def test_it_finds_the_best_without_a_cost_model() -> None:
    counts = [evaluations(recorded(), 0.01, seed) for seed in range(5)]
    assert statistics.median(counts) <= 40  # random search: 504 on average


def test_a_true_cost_model_gives_the_best_at_once_and_a_false_one_is_overcome() -> None:
    true = recorded(cost=lambda config: math.log(time_us(config)))
    false = recorded(cost=lambda config: -math.log(time_us(config)))
    # The first draws are blurred, so that repeats differ.
    assert evaluations(true, 0.05, 0) <= 3
    assert statistics.median(evaluations(false, 0.05, seed) for seed in range(3)) <= 60


def test_failures_are_kept_away_from() -> None:
    space = recorded(lambda config: None if int(config["BLOCK"]) > 256 else time_us(config))
    done = [replay(space, "guided", seed, 40) for seed in range(3)]
    assert all(each.evaluations_within(0.05, 10.0) <= 40 for each in done)
    search = GuidedSearch(space, 0)
    failed = 0
    for _ in range(60):
        config = search.ask()
        assert config is not None
        search.tell(config, space.time_us(config))
        failed += space.time_us(config) is None
    assert failed < 15  # a third of the space


def test_stored_spaces_of_a_kernel_are_searched_within_the_bar() -> None:
    """12 evaluations to 5 %, from nowhere: no default, no cost model. Random search takes 22."""
    counts = []
    for cols in (512, 4096):
        with (DATA / f"hip-vector-{cols}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        names = list(rows[0])[:8]
        results = [
            ({name: int(row[name]) for name in names}, float(row[f"1024x{cols}"])) for row in rows
        ]
        space = RecordedSpace(WORKLOAD, "hip-fake", results)
        counts += [evaluations(space, 0.05, seed, trials=40) for seed in range(4)]
    assert statistics.median(counts) <= 12


# --- asking ahead, telling late


def test_configs_asked_for_ahead_are_of_different_kinds() -> None:
    space = recorded()
    search = GuidedSearch(space, 0)
    for _ in range(12):
        config = search.ask()
        assert config is not None
        search.tell(config, space.time_us(config))
    ahead = [search.ask() for _ in range(8)]
    keys = {tuple(each.items()) for each in ahead if each is not None}
    assert len(keys) == 8
    for each in ahead:
        assert each is not None
        search.tell(each, space.time_us(each))
    assert search.ask() is not None


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_any_order_of_asking_and_telling_covers_the_space_once(steps: list[int], seed: int) -> None:
    grid: Grid = {"A": (1, 2, 3, 4), "B": (True, False), "C": ("x", "y", "z")}
    space = recorded(lambda config: float(config["A"]), grid=grid)  # type: ignore[arg-type]
    search = GuidedSearch(space, seed)
    open_configs: list[Config] = []
    seen: list[str] = []
    for step in itertools.chain(steps, itertools.repeat(3)):
        if step < 2 and open_configs:
            config = open_configs.pop()
            search.tell(config, None if step else space.time_us(config))
            continue
        asked = search.ask()
        if asked is None:
            break
        seen.append(repr(asked))
        open_configs.append(asked)
    assert len(seen) == len(set(seen)) == 24


# --- results from elsewhere


def test_a_neighbour_shows_the_way() -> None:
    space = recorded()
    near = recorded(
        lambda config: 3.0 * time_us(config), Workload("fake", (2048, 4096))
    ).as_nearby()
    assert evaluations(space, 0.03, 0, nearby=[near]) <= 2


def test_a_few_results_of_a_neighbour_help_too() -> None:
    space = recorded()
    other = recorded(workload=Workload("fake", (2048, 4096)))
    search = GuidedSearch(other, 5)
    results = []
    for _ in range(40):
        config = search.ask()
        assert config is not None
        value_us = other.time_us(config)
        assert value_us is not None
        search.tell(config, value_us)
        results.append((config, value_us))
    near = NearbyResults(other.workload, same_device=False, results=tuple(results))
    cold = [evaluations(space, 0.03, seed) for seed in range(3)]
    warm = [evaluations(space, 0.03, seed, nearby=[near]) for seed in range(3)]
    assert statistics.median(warm) <= 3
    assert statistics.median(warm) < statistics.median(cold)


def test_a_misleading_neighbour_is_overcome() -> None:
    near = recorded(lambda config: 1000.0 / time_us(config)).as_nearby()
    counts = [evaluations(recorded(), 0.05, seed, nearby=[near]) for seed in range(3)]
    assert statistics.median(counts) <= 60


def test_values_that_this_space_lacks_and_useless_neighbours_are_passed_over() -> None:
    space = recorded()
    results: tuple[tuple[Config, float], ...] = (
        ({"BLOCK": 2048, "ROWS": 1, "UNROLL": 1, "ORDER": "row"}, 1.0),
        ({"OTHER": 1}, 2.0),
    )
    model = NearbyModel(space, [NearbyResults(WORKLOAD, same_device=True, results=results)])
    configs = [config for config, _ in space.results[:3]]
    assert model.expected(configs, Encoding(space).points(configs)).tolist() == [0.0] * 3


def test_the_nearer_a_neighbour_the_more_it_counts() -> None:
    def weight_of(shape: tuple[int, ...], dtype: str = "float32", *, same: bool = True) -> float:
        return weight(WORKLOAD, NearbyResults(Workload("fake", shape, dtype), same, ()))

    assert weight_of((1024, 4096)) == 1.0
    assert weight_of((2048, 4096)) > weight_of((1024, 8192)) > weight_of((1024, 65536)) > 0.0
    assert weight_of((512, 4096)) == weight_of((2048, 4096))
    assert weight_of((1024, 4096), "float16") < 1.0
    assert weight_of((1024, 4096), same=False) < 1.0


# --- the parts


def test_the_surrogate_is_exact_where_it_was_told_and_unsure_where_not() -> None:
    points = np.array([[0.0], [1.0], [2.0], [6.0]])
    values = np.array([-0.5, 0.1, 0.6, -0.2])
    model = Surrogate(1)
    model.fit(points, values)
    mean, deviation = model.predict(np.array([[1.0], [60.0]]))
    assert mean[0] == pytest.approx(0.1, abs=0.01)
    assert mean[1] == pytest.approx(0.0, abs=1e-6)
    assert deviation[0] < 0.2 * deviation[1]


def test_tuning_finds_the_parameter_that_does_nothing() -> None:
    generator = np.random.default_rng(0)
    points = generator.integers(0, 6, (40, 2)).astype(float)
    values = np.sin(points[:, 0] * 2.0)  # rough in the first, flat in the second
    before, after = Surrogate(2), Surrogate(2)
    for _ in range(6):
        after.tune(points, values - values.mean())
    others = generator.integers(0, 6, (40, 2)).astype(float)
    truth = np.sin(others[:, 0] * 2.0) - values.mean()
    errors = []
    for model in (before, after):
        model.fit(points, values - values.mean())
        errors.append(float(np.abs(model.predict(others)[0] - truth).mean()))
    assert errors[1] < 0.5 * errors[0]


def test_categories_are_all_as_far_apart_and_numbers_are_not() -> None:
    encoding = Encoding(recorded())
    base = {"BLOCK": 32, "ROWS": 1, "UNROLL": 1, "ORDER": "row"}

    def distance(**changes: object) -> float:
        one, other = encoding.points([base, {**base, **changes}])  # type: ignore[list-item]
        return float(np.linalg.norm(one - other))

    assert distance(ORDER="column") == pytest.approx(distance(ORDER="snake")) == pytest.approx(1.0)
    assert distance(BLOCK=64) == 1.0
    assert distance(BLOCK=1024) == 5.0


def test_a_large_space_is_taken_in_as_it_is_needed() -> None:
    grid: Grid = {f"P{k}": tuple(range(10)) for k in range(5)}  # 100,000 configs

    def cost(config: Config) -> float:
        return float(sum(abs(int(value) - 7) for value in config.values()))

    space = RecordedSpace(WORKLOAD, "hip-fake", [(each, 1.0) for each in grid_configs(grid)])
    candidates = Candidates(space, lambda configs, _points: np.array([cost(x) for x in configs]))
    assert len(candidates) == 8192
    row = candidates.take_in(dict.fromkeys(grid, 7))
    assert row == 8192
    assert candidates.expected[row] == 0.0
    candidates.take_in_neighbours(dict.fromkeys(grid, 7))
    assert len(candidates) == 8193 + 5 * 9 - 1  # one of them was there
    assert candidates.take_in({"P0": 99}) is None


def test_proposing_stays_cheap_at_many_trials() -> None:
    grid: Grid = {f"P{k}": tuple(range(8)) for k in range(4)}  # 4096 configs
    space = recorded(lambda config: 1.0 + sum(map(int, config.values())), grid=grid)
    search = GuidedSearch(space, 0)
    started = time.process_time()
    asked = 0
    while (config := search.ask()) is not None and asked < 1000:
        search.tell(config, space.time_us(config))
        asked += 1
    assert asked == 1000
    assert (time.process_time() - started) / asked < 0.005


# --- Optuna's Gaussian process


def test_gp_is_refused_in_one_line_where_its_packages_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(samplers, "_GP_PACKAGES", ("math", "no_such_package"))
    with pytest.raises(MissingDependency, match="gp needs no_such_package") as caught:
        samplers.check_available("gp")
    assert "pip install no_such_package" in caught.value.hint
    samplers.check_available("guided")
    monkeypatch.setattr(samplers, "_GP_PACKAGES", ("math",))
    samplers.check_available("gp")
