"""A study of the planted operator over a real database and a scripted worker."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from tuner.domain.device import DeviceFacts
from tuner.domain.environment import Environment
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import Kernel
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import BuildReport
from tuner.domain.records import Failure
from tuner.domain.records import ProcessReport
from tuner.domain.records import TrialReport
from tuner.domain.study import SourceText
from tuner.domain.study import StoredTrial
from tuner.domain.study import StudyDefinition
from tuner.operator import Operator
from tuner.store import Store
from tuner.study import events
from tuner.study.ahead import Builds
from tuner.study.plan import make_plan
from tuner.study.runner import StudyRunner
from tuner.study.spec import Budget
from tuner.study.spec import parse_study
from tuner.worker.builders import NoBuilders

FACTS = DeviceFacts(
    "fake:0", "fake", "fake1", "fake", 1, 32, 1024, (2**31 - 1, 65535, 65535), 2**63 - 1, 65536,
    255, 2**40, 0, "host-clock",
)  # fmt: skip
STUDY = """schema = 1
name = "scripted"
operator = "planted"
shapes = ["4x8", "5x8"]
[space.good]
BLOCK = [32, 64]
[space.wrong]
BLOCK = [32, 64]
[space.half]
BLOCK = [64]
[search]
finalists = 2
[protocol]
processes = 3
samples = 4
"""


@dataclass
class ScriptedWorker:
    """Takes times and failures from a script, by entry point and block."""

    quick_us: Callable[[Kernel], float]
    failures: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    stop_at: str = ""
    controls: list[tuple[str, int]] = field(default_factory=list)
    prepared: list[tuple[int, ...]] = field(default_factory=list)
    sentinel_us: Callable[[int, int], list[float]] = lambda _round, samples: [10.0] * samples

    def run_trial(self, job: TrialJob, limits: Limits) -> TrialReport:
        self.log.append(f"{name_of(job.kernel)} alone")
        return self._report(job.kernel, "alone", job.sampling.samples)

    def run_screening(
        self, job: ScreenJob, limits: Limits, meanwhile: Callable[[], None] | None = None
    ) -> list[TrialReport]:
        names = [name_of(kernel) for kernel in job.kernels]
        if meanwhile is not None:
            meanwhile()
        if self.stop_at in names:
            raise KeyboardInterrupt
        self.log += names
        return [self._report(kernel, "quick", job.sampling.samples) for kernel in job.kernels]

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        self.log.append(f"confirm {len(job.kernels)} from {job.rotation}")
        return [self._report(kernel, "confirm", job.sampling.samples) for kernel in job.kernels]

    def run_controls(self, job: ControlJob, limits: Limits) -> list[TrialReport]:
        del limits
        self.controls.append((name_of(job.kernel), job.copy_bytes))
        samples = job.sampling.samples
        times = [[1.5] * samples, [6.0] * samples, self.sentinel_us(len(self.controls), samples)]
        return [
            TrialReport(None, BuildReport(0.1, "0" * 64, "none"), (), process_of(each))
            for each in times
        ]

    def prepare(self, job: ConfirmJob, *, screening: bool = False) -> None:
        if screening:
            self.prepared.append(job.problem.arrays[0].shape)

    def await_prepared(self, limits: Limits) -> None:
        del limits

    def begin_close(self) -> None:
        pass

    def close(self, *, force: bool = False) -> None:
        del force

    def _report(self, kernel: Kernel, stage: str, samples: int) -> TrialReport:
        outcome = self.failures.get((stage, name_of(kernel)))
        if outcome is not None:
            return TrialReport(Failure(outcome, Stage.VALIDATE, "as scripted"))
        time_us = self.quick_us(kernel)
        times = tuple(time_us * (1 + step / 1000) for step in range(samples))
        return TrialReport(None, BuildReport(0.1, "0" * 64, "none"), (), process_of(times))


def process_of(times_us: Sequence[float]) -> ProcessReport:
    return ProcessReport(tuple(times_us), 1, 1, "stream")


def name_of(kernel: Kernel) -> str:
    return f"{kernel.entry}/{kernel.geometry.threads}"


def by_block(kernel: Kernel) -> float:
    """Smaller blocks are faster; `half` is the slowest."""
    return kernel.geometry.threads * (10.0 if "half" in kernel.entry else 1.0)


@dataclass
class Harness:
    """Runs the scripted study over one database."""

    operator: Operator
    store: Store
    events: list[events.Event] = field(default_factory=list)
    kept_ready: list[int] = field(default_factory=list)
    runner: StudyRunner = field(init=False)

    def run(
        self, worker: ScriptedWorker, *, text: str = STUDY, fresh: bool = False,
        budget: Budget | None = None, builds: Builds | None = None,
    ) -> tuple[int, bool]:  # fmt: skip
        spec = parse_study(text, "scripted.toml")
        plan = make_plan(spec, self.operator, FACTS)
        sources = {
            each.name: self.operator.source(each) for each in spec.implementations(self.operator)
        }
        definition = StudyDefinition(
            spec.name, self.operator.name, spec.as_plain(), "fake:0",
            Environment({"architecture": "fake1"}, {}), spec.protocol,
            {
                name: SourceText(each.source_hash, each.language, each.entry, each.main, each.files)
                for name, each in sources.items()
            },
            {name: each.language for name, each in sources.items()},
            plan.sampler, 0, plan.planned,
        )  # fmt: skip
        self.runner = StudyRunner(
            operator=self.operator,
            spec=spec,
            plan=plan,
            definition=definition,
            sources=sources,
            recorder=self.store.recorder(),
            worker=worker,
            start_workers=lambda count: [worker] * count,
            keep_workers_ready=self.kept_ready.append,
            builds=builds or NoBuilders(),
            listener=self.events.append,
            budget=budget or Budget(),
            fresh=fresh,
        )
        return self.runner.run()

    def trials(self, study_id: int) -> list[StoredTrial]:
        return self.store.recorder().stored_trials(study_id)
