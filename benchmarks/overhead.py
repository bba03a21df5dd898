"""Measures the parent's own time per trial: everything but build, validate and measure.

A worker that answers at once stands in for the bench half, so that what is left is asking the
search, writing the database and telling the listener. The database is a real file, and every
commit waits for the disk. Beside it, in the same run: the time of a bare fsync on that disk,
and of ``tuner --help``.

    python benchmarks/overhead.py [--trials 300] [--directory DIR]
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from datetime import UTC
from pathlib import Path

from tuner.domain.controls import ControlKind
from tuner.domain.device import DeviceFacts
from tuner.domain.environment import Environment
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.protocol import Limits
from tuner.domain.records import BuildReport
from tuner.domain.records import ProcessReport
from tuner.domain.records import TrialReport
from tuner.domain.records import ValidationReport
from tuner.domain.study import SourceText
from tuner.domain.study import StudyDefinition
from tuner.operator import load_operator
from tuner.resources import operator_dirs
from tuner.store import open_store
from tuner.study.plan import make_plan
from tuner.study.runner import StudyRunner
from tuner.study.spec import parse_study
from tuner.worker.builders import NoBuilders

FACTS = DeviceFacts(
    "fake:0", "fake", "fake", "instant", 1, 32, 1024, (2**31 - 1, 65535, 65535), 2**63 - 1,
    65536, 255, 2**40, 2**20, "host-clock",
)  # fmt: skip
STUDY = """schema = 1
name = "overhead"
operator = "rmsnorm"
shapes = [{shapes}]
[search]
sampler = "{sampler}"
trials = 30
[space.hip-serial]
[space.hip-block]
[space.triton-row]
[space.triton-rows]
[space.triton-loop]
"""


class InstantWorker:
    """Answers every job at once with plausible values."""

    def run_trial(self, job: TrialJob, limits: Limits) -> TrialReport:
        """Return an ok trial."""
        del limits
        checks = [
            ValidationReport("before", case.name, 1, True, 1e-7, 1e-6) for case in job.problem.cases
        ]
        return TrialReport(
            None,
            BuildReport(0.1, "0" * 64, "none"),
            (*checks, dataclasses.replace(checks[0], phase="after")),
            ProcessReport(
                tuple(10.0 + i / 100 for i in range(job.sampling.samples)), 1, 1, "stream"
            ),
            0.1,
            0.1,
        )

    def run_screening(
        self, job: ScreenJob, limits: Limits, meanwhile: Callable[[], None] | None = None
    ) -> list[TrialReport]:
        """Return an ok report for each kernel."""
        if meanwhile is not None:
            meanwhile()
        return self.run_confirmation(ConfirmJob(job.kernels, job.problem, job.sampling), limits)

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        """Return an ok report for each kernel."""
        return [
            self.run_trial(TrialJob(kernel, job.problem, job.sampling), limits)
            for kernel in job.kernels
        ]

    def run_controls(self, job: ControlJob, limits: Limits) -> list[TrialReport]:
        """Return an ok report for each control."""
        trial = TrialJob(job.kernel, job.problem, job.sampling)
        return [self.run_trial(trial, limits) for _ in ControlKind]

    def prepare(self, job: ConfirmJob, *, screening: bool = False) -> None:
        """Do nothing."""

    def await_prepared(self, limits: Limits) -> None:
        """Do nothing."""

    def begin_close(self) -> None:
        """Do nothing."""

    def close(self, *, force: bool = False) -> None:
        """Do nothing."""
        del force


def run_study(database: Path, sampler: str, trials: int) -> list[float]:
    """Run a study with an instant worker and return the milliseconds of each trial."""
    operator = load_operator(operator_dirs()["rmsnorm"])
    shapes = ", ".join(f'"{rows}x1000"' for rows in range(8, 8 + max(1, trials // 45)))
    spec = parse_study(STUDY.format(shapes=shapes, sampler=sampler), "overhead")
    plan = make_plan(spec, operator, FACTS)
    sources = {each.name: operator.source(each) for each in operator.implementations}
    definition = StudyDefinition(
        spec.name, operator.name, spec.as_plain(), "fake:0",
        Environment({"architecture": "fake"}, {}), spec.protocol,
        {
            name: SourceText(each.source_hash, each.language, each.entry, each.main, each.files)
            for name, each in sources.items()
        },
        {name: each.language for name, each in sources.items()},
        plan.sampler, 0, plan.planned,
    )  # fmt: skip
    ends: list[float] = []

    def listen(event: object) -> None:
        if type(event).__name__ == "TrialEnded":
            ends.append(time.perf_counter())

    with open_store(str(database), create=True, writable=True) as store:
        StudyRunner(
            operator=operator,
            spec=spec,
            plan=plan,
            definition=definition,
            sources=sources,
            recorder=store.recorder(),
            worker=InstantWorker(),
            start_workers=lambda count: [InstantWorker()] * count,
            builds=NoBuilders(),
            listener=listen,
        ).run()
    return [1000 * (b - a) for a, b in itertools.pairwise(ends)]


def fsync_ms(directory: Path) -> float:
    """Return the median milliseconds of appending 4 KiB to a file and fsync."""
    times = []
    with (directory / "fsync").open("wb") as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


def help_s() -> float:
    """Return the median seconds of ``tuner --help``."""
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tuner", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--directory", type=Path, default=None, help="where the database goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.machine()}, "
              f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")  # fmt: skip
        print("| what | median | 95th percentile |\n|---|---|---|")
        for sampler in ("exhaustive", "tpe"):
            times = run_study(directory / f"{sampler}.db", sampler, options.trials)
            tail = statistics.quantiles(times, n=20)[-1]
            print(
                f"| trial, {sampler}, {len(times)} trials | {statistics.median(times):.1f} ms "
                f"| {tail:.1f} ms |"
            )
        print(f"| fsync of 4 KiB | {fsync_ms(directory):.1f} ms | |")
        print(f"| tuner --help | {help_s():.2f} s | |")


if __name__ == "__main__":
    main()
