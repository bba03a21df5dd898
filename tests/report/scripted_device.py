"""A device that gives the times a test writes down, behind the real studies, store and API."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tuner import api
from tuner.domain.device import DeviceFacts
from tuner.domain.environment import Environment
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import Kernel
from tuner.domain.job import Sampling
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.records import BuildReport
from tuner.domain.records import Failure
from tuner.domain.records import ProcessReport
from tuner.domain.records import TrialReport
from tuner.domain.records import ValidationReport
from tuner.report.reproduction import ReproductionReport
from tuner.settings import Settings
from tuner.worker.builders import NoBuilders

PLANTED = Path(__file__).resolve().parent.parent / "operators" / "planted"
FACTS = DeviceFacts(
    "cuda:0", "cuda", "sm_90", "scripted", 132, 32, 1024, (2**31 - 1, 65535, 65535), 2**63 - 1,
    65536, 255, 2**37, 0, "device-event", {"hip": ""},
)  # fmt: skip
IDENTITY = {
    "architecture": "sm_90",
    "compute_units": "132",
    "pci_device_id": "10de:2335",
    "driver": "580.1",
    "compiler": "nvrtc 13.0",
    "triton": "3.6.0",
}
STUDY = """schema = 1
name = "scripted"
operator = "planted"
device = "cuda:0"
shapes = ["{shape}"]
[space.good]
BLOCK = [{blocks}]
{more}
[search]
finalists = 4
[protocol]
warmup = 1
samples = {samples}
processes = 3
launches_per_sample = {launches}
[quick]
samples = 5
"""


@dataclass
class Script:
    """What the device does.

    Attributes:
        base_us: Time of each kernel, by entry.
        factor: Of all times, by entry, where the kernel changed.
        within: Standard deviation of samples within a process, of their logarithm.
        between: Of processes.
        session: Of sessions: one shift for a whole run.
        outcomes: Kernels that fail, by entry.
        options: Given to the compiler.
        launches: Chosen where the protocol fixes none.
        identity: Identity fields of the environment.
        kernels: Every kernel that was built, in order.
        samplings: Every sampling that was asked for.
        interleaved: How many kernels each confirming process had.
        null_us: Of a kernel that does nothing.
        drift: By how much the sentinel is slower at each round of the controls than before.
        rounds: Of the controls, in this session.
    """

    base_us: dict[str, float] = field(
        default_factory=lambda: {"planted_good": 10.0, "planted_second_good": 20.0}
    )
    factor: dict[str, float] = field(default_factory=dict)
    within: float = 0.001
    between: float = 0.0005
    session: float = 0.0
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    options: tuple[str, ...] = ("--std=c++17",)
    launches: int = 100
    identity: dict[str, str] = field(default_factory=lambda: dict(IDENTITY))
    kernels: list[Kernel] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    interleaved: list[int] = field(default_factory=list)
    random: random.Random = field(default_factory=lambda: random.Random(20261202))
    shift: float = 0.0
    null_us: float = 1.5
    drift: float = 0.0
    rounds: int = 0

    def report(self, kernel: Kernel, sampling: Sampling) -> TrialReport:
        """Return what a kernel gives in one process."""
        self.kernels.append(kernel)
        self.samplings.append(sampling)
        outcome = self.outcomes.get(kernel.entry, Outcome.OK)
        if outcome is not Outcome.OK:
            return TrialReport(Failure(outcome, Stage.VALIDATE, "as the test says"))
        process = self.shift + self.random.gauss(0.0, self.between)
        time_us = self.base_us[kernel.entry] * self.factor.get(kernel.entry, 1.0)
        time_us *= 1.0 + kernel.geometry.threads / 6400.0  # so that two configs differ
        samples = tuple(
            time_us * math.exp(process + self.random.gauss(0.0, self.within))
            for _ in range(sampling.samples)
        )
        check = ValidationReport("before", "normal", sampling.input_seed, True, 1e-7, 1e-7)
        return TrialReport(
            None,
            BuildReport(0.1, "b" * 64, "nvrtc 13.0", self.options),
            (check,),
            ProcessReport(samples, sampling.launches_per_sample or self.launches, 1, "graph"),
        )


class ScriptedWorker:
    """Stands in for ``DeviceWorker``."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.facts = FACTS
        self.environment = Environment(dict(script.identity), {"clock": "1980"})

    def __enter__(self) -> ScriptedWorker:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        return None

    def run_trial(self, job: TrialJob, _limits: Limits) -> TrialReport:
        """Give what the script says."""
        return self._script.report(job.kernel, job.sampling)

    def run_confirmation(self, job: ConfirmJob, _limits: Limits) -> list[TrialReport]:
        """Give what the script says, for each kernel."""
        self._script.interleaved.append(len(job.kernels))
        return [self._script.report(kernel, job.sampling) for kernel in job.kernels]

    def run_screening(
        self, job: ScreenJob, _limits: Limits, _meanwhile: Callable[[], None] | None = None
    ) -> list[TrialReport]:
        """Give what the script says, for each kernel."""
        return [self._script.report(kernel, job.sampling) for kernel in job.kernels]

    def run_controls(self, job: ControlJob, _limits: Limits) -> list[TrialReport]:
        """Give steady times, but for the sentinel's drift from one round to the next."""
        del job
        self._script.rounds += 1
        sentinel_us = 10.0 * (1.0 + self._script.drift * (self._script.rounds - 1))
        return [
            TrialReport(None, process=ProcessReport((time_us,) * 5, 100, 1, "graph"))
            for time_us in (self._script.null_us, 8.0, sentinel_us)
        ]

    def prepare(self, job: ConfirmJob, *, screening: bool = False) -> None:
        """Do nothing."""

    def await_prepared(self, limits: Limits) -> None:
        """Do nothing."""

    def begin_close(self) -> None:
        pass

    def close(self, *, force: bool = False) -> None:
        """Do nothing."""


class ScriptedCrew(nullcontext["ScriptedCrew"]):
    """Stands in for ``Crew``."""

    def __init__(self, script: Script) -> None:
        super().__init__(self)
        self._script = script
        self.worker = ScriptedWorker(script)

    def builders(self, _build_timeout_s: float) -> NoBuilders:
        """Leave builds to the workers."""
        return NoBuilders()

    def keep_ready(self, _count: int) -> None:
        """Do nothing."""

    def open_workers(self, count: int) -> list[ScriptedWorker]:
        """Return workers that do what the script says."""
        return [ScriptedWorker(self._script) for _ in range(count)]

    def begin_close(self) -> None:
        """Do nothing."""


class Laboratory:
    """Runs and reproduces studies on a scripted device, in a database of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.operator = folder / "operators" / "planted"
        shutil.copytree(PLANTED, self.operator, ignore=shutil.ignore_patterns("__pycache__"))
        text = (self.operator / "planted.hip").read_text()
        (self.operator / "planted.hip").write_text('#include "twice.h"\n' + text)
        (self.operator / "twice.h").write_text("// twice\n")
        self.script = Script()
        self.settings = Settings(
            db=str(folder / "results.db"),
            cache_dir=folder / "cache",
            operators=(folder / "operators",),
        )
        monkeypatch.setattr(
            "tuner.api.reproducing.open_worker", lambda *_: ScriptedWorker(self.script)
        )
        monkeypatch.setattr(
            "tuner.api.studies.open_crew", lambda *_, **__: ScriptedCrew(self.script)
        )

    def run(
        self,
        *more: str,
        blocks: Sequence[int] = (64,),
        launches: str = "10",
        samples: int = 20,
        shape: str = "6x40",
    ) -> int:
        """Run a study afresh and return its id."""
        self._new_session()
        text = STUDY.format(
            shape=shape,
            blocks=", ".join(map(str, blocks)),
            more="".join(f"[space.{name}]\nBLOCK = [64]\n" for name in more),
            launches=f'"{launches}"' if launches == "auto" else launches,
            samples=samples,
        )
        path = self.folder / "scripted.toml"
        path.write_text(text)
        return api.run_study(path, fresh=True, settings=self.settings).study_id

    def reproduce(self, record: object, **options: Any) -> ReproductionReport:
        """Reproduce a record in a new session."""
        self._new_session()
        self.script.kernels.clear()
        self.script.samplings.clear()
        self.script.interleaved.clear()
        return api.reproduce(str(record), settings=self.settings, **options)

    def only_trial(self, study_id: int) -> int:
        """Return the id of a study's only trial."""
        (row,) = api.page_trials(str(study_id), self.settings).items
        return int(row["trial_id"])

    def change(self, **fields: Any) -> None:
        """Change the script from here on."""
        self.script = replace(self.script, **fields)

    def _new_session(self) -> None:
        self.script.shift = self.script.random.gauss(0.0, self.script.session)
        self.script.rounds = 0
