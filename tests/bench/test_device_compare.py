"""Comparing on the device gives what comparing on the host does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tuner.bench.compare import Comparison
from tuner.bench.device_compare import Comparing
from tuner.bench.device_compare import DeviceComparer
from tuner.bench.device_compare import open_comparer
from tuner.bench.devices import registry
from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.domain.job import Tolerance
from tuner.errors import TunerError

TOLERANCE = Tolerance(absolute=1e-3, relative=1e-2)
DEVICES = [
    "cpu",
    pytest.param("cuda:0", marks=pytest.mark.gpu_nvidia),
    pytest.param("hip:0", marks=pytest.mark.gpu_amd),
]


@pytest.fixture(scope="module", params=DEVICES)
def device(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Device]:
    options = registry.DeviceOptions(cache_dir=tmp_path_factory.mktemp("cache"))
    try:
        opened = registry.open_device(request.param, options)
    except TunerError as error:
        pytest.skip(f"{request.param}: {error}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def comparer(device: Device) -> DeviceComparer:
    return DeviceComparer(device, 4)


def put(device: Device, array: Array) -> Buffer:
    buffer = device.allocate(array.nbytes)
    device.write(buffer, array)
    return buffer


def both(
    device: Device, comparer: DeviceComparer, actual: Array, expected: Array, dtype: str = ""
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return mismatches and errors, as found on the device and on the host."""
    dtype = dtype or str(actual.dtype)
    assert comparer.can_compare(dtype)
    buffers = put(device, actual), put(device, expected)
    given = Comparing(*buffers, dtype, actual.size, TOLERANCE)
    (found,) = comparer.ask([given], []).found
    for buffer in buffers:
        device.free(buffer)
    host = Comparison()
    values = widened(actual) if dtype == "bfloat16" else actual
    host.add("y", values, expected, TOLERANCE)
    there = (found.mismatches, found.max_abs_error, found.max_rel_error)
    return there, (host.mismatches, host.max_abs_error, host.max_rel_error)


def widened(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=32)
PAIRS = st.integers(1, 700).flatmap(
    lambda count: st.tuples(
        arrays(np.float32, count, elements=FLOATS),
        arrays(np.float64, count, elements=st.floats(allow_nan=True, allow_infinity=True)),
        st.integers(0, count),
    )
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(PAIRS)
def test_any_values_are_judged_as_on_the_host(
    device: Device, comparer: DeviceComparer, pair: tuple[Array, Array, int]
) -> None:
    actual, expected, right = pair
    with np.errstate(all="ignore"):
        expected[:right] = actual[:right] * 1.0001
    there, here = both(device, comparer, actual, expected)
    assert there == here


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_value_is_read_right(
    device: Device, comparer: DeviceComparer, dtype: str
) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    actual = bits.view(np.float16) if dtype == "float16" else bits
    values = actual if dtype == "float16" else widened(bits)
    expected = np.zeros(65536)
    there, here = both(device, comparer, actual, expected, dtype)
    assert there == here
    exact = values.astype(np.float64)
    there, here = both(device, comparer, actual, exact, dtype)
    assert there == here
    assert here[1] == 0.0


def test_values_at_the_edge_of_the_tolerance(device: Device, comparer: DeviceComparer) -> None:
    random = np.random.default_rng(1)
    expected = random.normal(size=50_000)
    limit = TOLERANCE.absolute + TOLERANCE.relative * np.abs(expected)
    actual = (expected + limit * random.choice([-1.0, 1.0], 50_000)).astype(np.float64)
    there, here = both(device, comparer, actual, expected)
    assert there == here
    assert 0 < int(str(here[0])) < 50_000  # rounding puts some inside and some outside


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4096, 100_003])
def test_a_checksum_sees_every_byte(device: Device, comparer: DeviceComparer, size: int) -> None:
    content = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    buffer = device.allocate(size)
    device.write(buffer, content)
    (first,) = comparer.ask((), [buffer]).digests
    for place in {0, size // 2, size - 1} if size else ():
        changed = content.copy()
        changed[place] ^= 1
        device.write(buffer, changed)
        assert comparer.ask((), [buffer]).digests != (first,)
    if size >= 16:
        device.write(buffer, np.roll(content, 8))  # the same words in other places
        assert comparer.ask((), [buffer]).digests != (first,)
    device.write(buffer, content)
    assert comparer.ask((), [buffer]).digests == (first,)
    device.free(buffer)


def test_a_device_in_the_hosts_memory_leaves_it_to_the_host(tmp_path: Path) -> None:
    opened = registry.open_device("cpu", registry.DeviceOptions(cache_dir=tmp_path))
    assert open_comparer(opened, 1) is None
    opened.close()
