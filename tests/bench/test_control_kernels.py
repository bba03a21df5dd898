"""Null kernel, copy and sentinel on every device: measured in the way a trial is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tuner.bench import controls
from tuner.bench.devices import registry
from tuner.bench.devices.base import Device
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.trial import Bench
from tuner.domain.controls import copy_bytes_for
from tuner.domain.job import ControlJob
from tuner.domain.job import Sampling
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import TrialReport
from tuner.errors import TunerError
from tuner.operator import Operator
from tuner.testing.fake_device import FakeCall
from tuner.testing.fake_device import FakeDevice
from tuner.testing.fake_device import FakeScript

SAMPLING = Sampling(
    warmup=1,
    samples=3,
    launches_per_sample=4,
    target_sample_us=100.0,
    cache="cold",
    submission="auto",
    input_case="",
    input_seed=3,
)
DEVICES = [
    "fake",
    "cpu",
    pytest.param("cuda:0", marks=pytest.mark.gpu_nvidia),
    pytest.param("hip:0", marks=pytest.mark.gpu_amd),
]


def copy(call: FakeCall) -> None:
    words = int(call.scalars["count"]) * 4
    call.array("target")[:words] = call.array("source")[:words]


KERNELS = {
    "planted_good": lambda call: call.array("y").__setitem__(..., 2 * call.array("x")),
    "control_null": lambda _call: None,
    "control_copy": copy,
}


@pytest.fixture(scope="module", params=DEVICES)
def device(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Device]:
    if request.param == "fake":
        yield FakeDevice(KERNELS)
        return
    options = registry.DeviceOptions(cache_dir=tmp_path_factory.mktemp("cache"))
    try:
        opened = registry.open_device(request.param, options)
    except TunerError as error:
        pytest.skip(f"{request.param}: {error}")
    yield opened
    opened.close()


def measure(
    device: Device, operator: Operator, sampling: Sampling = SAMPLING, copy_bytes: int = 1920
) -> list[TrialReport]:
    workload, good = operator.workload((6, 40)), operator.implementation("good")
    kernel = operator.kernel(good, operator.source(good), {"BLOCK": 64}, workload)
    job = ControlJob(kernel, operator.problem(workload), sampling, copy_bytes)
    return Bench(device, {"hip": HipLanguage()}).run_controls(job, lambda _stage, _position: None)


@pytest.mark.parametrize("cache", ["hot", "cold"])
@pytest.mark.parametrize("launches", [4, None])
def test_all_three_are_measured_by_the_protocol(
    device: Device, planted: Operator, cache: Literal["hot", "cold"], launches: int | None
) -> None:
    sampling = replace(SAMPLING, cache=cache, launches_per_sample=launches)

    reports = measure(device, planted, sampling)

    assert [each.failure for each in reports] == [None, None, None]
    for each in reports:
        assert each.process is not None
        assert len(each.process.samples_us) == 3
        assert each.process.launches_per_sample == launches or launches is None
        launches_a_sample = each.process.launches_per_sample  # one, where a busy CPU is slow
        assert (each.process.buffer_sets == 1) == (cache == "hot" or launches_a_sample == 1)


@pytest.mark.parametrize("wanted_bytes", [1, 4096, 100_000, 1_000_000])
def test_the_copy_copies_all_and_no_more(device: Device, wanted_bytes: int) -> None:
    copy_bytes = copy_bytes_for(wanted_bytes)
    half, guard = copy_bytes // 2, 64
    given = np.random.default_rng(1).integers(0, 256, half, dtype=np.uint8)
    found = np.full(half + guard, 7, np.uint8)
    source, target = device.allocate(half), device.allocate(half + guard)
    device.write(source, given)
    device.write(target, found)
    kernel = HipLanguage().build(controls.copy_kernel(copy_bytes), device)

    device.launch(kernel.bind({"source": source, "target": target})[0])

    device.read(target, found)
    assert np.array_equal(found[:half], given)
    assert np.all(found[half:] == 7)
    device.free(source)
    device.free(target)


def test_the_copy_is_as_large_and_as_cold_as_the_problem(planted: Operator) -> None:
    """A cold copy that found its data in the cache would be faster than the memory."""
    sizes: list[int] = []
    device = FakeDevice(
        KERNELS | {"control_copy": lambda call: sizes.append(sum(map(len, call.buffers.values())))}
    )
    cache_bytes = device.facts.cache_bytes or 0

    _, copied, _ = measure(
        device, planted, replace(SAMPLING, launches_per_sample=64), copy_bytes=cache_bytes
    )

    assert set(sizes) == {cache_bytes}
    assert copied.process is not None
    assert copied.process.buffer_sets == 4  # three times the cache of other traffic, and itself


def test_what_fails_is_said_and_the_others_are_measured(planted: Operator) -> None:
    device = FakeDevice({name: KERNELS[name] for name in ("planted_good", "control_null")})
    null, copied, sentinel = measure(device, planted)
    assert (null.outcome, sentinel.outcome) == (Outcome.OK, Outcome.OK)
    assert copied.outcome is Outcome.COMPILE_ERROR

    small = FakeDevice(KERNELS, FakeScript(memory_bytes=100_000))
    null, copied, sentinel = measure(small, planted, copy_bytes=64_000)
    assert copied.failure is not None
    assert (copied.outcome, copied.failure.stage) == (Outcome.OUT_OF_MEMORY, Stage.MEASURE)
    assert (null.outcome, sentinel.outcome) == (Outcome.OK, Outcome.OK)


def test_a_device_without_hip_still_has_its_sentinel(planted: Operator) -> None:
    """The CPU without a C++ compiler, where Triton's interpreter runs kernels."""
    device = FakeDevice(KERNELS)
    device.facts.languages["hip"] = "no C++ compiler"  # type: ignore[index]
    reports = measure(device, planted)
    assert [each.outcome for each in reports[:2]] == [Outcome.COMPILE_ERROR] * 2
    assert reports[0].failure is not None
    assert reports[0].failure.message == "no C++ compiler"


def test_a_broken_device_interrupts_the_rest(planted: Operator) -> None:
    device = FakeDevice(KERNELS, FakeScript(fault_at_launch=10))
    null, copied, sentinel = measure(device, planted)
    assert null.outcome is Outcome.CRASH
    assert (copied.outcome, sentinel.outcome) == (Outcome.INTERRUPTED, Outcome.INTERRUPTED)


def test_memory_of_the_copy_is_given_back(planted: Operator) -> None:
    device = FakeDevice(KERNELS)
    workload, good = planted.workload((6, 40)), planted.implementation("good")
    kernel = planted.kernel(good, planted.source(good), {"BLOCK": 64}, workload)
    job = ControlJob(kernel, planted.problem(workload), SAMPLING, 1 << 20)
    bench = Bench(device, {"hip": HipLanguage()})
    bench.run_controls(job, lambda _stage, _position: None)
    before = device.live_bytes
    bench.run_controls(job, lambda _stage, _position: None)
    assert device.live_bytes == before < 1 << 20
