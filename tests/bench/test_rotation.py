"""Cold samples whose launches would come round to cached data are refused, on every device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tuner.bench.devices import registry
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.measure import BufferSets
from tuner.bench.trial import Bench
from tuner.domain.job import Sampling
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import TrialReport
from tuner.errors import TunerError
from tuner.operator import Operator
from tuner.testing.fake_device import FakeCall
from tuner.testing.fake_device import FakeDevice

LAUNCHES = 8
SAMPLING = Sampling(
    warmup=1,
    samples=3,
    launches_per_sample=LAUNCHES,
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


def twice(call: FakeCall) -> None:
    call.array("y")[:] = 2 * call.array("x")


@pytest.fixture(scope="module", params=DEVICES)
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    if request.param == "fake":
        opened: Device = FakeDevice({"planted_good": twice})
    else:
        options = registry.DeviceOptions(cache_dir=tmp_path_factory.mktemp("cache"))
        try:
            opened = registry.open_device(request.param, options)
        except TunerError as error:
            pytest.skip(f"{request.param}: {error}")
    bench = Bench(opened, {"hip": HipLanguage()})
    yield bench
    bench.close()


@pytest.fixture
def too_few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand out two buffer sets, however many are asked for."""
    take = BufferSets.take

    def take_two(sets: BufferSets, count: int) -> list[dict[str, Buffer]]:
        return take(sets, min(2, count))

    monkeypatch.setattr(BufferSets, "take", take_two)


def run(bench: Bench, operator: Operator, sampling: Sampling) -> TrialReport:
    workload, implementation = operator.workload((6, 40)), operator.implementation("good")
    kernel = operator.kernel(
        implementation, operator.source(implementation), {"BLOCK": 64}, workload
    )
    job = TrialJob(kernel, operator.problem(workload), sampling)
    return bench.run_trial(job, lambda _stage, _position: None)


def test_enough_sets_give_samples(bench: Bench, planted: Operator) -> None:
    report = run(bench, planted, SAMPLING)

    assert report.outcome is Outcome.OK, report.failure
    assert report.process is not None
    assert report.process.buffer_sets == LAUNCHES


@pytest.mark.usefixtures("too_few_sets")
def test_too_few_sets_are_refused(bench: Bench, planted: Operator) -> None:
    report = run(bench, planted, SAMPLING)

    assert report.outcome is Outcome.TIMER_ERROR
    assert report.failure is not None
    assert report.failure.stage is Stage.MEASURE
    assert f"{LAUNCHES} launches go round 2 buffer set(s)" in report.failure.message
    assert "not cold" in report.failure.message
    assert report.process is None


@pytest.mark.usefixtures("too_few_sets")
def test_a_hot_cache_needs_no_rotation(bench: Bench, planted: Operator) -> None:
    assert run(bench, planted, replace(SAMPLING, cache="hot")).outcome is Outcome.OK
