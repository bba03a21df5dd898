"""The first stage: every config checked, and measured briefly in a warm worker, in batches."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tuner.domain.job import Kernel
from tuner.domain.job import Problem
from tuner.domain.job import Sampling
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import BuiltAhead
from tuner.domain.records import TrialReport
from tuner.domain.stats import median
from tuner.study.confirm import FreshWorker
from tuner.study.confirm import measure_together
from tuner.study.controls import ControlWorker


class WarmWorker(FreshWorker, ControlWorker, Protocol):
    """The long-lived worker of the quick stage."""

    def run_trial(self, job: TrialJob, limits: Limits) -> TrialReport:
        """Build, validate, sample and validate again."""

    def run_screening(
        self, job: ScreenJob, limits: Limits, meanwhile: Callable[[], None] | None = None
    ) -> list[TrialReport]:
        """Run the trials of several kernels, sampled interleaved; call ``meanwhile`` once."""


def screen_batch(
    worker: WarmWorker,
    kernels: Sequence[Kernel],
    built: Sequence[BuiltAhead],
    problem: Problem,
    sampling: Sampling,
    limits: Limits,
    *,
    rotation: int,
    meanwhile: Callable[[], None] | None = None,
) -> list[TrialReport]:
    """Run the trials of a batch and return a report for each kernel, in order.

    A build that failed ahead is its trial's report. A kernel that takes the worker down keeps
    its failure, and the others are measured again without it. One that is unstable beside
    others is measured again alone: another may have written where it should not.

    Args:
        worker: With the device.
        kernels: The candidates.
        built: How the build of each went.
        problem: What they solve.
        sampling: How they are measured.
        limits: Deadlines.
        rotation: Which of them is sampled first.
        meanwhile: Called while the worker runs: not at all where there is nothing to run, and
            again with each repeat.
    """
    reports = [TrialReport(each.failure) for each in built]
    sound = [position for position, each in enumerate(built) if each.failure is None]

    def run(chosen: Sequence[int]) -> list[TrialReport]:
        asked = tuple(kernels[sound[position]] for position in chosen)
        job = ScreenJob(asked, problem, sampling, rotation)
        return worker.run_screening(job, limits, meanwhile)

    for position, report in zip(sound, measure_together(run, len(sound), Stage.BUILD), strict=True):
        if report.outcome is Outcome.UNSTABLE_RESULT and len(sound) > 1:
            report = worker.run_trial(TrialJob(kernels[position], problem, sampling), limits)
        reports[position] = _with_build_time(report, built[position])
    return reports


def quick_median_us(report: TrialReport) -> float | None:
    """Return the median of a trial that is ok."""
    timed = report.process if report.failure is None else None
    return median(timed.samples_us) if timed else None


def _with_build_time(report: TrialReport, built: BuiltAhead) -> TrialReport:
    """Say of a build what it took where it was made, not what taking it from the cache did."""
    if report.build is None or built.build_s is None:
        return report
    build = replace(report.build, build_s=built.build_s, cached=built.cached)
    return replace(report, build=build)
