"""Plans and searches on a made-up operator whose best config is known."""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace

import pytest

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Tolerance
from tuner.domain.space import Constraint
from tuner.domain.space import Dims
from tuner.domain.space import Grid
from tuner.errors import UsageError
from tuner.operator import Array
from tuner.operator import Implementation
from tuner.operator import Operator
from tuner.study.optuna_search import OptunaSearch
from tuner.study.plan import make_plan
from tuner.study.plan import Plan
from tuner.study.plan import SearchSpace
from tuner.study.search import interleave
from tuner.study.search import make_search
from tuner.study.search import Search
from tuner.study.searchable import config_key
from tuner.study.spec import parse_study

FACTS = DeviceFacts(
    device_id="fake:0",
    kind="cuda",
    architecture="sm_90",
    name="fake",
    compute_units=132,
    wave_size=32,
    max_threads_per_block=1024,
    max_grid=(2**31 - 1, 65535, 65535),
    max_grid_threads=2**32 - 1,
    max_shared_bytes=48 * 1024,
    max_registers_per_thread=255,
    memory_bytes=2**34,
    cache_bytes=2**25,
    timer="device-event",
)
WIDE: Grid = {
    "BLOCK": tuple(2**k for k in range(5, 11)),
    "ROWS": tuple(2**k for k in range(6)),
    "UNROLL": (1, 2, 3, 4, 6, 8, 12),
    "ORDER": ("row", "column", "tile", "snake"),
}  # 1008 points
SMALL: Grid = {"BLOCK": (64, 128, 256), "ROWS": (1, 2, 4, 8)}


BEST = {"BLOCK": 256, "ROWS": 4, "UNROLL": 4, "ORDER": "tile"}


def wide_time_us(config: Config) -> float:
    """Interacting parameters, one best point of 10 us."""
    block, rows = math.log2(int(config["BLOCK"])), math.log2(int(config["ROWS"]))
    time_us = 10.0 + 1.5 * (block - 8) ** 2 + 1.0 * (rows - 2) ** 2
    time_us += 0.8 * (block - 8) * (rows - 2)
    time_us += 0.7 * abs(math.log2(int(config["UNROLL"]) / 4))
    return time_us + {"row": 2.0, "column": 6.0, "tile": 0.0, "snake": 1.0}[str(config["ORDER"])]


def at_most_1024(config: Config, _dims: Dims, _facts: DeviceFacts) -> str:
    return "BLOCK * ROWS is too large" if config["BLOCK"] * config["ROWS"] > 1024 else ""


def implementation(
    grid: Grid, name: str = "hip-fake", rules: tuple[Constraint, ...] = (), **changes: object
) -> Implementation:
    made = Implementation(
        name=name,
        language="hip",
        source="fake.hip",
        entry="fake",
        arguments=("x", "y", "rows", "cols:int32"),
        parameters=lambda _dims: grid,
        default=lambda _dims, _facts: {each: values[1] for each, values in grid.items()},
        geometry=lambda config, dims: LaunchGeometry((dims["rows"], 1, 1), config["BLOCK"]),
        rules=rules,
    )
    return replace(made, **changes)


def operator(*implementations: Implementation) -> Operator:
    return Operator(
        name="fake",
        dims=("rows", "cols"),
        arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), role="output")),
        tolerances={"float32": Tolerance(1e-5, 1e-5)},
        cases=(InputCase("normal", {"x": Fill("normal")}),),
        reference="fake",
        bytes_moved=lambda dims, item: 2 * dims["rows"] * dims["cols"] * item,
        operations=lambda dims: dims["rows"] * dims["cols"],
        implementations=implementations,
    )


def plan(
    *implementations: Implementation,
    text: str = "",
    shapes: str = '["8x64"]',
    facts: DeviceFacts = FACTS,
) -> Plan:
    head = f'schema = 1\nname = "s"\noperator = "fake"\nshapes = {shapes}\n'
    return make_plan(parse_study(head + text, "s.toml"), operator(*implementations), facts)


def space(grid: Grid, text: str = "", rules: tuple[Constraint, ...] = ()) -> SearchSpace:
    return plan(implementation(grid, rules=rules), text=text).spaces[0]


RULE = (Constraint("size", at_most_1024),)
TPE = '[search]\nsampler = "tpe"\ntrials = %d\n'


def run(search: Search, asks: int = 10**6) -> list[Config]:
    """Ask and tell until the search is done; return what it proposed."""
    proposed: list[Config] = []
    while len(proposed) < asks and (config := search.ask()) is not None:
        proposed.append(config)
        search.tell(config, wide_time_us({**BEST, **config}))
    return proposed


def keys(configs: list[Config]) -> list[str]:
    return [config_key(config) for config in configs]


# --- plan


def test_plan_is_the_whole_grid_with_the_default_first() -> None:
    found = plan(implementation(SMALL))
    assert found.planned == 12
    assert found.sampler == "exhaustive"
    configs = list(found.spaces[0].allowed())
    assert configs[0] == {"BLOCK": 128, "ROWS": 2}
    assert len(set(keys(configs))) == 12


def test_refused_configs_are_in_the_plan_with_constraint_and_reason() -> None:
    found = plan(implementation(SMALL, rules=RULE))
    refused = {config_key(each.point.config): each.reason for each in found.skipped}
    assert refused == {config_key({"BLOCK": 256, "ROWS": 8}): "size: BLOCK * ROWS is too large"}
    assert found.spaces[0].trials == 11
    assert found.planned == 12


def test_limits_come_from_the_device() -> None:
    narrow = replace(FACTS, max_threads_per_block=128)
    found = plan(implementation(SMALL), facts=narrow)
    assert len(found.skipped) == 4
    assert found.skipped[0].reason == "threads_per_block: threads 256 > 128 of the device"


def test_a_workload_that_fits_no_argument_is_skipped_whole() -> None:
    found = plan(implementation(SMALL), shapes='["2x4294967296", "8x64"]')
    assert [space.trials for space in found.spaces] == [0, 12]
    assert {each.point.workload.shape for each in found.skipped} == {(2, 4294967296)}
    assert len(found.skipped) == 12
    assert found.skipped[0].reason == (
        "argument: cols 4294967296 > 2147483647 of its int32 argument"
    )


def test_a_sampled_space_without_any_allowed_config_is_not_silent() -> None:
    found = plan(implementation(SMALL), text=TPE % 5, shapes='["2x4294967296"]')
    assert found.planned == len(found.skipped) == 1


def test_study_values_replace_those_of_the_operator() -> None:
    found = plan(implementation(SMALL), text="[space.hip-fake]\nROWS = [2, 16]\n")
    assert next(found.spaces[0].allowed()) == {"BLOCK": 128, "ROWS": 2}
    assert found.planned == 6


def test_a_default_that_the_study_excludes_gives_way_to_the_first_config() -> None:
    found = plan(implementation(SMALL), text="[space.hip-fake]\nROWS = [4, 8]\n")
    assert next(found.spaces[0].allowed()) == {"BLOCK": 64, "ROWS": 4}


def test_a_legal_default_outside_the_grid_is_tried_too() -> None:
    beside = implementation(SMALL, default=lambda _dims, _facts: {"BLOCK": 96, "ROWS": 3})
    found = plan(beside)
    assert next(found.spaces[0].allowed()) == {"BLOCK": 96, "ROWS": 3}
    assert found.planned == 13
    sampled = plan(beside, text=TPE % 100).spaces[0]
    assert len(run(make_search(sampled, "tpe", 0))) == 13


def test_a_default_of_other_parameters_is_the_operators_mistake() -> None:
    wrong = implementation(SMALL, default=lambda _dims, _facts: {"BLOCK": 96})
    with pytest.raises(UsageError, match="default of hip-fake sets BLOCK, its parameters are"):
        plan(wrong)


def test_auto_samples_above_its_limit() -> None:
    at_limit = plan(implementation(SMALL), text="[search]\nexhaustive_limit = 12\n")
    above = plan(implementation(SMALL), text="[search]\nexhaustive_limit = 11\ntrials = 5\n")
    assert (at_limit.sampler, at_limit.planned) == ("exhaustive", 12)
    assert (above.sampler, above.planned) == ("guided", 5)


def test_a_plan_of_small_and_large_spaces_names_the_sampler() -> None:
    found = plan(implementation(SMALL), implementation(WIDE, "hip-wide"))
    assert [each.sampler for each in found.spaces] == ["exhaustive", "guided"]
    assert found.sampler == "guided"
    assert found.planned == 12 + 40


def test_a_huge_grid_is_planned_and_searched_without_listing_it() -> None:
    huge = {f"P{k}": tuple(range(1, 65)) for k in range(8)} | {"BLOCK": (64, 128)}
    started = time.process_time()
    tracemalloc.start()
    found = plan(implementation(huge)).spaces[0]
    configs = run(make_search(found, "random", 0))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.size == 2 * 64**8
    assert len(set(keys(configs))) == 40
    assert peak_bytes < 64 * 2**20
    assert time.process_time() - started < 10.0


def test_the_scattered_order_visits_every_config_once() -> None:
    found = space(WIDE, TPE % 2000)
    assert found.trials == 1008
    assert len(set(keys(list(found.allowed())))) == 1008


def test_plan_of_an_implementation_without_parameters_is_one_trial() -> None:
    plain = implementation({}, geometry=lambda _config, _dims: LaunchGeometry((1, 1, 1), 64))
    found = plan(plain)
    assert found.planned == 1
    assert run(make_search(found.spaces[0], "exhaustive", 0)) == [{}]
    assert run(make_search(plan(plain, text=TPE % 9).spaces[0], "tpe", 0)) == [{}]


# --- search


@pytest.mark.parametrize("sampler", ["exhaustive", "guided", "tpe", "random"])
def test_every_search_exhausts_a_small_space_exactly(sampler: str) -> None:
    found = space(SMALL, f'[search]\nsampler = "{sampler}"\ntrials = 1000\n', RULE)
    search = make_search(found, sampler, 3)
    proposed = run(search)
    assert sorted(keys(proposed)) == sorted(keys(list(found.allowed())))
    assert proposed[0] == found.default
    assert search.ask() is None


@pytest.mark.parametrize("sampler", ["guided", "tpe", "random"])
def test_no_config_is_proposed_twice_and_none_that_is_refused(sampler: str) -> None:
    found = space(WIDE, TPE % 200, RULE)
    proposed = run(make_search(found, sampler, 1))
    assert len(set(keys(proposed))) == len(proposed) == 200
    assert all(found.is_allowed(config) for config in proposed)


def best_of(sampler: str, seed: int, trials: int = 100) -> float:
    found = space(WIDE, TPE % trials)
    return min(wide_time_us(config) for config in run(make_search(found, sampler, seed)))


def test_tpe_comes_within_5_percent_of_the_best_and_beats_random() -> None:
    tpe = [best_of("tpe", seed) for seed in range(3)]
    assert max(tpe) <= 10.0 * 1.05
    assert statistics.median(tpe) <= statistics.median(best_of("random", s) for s in range(3))


def test_equal_seeds_propose_equal_configs_and_others_do_not() -> None:
    found = space(WIDE, TPE % 25)
    first, again, other = (keys(run(make_search(found, "tpe", seed))) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.parametrize("sampler", ["exhaustive", "guided", "tpe", "random"])
@pytest.mark.parametrize("grid", [SMALL, WIDE], ids=["small", "wide"])
def test_a_resumed_search_reaches_exactly_the_plan(sampler: str, grid: Grid) -> None:
    found = space(grid, f'[search]\nsampler = "{sampler}"\ntrials = 30\n')
    planned = found.trials
    before = run(make_search(found, sampler, 137), asks=11)
    history = [(config, 10.0 if k % 3 else None) for k, config in enumerate(before)]
    after = run(make_search(found, sampler, 137, history))
    assert len(before) + len(after) == planned
    assert len(set(keys(before + after))) == planned


def test_a_resumed_search_draws_new_points_and_learns_from_history() -> None:
    found = space(WIDE, TPE % 100)
    before = run(make_search(found, "tpe", 5), asks=60)
    resumed = make_search(found, "tpe", 5, [(config, wide_time_us(config)) for config in before])
    after = run(resumed, asks=20)
    assert statistics.median(map(wide_time_us, after)) < statistics.median(
        map(wide_time_us, before[:20])
    )


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 0.0, -1.78])
def test_a_failed_trial_or_a_value_that_is_no_duration_never_becomes_best(
    value: float | None,
) -> None:
    search = make_search(space(SMALL, TPE % 12), "tpe", 0)
    assert isinstance(search, OptunaSearch)
    for index in range(4):
        config = search.ask()
        assert config is not None
        search.tell(config, value if index % 2 else 5.0)
    assert search._study.best_value == 5.0
    assert search.ask() is not None


def test_telling_twice_and_telling_the_unasked_are_harmless() -> None:
    search = make_search(space(SMALL, TPE % 12), "tpe", 0)
    config = search.ask()
    assert config is not None
    assert isinstance(search, OptunaSearch)
    search.tell(config, 4.0)
    search.tell(config, None)
    search.tell(config, 3.5)
    assert [trial.value for trial in search._study.trials] == [4.0]
    search.tell({"BLOCK": 64, "ROWS": 8}, 3.0)
    search.tell({"BLOCK": 4096, "OTHER": 8}, 2.0)
    assert config_key({"BLOCK": 64, "ROWS": 8}) not in keys(run(search))


def test_searches_take_turns_defaults_first() -> None:
    found = plan(implementation(SMALL), implementation(SMALL, "hip-other"))
    searches = {each.implementation: make_search(each, each.sampler, 0) for each in found.spaces}
    turns = list(interleave(searches))
    assert turns[:2] == [
        ("hip-fake", found.spaces[0].default),
        ("hip-other", found.spaces[1].default),
    ]
    assert [name for name, _ in turns[2:6]] == ["hip-fake", "hip-other"] * 2
    assert len(turns) == 24


def test_a_draw_is_cheap() -> None:
    search = make_search(space(WIDE, TPE % 100), "tpe", 0)
    run(search, asks=50)
    started = time.process_time()
    run(search, asks=30)
    assert (time.process_time() - started) / 30 < 0.1


def test_random_times_do_not_upset_the_search() -> None:
    rng = random.Random(2)
    search = make_search(space(WIDE, TPE % 40, RULE), "tpe", 0)
    count = 0
    while (config := search.ask()) is not None:
        search.tell(config, rng.choice([None, rng.expovariate(0.1)]))
        count += 1
    assert count == 40


def test_optuna_is_loaded_only_when_a_search_needs_it() -> None:
    code = "import sys, tuner.study.search, tuner.study.plan; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
