"""Kernels of several launches: what one leaves the next takes, and all are timed as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.bench.cross_compile import compile_kernel
from tuner.bench.devices.base import Launch
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import CpuLaunches
from tuner.bench.devices.cpu import find_compiler
from tuner.bench.languages.base import report_of_steps
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.hip_offline import find_amd_compiler
from tuner.bench.trial import Bench
from tuner.domain.job import ArraySpec
from tuner.domain.job import CompileJob
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Problem
from tuner.domain.job import Sampling
from tuner.domain.job import Step
from tuner.domain.job import Tolerance
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.records import BuildReport

COUNT = 100
SOURCE = """
extern "C" __global__ void copy(const float* x, float* between) {
    if (threadIdx.x < COUNT) between[threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void twice(const float* between, float* y) {
    if (threadIdx.x < COUNT) y[threadIdx.x] = FACTOR * between[threadIdx.x];
}
"""
REFERENCE = "def twice(x):\n    return (2 * x,)\n"
GEOMETRY = LaunchGeometry((1, 1, 1), threads=128)
CONSTANTS = {"COUNT": COUNT, "FACTOR": 2}
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
SAMPLING = Sampling(
    warmup=1, samples=4, launches_per_sample=3, target_sample_us=10.0, cache="hot",
    submission="auto", input_case="", input_seed=7,
)  # fmt: skip


def buffers(*names: str) -> tuple[KernelArgument, ...]:
    return tuple(KernelArgument(name, "buffer", dtype="float32") for name in names)


COPY = Step("copy", {**CONSTANTS}, buffers("x", "between"), GEOMETRY)
TWICE = Step(
    "twice", {**CONSTANTS}, buffers("between", "y"), LaunchGeometry((1, 1, 1), 128, shared_bytes=64)
)


def kernel(first: Step, *then: Step) -> Kernel:
    return Kernel(
        "hip", {"k.hip": SOURCE}, "k.hip", first.entry, first.constants, {}, first.arguments,
        first.geometry, then,
    )  # fmt: skip


def problem(folder: Path) -> Problem:
    (folder / "reference.py").write_text(REFERENCE)
    return Problem(
        (
            ArraySpec("x", (COUNT,), "float32", "input"),
            ArraySpec("y", (COUNT,), "float32", "output"),
            ArraySpec("between", (COUNT,), "float32", "intermediate"),
            ArraySpec("of_others", (2**40,), "float32", "scratch"),  # no machine has room for it
        ),
        (InputCase("normal", {"x": Fill("normal")}),),
        {},
        Tolerance(0.0, 1e-6),
        str(folder / "reference.py"),
        "twice",
    )


class Recording(CpuDevice):
    """The CPU device, with what was prepared to be timed."""

    prepared: list[list[Launch]]

    def prepare(self, launches, submission) -> CpuLaunches:  # type: ignore[no-untyped-def]
        self.prepared = [*getattr(self, "prepared", []), list(launches)]
        return super().prepare(launches, submission)


@pytest.fixture
def device() -> Iterator[Recording]:
    opened = Recording()
    yield opened
    opened.close()


@needs_compiler
def test_launches_run_in_order_and_are_timed_as_one(device: Recording, tmp_path: Path) -> None:
    bench = Bench(device, {"hip": HipLanguage()})
    job = TrialJob(kernel(COPY, TWICE), problem(tmp_path), SAMPLING)
    report = bench.run_trial(job, lambda _stage, _position: None)
    assert report.outcome is Outcome.OK, report.failure
    assert report.process is not None
    assert report.process.launches_per_sample == 3
    [timed] = device.prepared
    entries = [launch.kernel.handle.name for launch in timed]
    assert entries == ["copy", "twice"] * 3
    assert report.build is not None
    assert report.build.shared_bytes == 64  # of the second launch, the first has none


@needs_compiler
def test_what_no_earlier_launch_wrote_is_nan(device: Recording, tmp_path: Path) -> None:
    bench = Bench(device, {"hip": HipLanguage()})
    for steps in ((TWICE, COPY), (TWICE,)):
        report = bench.run_trial(
            TrialJob(kernel(*steps), problem(tmp_path), SAMPLING), lambda _stage, _position: None
        )
        assert report.outcome is Outcome.NON_FINITE


@needs_compiler
def test_a_later_launch_that_does_not_compile_fails_the_trial(
    device: Recording, tmp_path: Path
) -> None:
    broken = replace(TWICE, constants={"COUNT": COUNT})
    bench = Bench(device, {"hip": HipLanguage()})
    report = bench.run_trial(
        TrialJob(kernel(COPY, broken), problem(tmp_path), SAMPLING),
        lambda _stage, _position: None,
    )
    assert report.outcome is Outcome.COMPILE_ERROR


@pytest.mark.skipif(find_amd_compiler() is None, reason="no clang with the amdgcn target")
def test_compiling_for_an_architecture_tells_of_all_launches() -> None:
    languages = {"hip": HipLanguage()}
    builds = []
    for each in (kernel(COPY), kernel(TWICE), kernel(COPY, TWICE)):
        report = compile_kernel(languages, CompileJob(each, "gfx1201", 32))
        assert report.build is not None, report.error
        builds.append(report.build)
    first, second, both = builds
    assert both.code_bytes == (first.code_bytes or 0) + (second.code_bytes or 0)
    assert both.shared_bytes == max(first.shared_bytes or 0, second.shared_bytes or 0) == 64
    assert both.binary_hash not in (first.binary_hash, second.binary_hash)


def test_what_one_launch_does_not_tell_hides_nothing_of_the_others() -> None:
    told = BuildReport(1.0, "a" * 64, "c", (), registers=20, spills=0, code_bytes=5, cached=True)
    silent = BuildReport(2.0, None, "c", (), spills=3)
    both = report_of_steps([told, silent])
    assert (both.build_s, both.registers, both.spills, both.code_bytes) == (3.0, 20, 3, 5)
    assert (both.spill_bytes, both.binary_hash, both.cached) == (None, None, False)
    assert report_of_steps([told]) is told
