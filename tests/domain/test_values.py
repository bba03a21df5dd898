"""Workloads, identities, environments and spaces: the values everything else is built from."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.environment import differences
from tuner.domain.environment import Environment
from tuner.domain.environment import unknown
from tuner.domain.identity import canonical_json
from tuner.domain.identity import config_text
from tuner.domain.identity import content_hash
from tuner.domain.space import Constraint
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.domain.space import grid_size
from tuner.domain.space import is_power_of_two
from tuner.domain.space import next_power_of_two
from tuner.domain.study import TrialPoint
from tuner.domain.workload import make_workload
from tuner.domain.workload import MAX_DIMENSION
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.domain.workload import Workload
from tuner.errors import UsageError

SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
CONFIGS = st.dictionaries(st.text("ABC", min_size=1, max_size=2), SCALARS, max_size=4)
FIELDS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "2", unknown("x")]))


def typed(value: Any) -> Any:
    """Return a value that tells True, 1 and 1.0 apart, and 0.0 from -0.0."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return (type(value), repr(value))


# --- workloads


@given(st.lists(st.integers(1, MAX_DIMENSION), min_size=1, max_size=5))
def test_shapes_are_read_back_as_written(shape: list[int]) -> None:
    assert parse_shape(shape_text(shape)) == tuple(shape)
    assert parse_shape(f" {shape_text(shape).upper()}\n") == tuple(shape)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "4x", "x4", "4xx4", "4*4", "-1x4", "+1x4", "4.0x4", "1e3x4", "4 x4"),
        *("0x4", "4x0", "٣x٤", "²x4", "4x4\0", "1_0x4", "9223372036854775808"),
        *("9" * 5000, "4x" * 10**5),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_what_is_no_shape_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shape(text)
    assert len(caught.value.message) < 200
    assert caught.value.message.isprintable()
    assert caught.value.hint


@pytest.mark.parametrize("size", ["0", "00", str(2**63), "9" * 20, "9" * 5000])
def test_a_size_out_of_range_is_said_to_be_that(size: str) -> None:
    with pytest.raises(UsageError, match=r"from 1 to 2\^63-1") as caught:
        parse_shape(f"4x{size}")
    assert "below 2^63" in caught.value.hint
    assert parse_shape(f"{2**63 - 1}x{'0' * 30}7") == (2**63 - 1, 7)


@given(st.text(max_size=12))
def test_any_text_is_a_shape_or_refused(text: str) -> None:
    try:
        shape = parse_shape(text)
    except UsageError:
        return
    assert all(1 <= size <= MAX_DIMENSION for size in shape)


@given(st.lists(st.integers(1, 2**15), min_size=1, max_size=4))
def test_strides_address_each_element_once(shape: list[int]) -> None:
    strides = Workload("op", tuple(shape)).strides
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    assert last == math.prod(shape) - 1
    assert list(strides) == sorted(strides, reverse=True)


def test_the_order_of_scalars_is_no_part_of_the_identity() -> None:
    one = make_workload("op", (2, 3), "float32", {"b": 1.0, "a": 2.0})
    other = make_workload("op", [2, 3], "float32", {"a": 2.0, "b": 1.0})
    assert one == other
    assert one.key == other.key


def test_every_field_of_a_workload_changes_its_key() -> None:
    workloads = [
        Workload("op", (2, 3)),
        Workload("po", (2, 3)),
        Workload("op", (3, 2)),
        Workload("op", (2, 3, 1)),
        Workload("op", (6,)),
        Workload("op", (2, 3), "float16"),
        Workload("op", (2, 3), "float32", (("epsilon", 1e-5),)),
        Workload("op", (2, 3), "float32", (("epsilon", 1e-6),)),
    ]
    assert len({each.key for each in workloads}) == len(workloads)


# --- identity


@given(CONFIGS, CONFIGS)
def test_configs_have_equal_hashes_only_where_values_and_types_are_equal(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    assert (content_hash(left) == content_hash(right)) == (typed(left) == typed(right))


@given(CONFIGS)
def test_the_order_of_keys_is_no_part_of_the_identity(config: dict[str, Any]) -> None:
    turned = dict(reversed(list(config.items())))
    assert content_hash(turned) == content_hash(config)
    assert config_text(turned) == config_text(config)


def test_look_alikes_are_different() -> None:
    values = [1, 1.0, True, "1", "True", 256, "256", 0.0, -0.0, "é", "e\u0301", "a", "A", "a "]
    assert len({content_hash({"P": value}) for value in values}) == len(values)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_have_has_no_identity(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"P": value})


def test_a_hash_stays_what_it_was() -> None:
    """Stored rows hold these; a change here loses every result."""
    assert content_hash({"BLOCK": 256, "FAST": True}) == (
        "81591b616267f43e4f49840b382c785100a42355ef8f59bea505bd5a478063bb"
    )
    assert Workload("op", (2, 3), "float32", (("epsilon", 1e-5),)).key == (
        "0ce1bb386b42ef30797928122f7aa9dea4f66e9b073dd96f0914124548d6c8f4"
    )


def test_trial_points_of_equal_meaning_are_one() -> None:
    workload = Workload("op", (2, 3))
    one = TrialPoint(workload, "hip", {"A": 1, "B": 2})
    other = TrialPoint(workload, "hip", {"B": 2, "A": 1})
    assert one.key == other.key
    assert str(one) == "2x3 hip A=1 B=2"
    assert TrialPoint(workload, "hip", {"A": True, "B": 2}).key != one.key


# --- environments


@given(FIELDS, FIELDS, FIELDS, FIELDS)
def test_environments_of_equal_key_and_known_fields_have_no_identity_difference(
    a: dict[str, str], b: dict[str, str], c: dict[str, str], d: dict[str, str]
) -> None:
    left, right = Environment(a, c), Environment(b, d)
    found = differences(left, right)
    names = {each.name for each in found if each.is_identity}
    expected = {
        name
        for name in {*a, *b}
        if a.get(name) != b.get(name) or unknown("x") in (a.get(name), b.get(name))
    }
    assert names == expected
    assert [each.name for each in found if not each.is_identity] == sorted(
        name for name in {*c, *d} if c.get(name) != d.get(name)
    )
    assert (left.key == right.key) == (a == b)


def test_identity_differences_come_first_and_say_what_changed() -> None:
    left = Environment({"driver": "1", "arch": "sm_90"}, {"clock": "5"})
    right = Environment({"driver": "2", "arch": "sm_90"}, {"clock": "6", "load": "0"})
    assert [str(each) for each in differences(left, right)] == [
        "driver: 1 -> 2",
        "clock: 5 -> 6",
        "load: unknown: not recorded -> 0",
    ]


def test_unknown_is_not_even_equal_to_itself() -> None:
    environment = Environment({"driver": unknown("no permission")}, {"clock": unknown("none")})
    assert [each.name for each in differences(environment, environment)] == ["driver"]


# --- spaces


@given(
    st.dictionaries(
        st.sampled_from("ABC"), st.lists(SCALARS, max_size=4, unique_by=repr).map(tuple)
    )
)
def test_a_grid_yields_every_combination_once(grid: dict[str, tuple[Any, ...]]) -> None:
    configs = list(grid_configs(grid))
    assert len(configs) == grid_size(grid)
    assert len({repr(config) for config in configs}) == len(configs)
    assert all(set(config) == set(grid) for config in configs)


def test_the_first_broken_constraint_is_named() -> None:
    rules = [
        Constraint("even", lambda config, _dims, _facts: "is odd" if config["P"] % 2 else ""),
        Constraint("small", lambda config, dims, _facts: "too big" * (config["P"] > dims["n"])),
    ]
    reasons = [str(first_violation({"P": value}, {"n": 4}, None, rules)) for value in (2, 3, 6, 7)]
    assert reasons == ["None", "even: is odd", "small: too big", "even: is odd"]


@given(st.integers(1, 2**62))
def test_next_power_of_two_is_the_smallest_that_is_enough(value: int) -> None:
    power = next_power_of_two(value)
    assert is_power_of_two(power)
    assert value <= power < 2 * value


@pytest.mark.parametrize("value", [0, -2, 3, 2.0, True, "2", 2**62 + 1])
def test_only_whole_positive_numbers_are_powers_of_two(value: Any) -> None:
    assert not is_power_of_two(value)
    assert all(map(is_power_of_two, itertools.accumulate([1] * 60, lambda p, _: 2 * p)))
