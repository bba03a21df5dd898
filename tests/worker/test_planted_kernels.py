"""Every planted fault gets its own outcome from a real worker, and the next trial runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import closing
from contextlib import ExitStack
from typing import Literal

import psutil
import pytest

from tuner.domain.job import ConfirmJob
from tuner.domain.job import Kernel
from tuner.domain.job import Sampling
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.errors import DeviceUnavailable
from tuner.operator import Operator
from tuner.settings import Settings
from tuner.study.confirm import confirm_once
from tuner.worker.pool import DeviceWorker

SAMPLING = Sampling(
    warmup=2,
    samples=9,
    launches_per_sample=1,
    target_sample_us=100.0,
    cache="hot",
    submission="auto",
    input_case="",
    input_seed=3,
)
LIMITS = Limits(build_timeout_s=60.0, run_timeout_s=3.0)

DEVICES = [
    "cpu",
    pytest.param("cuda:0", marks=pytest.mark.gpu_nvidia),
    pytest.param("hip:0", marks=pytest.mark.gpu_amd),
]


@pytest.fixture(scope="module", params=DEVICES)
def worker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DeviceWorker]:
    """Return one worker for all tests: what one kernel does must not show in the next."""
    settings = Settings(
        db=str(tmp_path_factory.mktemp("db") / "x.db"), cache_dir=tmp_path_factory.mktemp("cache")
    )
    try:
        opened = DeviceWorker(request.param, settings)
    except DeviceUnavailable as error:
        pytest.skip(f"{request.param}: {error}")
    with opened as worker:
        yield worker


def job(operator: Operator, fault: str, shape: tuple[int, int] = (6, 40)) -> TrialJob:
    workload = operator.workload(shape)
    return TrialJob(kernel(operator, fault, shape), operator.problem(workload), SAMPLING)


def kernel(operator: Operator, fault: str, shape: tuple[int, int] = (6, 40)) -> Kernel:
    implementation = operator.implementation(fault)
    source = operator.source(implementation)
    return operator.kernel(implementation, source, {"BLOCK": 64}, operator.workload(shape))


FAULTS = [
    ("wrong", {Outcome.WRONG_RESULT}, Stage.VALIDATE, "outside the tolerance"),
    ("one-element", {Outcome.WRONG_RESULT}, Stage.VALIDATE, "1 of 240"),
    # What is not written stays NaN: a kernel can't inherit another's right answer.
    ("half", {Outcome.NON_FINITE}, Stage.VALIDATE, "120 of 240"),
    ("nothing", {Outcome.NON_FINITE}, Stage.VALIDATE, "240 of 240"),
    ("last-row", {Outcome.NON_FINITE}, Stage.VALIDATE, "first at [5, 0]"),
    ("nan", {Outcome.NON_FINITE}, Stage.VALIDATE, "first at [0, 5]"),
    ("infinite", {Outcome.NON_FINITE}, Stage.VALIDATE, "first at [0, 7]"),
    ("changes-input", {Outcome.WRONG_RESULT}, Stage.VALIDATE, "changed its input x"),
    ("eleven-times", {Outcome.UNSTABLE_RESULT}, Stage.REVALIDATE, "then wrong"),
    ("cached-answer", {Outcome.UNSTABLE_RESULT}, Stage.REVALIDATE, "then wrong"),
    ("hang", {Outcome.TIMEOUT}, Stage.VALIDATE, "no end within 3 s"),
    ("abort", {Outcome.CRASH}, Stage.VALIDATE, ""),
    ("segfault", {Outcome.CRASH}, Stage.VALIDATE, ""),
    ("out-of-bounds", {Outcome.CRASH}, Stage.VALIDATE, ""),
    ("leaves-count", {Outcome.WRONG_RESULT}, Stage.VALIDATE, "left its scratch count not zero"),
    ("broken-source", {Outcome.COMPILE_ERROR}, Stage.BUILD, ""),
]


@pytest.mark.parametrize(("fault", "outcomes", "stage", "words"), FAULTS)
def test_a_planted_fault_gets_its_own_outcome_and_the_next_trial_runs(
    worker: DeviceWorker,
    planted: Operator,
    fault: str,
    outcomes: set[Outcome],
    stage: Stage,
    words: str,
) -> None:
    report = worker.run_trial(job(planted, fault), LIMITS)

    assert report.outcome in outcomes
    assert report.failure is not None
    assert report.failure.stage is stage
    assert words in report.failure.message
    after = worker.run_trial(job(planted, "good"), LIMITS)
    assert after.outcome is Outcome.OK, after.failure


def test_a_good_kernel_gives_samples_and_checks(worker: DeviceWorker, planted: Operator) -> None:
    report = worker.run_trial(job(planted, "good"), LIMITS)

    assert report.process is not None
    assert len(report.process.samples_us) == SAMPLING.samples
    assert all(sample > 0 for sample in report.process.samples_us)
    checks = [(each.phase, each.case, each.passed) for each in report.validations]
    assert checks == [
        ("before", "normal", True),
        ("before", "uniform", True),
        ("after", "normal", True),
    ]
    assert report.build is not None
    assert report.build.binary_hash


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_scratch_is_zero_at_each_check_and_in_each_buffer_set(
    worker: DeviceWorker, planted: Operator, cache: Literal["hot", "cold"]
) -> None:
    sampling = dataclasses.replace(SAMPLING, cache=cache, launches_per_sample=4)

    # After a kernel that left it dirty, on the same buffers.
    for fault, outcome in (("leaves-count", Outcome.WRONG_RESULT), ("counts", Outcome.OK)):
        given = dataclasses.replace(job(planted, fault), sampling=sampling)
        report = worker.run_trial(given, LIMITS)
        assert report.outcome is outcome, report.failure


def test_printing_a_forged_answer_changes_nothing(worker: DeviceWorker, planted: Operator) -> None:
    report = worker.run_trial(job(planted, "print"), LIMITS)

    assert report.outcome is Outcome.OK, report.failure
    assert report.process is not None
    assert len(report.process.samples_us) == SAMPLING.samples


def test_the_crash_message_names_the_signal(planted: Operator, cache_dir: object) -> None:
    with DeviceWorker("cpu", Settings(cache_dir=cache_dir)) as worker:  # type: ignore[arg-type]
        assert "SIGABRT" in _message(worker, planted, "abort")
        assert "SIGSEGV" in _message(worker, planted, "segfault")


def _message(worker: DeviceWorker, operator: Operator, fault: str) -> str:
    failure = worker.run_trial(job(operator, fault), LIMITS).failure
    assert failure is not None
    return failure.message


def test_the_compiler_log_travels_with_the_failure(worker: DeviceWorker, planted: Operator) -> None:
    report = worker.run_trial(job(planted, "broken-source"), LIMITS)

    assert report.failure is not None
    assert "no_such_name" in report.failure.log


def test_too_much_memory_is_an_outcome(worker: DeviceWorker, planted: Operator) -> None:
    report = worker.run_trial(job(planted, "good", shape=(2**40, 2**12)), LIMITS)

    assert report.outcome is Outcome.OUT_OF_MEMORY
    assert worker.run_trial(job(planted, "good"), LIMITS).outcome is Outcome.OK


def test_a_hang_leaves_no_process_and_ends_in_time(
    planted: Operator, make_settings: Callable[..., Settings]
) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with DeviceWorker("cpu", make_settings()) as worker:
        worker.run_trial(job(planted, "good"), LIMITS)
        begun = time.monotonic()
        report = worker.run_trial(job(planted, "hang"), Limits(60.0, 1.0))
        assert time.monotonic() - begun < 1.0 + 5.0
        assert report.outcome is Outcome.TIMEOUT
        left = {child.pid for child in psutil.Process().children(recursive=True)} - before
        assert not left


def test_the_timeout_given_is_the_timeout_used(worker: DeviceWorker, planted: Operator) -> None:
    begun = time.monotonic()
    short = worker.run_trial(job(planted, "hang"), Limits(60.0, 1.0))
    short_s = time.monotonic() - begun
    begun = time.monotonic()
    worker.run_trial(job(planted, "hang"), Limits(60.0, 6.0))
    long_s = time.monotonic() - begun

    assert short.outcome is Outcome.TIMEOUT
    assert short_s >= 1.0
    assert long_s >= 6.0
    assert long_s - short_s > 1.0, "the longer limit was not the one that was kept"


def test_a_confirmation_survives_a_kernel_that_takes_the_process_down(
    planted: Operator, make_settings: Callable[..., Settings]
) -> None:
    settings = make_settings()
    kernels = [kernel(planted, fault) for fault in ("good", "segfault", "hang", "second-good")]

    with ExitStack() as stack:
        reports = confirm_once(
            lambda: stack.enter_context(closing(DeviceWorker("cpu", settings))),
            kernels,
            planted.problem(planted.workload((6, 40))),
            dataclasses.replace(SAMPLING, samples=4),
            LIMITS,
            process=1,
        )

    outcomes = [report.outcome for report in reports]
    assert outcomes == [Outcome.OK, Outcome.CRASH, Outcome.TIMEOUT, Outcome.OK]
    for report in (reports[0], reports[3]):
        assert report.process is not None
        assert len(report.process.samples_us) == 4


def test_a_kernel_that_fails_in_a_confirmation_leaves_the_others_alone(
    worker: DeviceWorker, planted: Operator
) -> None:
    kernels = tuple(kernel(planted, fault) for fault in ("good", "wrong", "eleven-times"))
    problem = planted.problem(planted.workload((6, 40)))

    reports = worker.run_confirmation(ConfirmJob(kernels, problem, SAMPLING, 2), LIMITS)

    assert [report.outcome for report in reports] == [
        Outcome.OK,
        Outcome.WRONG_RESULT,
        Outcome.UNSTABLE_RESULT,
    ]


def test_an_unknown_device_is_unavailable_with_a_reason(
    make_settings: Callable[..., Settings],
) -> None:
    with pytest.raises(DeviceUnavailable, match="cuda"):
        DeviceWorker("cuda:99", make_settings())
