"""Reads everything a report of one study says, from one snapshot of the database.

The values are plain: tables, charts and pages are made from them without a session.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from tuner.domain.controls import RunControls
from tuner.domain.environment import Environment
from tuner.domain.identity import canonical_json
from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Protocol
from tuner.domain.queue import StudyState
from tuner.domain.stats import median
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.report.best import answer_exact
from tuner.report.best import BestAnswer
from tuner.store import queries
from tuner.store.controls import study_controls
from tuner.store.controls import trial_controls
from tuner.store.views import StudySummary
from tuner.store.views import TrialSummary
from tuner.ways import Way

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_PROCESS_KEY = (
    "trial_id", "study_id", "study", "operator", "implementation", "language", "shape", "dtype",
    "scalars", "config", "stage", "process",
)  # fmt: skip
NOTHING_TRIED = "nothing tried"
PROCESS_COLUMNS = (*_PROCESS_KEY, "samples", "median_us", "min_us", "max_us")


@dataclass(frozen=True, slots=True)
class SampledTrial:
    """A trial with its raw samples, for a look at how they move.

    Attributes:
        trial_id: Row of the trial.
        implementation: Its implementation.
        config: Its config.
        workload: What it was measured on.
        stage: ``confirm``, or ``quick`` where it was never confirmed.
        samples_us: Microseconds a launch per process, in the order taken.
    """

    trial_id: int
    implementation: str
    config: Config
    workload: Workload
    stage: str
    samples_us: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """One workload of a study.

    Attributes:
        workload: The problem.
        label: Names it within the study: its shape, with dtype and scalars where they vary.
        confirmed: Confirmed trials of this study, fastest first, with their samples.
        answer: The best of them with its ties; None where there is none.
        trials: All trials of the study on it, in the order they were started.
        beside: Controls of the runs in which the best was measured, of another study's where
            its verdict was taken over.
    """

    workload: Workload
    label: str
    confirmed: tuple[BestCandidate, ...]
    answer: BestAnswer | None
    trials: tuple[TrialSummary, ...]
    beside: tuple[RunControls, ...]


@dataclass(frozen=True, slots=True)
class StudyReport:
    """A study with all that its report shows.

    Attributes:
        study: The study.
        environment: Machine and toolchain; None where no trial tells.
        protocol: Full measurement; None where no trial tells.
        workloads: In the order of the study.
        implementations: Names of all implementations, sorted.
        chosen: Trials whose samples were asked for.
        controls: Of each run and workload, and of other studies' runs in which a best was measured.
        revision: Schema revision of the database.
        program_version: Of the program that made the report.
        created_at: When the report was made, UTC.
    """

    study: StudySummary
    environment: Environment | None
    protocol: Protocol | None
    workloads: tuple[WorkloadReport, ...]
    implementations: tuple[str, ...]
    chosen: tuple[SampledTrial, ...]
    controls: tuple[RunControls, ...]
    revision: str
    program_version: str
    created_at: datetime

    @property
    def trials(self) -> Iterator[TrialSummary]:
        """All trials, by workload."""
        return (trial for each in self.workloads for trial in each.trials)

    @property
    def untried(self) -> list[str]:
        """The planned shapes of which there is no trial, in the order of the study."""
        known = {each.workload.shape_text for each in self.workloads}
        return [each for each in self.study.spec.get("shapes", ()) if each not in known]

    @property
    def is_cpu(self) -> bool:
        """Whether the times are of a CPU, which say nothing about a GPU."""
        return self.study.device_id == "cpu"


def read_study_report(
    session: Session,
    study: StudySummary,
    *,
    chosen: Sequence[int] = (),
    revision: str,
    program_version: str,
    created_at: datetime,
) -> StudyReport:
    """Read a study's report.

    Args:
        session: Of the store; its snapshot is what the report shows.
        study: As ``queries.find_study`` gives it.
        chosen: Ids of trials whose samples are wanted beside those of the winners.
        revision: Schema revision of the database.
        program_version: Of the running program.
        created_at: Now, in UTC.

    Raises:
        NotFound: A chosen trial is not one of the study, or has no samples.
    """
    trials = queries.list_trials(session, study.id)
    environment, protocol = _measured_by(session, trials)
    workloads = _workload_reports(session, study, trials)
    beside = (run for each in workloads for run in each.beside)
    return StudyReport(
        study=study,
        environment=environment,
        protocol=protocol,
        workloads=workloads,
        implementations=tuple(sorted({trial.implementation for trial in trials})),
        chosen=tuple(_sampled(session, study, trial_id) for trial_id in dict.fromkeys(chosen)),
        controls=tuple(dict.fromkeys((*study_controls(session, study.id), *beside))),
        revision=revision,
        program_version=program_version,
        created_at=created_at,
    )


def read_winners(session: Session, study: StudySummary) -> tuple[WorkloadReport, ...]:
    """Read the workloads of a study on which something is confirmed, with those trials alone."""
    trials = queries.list_trials(session, study.id, confirmed_only=True)
    return _workload_reports(session, study, trials)


def without_answer(study: StudySummary, trials: Iterable[TrialSummary]) -> str:
    """Say how it stands with a workload that has no best config, by its trials."""
    outcomes = {trial.outcome for trial in trials} - {Outcome.SKIPPED}
    is_finished = study.state is StudyState.FINISHED
    if not outcomes and not is_finished:
        return NOTHING_TRIED
    if Outcome.OK in outcomes:
        return "nothing confirmed"
    return "no valid config" if is_finished else "nothing valid yet"


def process_rows(samples: Iterable[Mapping[str, Plain]]) -> Iterator[dict[str, Plain]]:
    """Yield one row a process with its median, from the rows of a sample export.

    The samples of a process must come one after another, as ``queries.iter_samples`` gives them.
    A process that failed has no samples, and no row.
    """

    def key(row: Mapping[str, Plain]) -> tuple[Plain, ...]:
        return tuple(row[name] for name in _PROCESS_KEY)

    for values, group in groupby(samples, key=key):
        times_us = [row["time_us"] for row in group]
        yield {
            **dict(zip(_PROCESS_KEY, values, strict=True)),
            "samples": len(times_us),
            "median_us": median(times_us),
            "min_us": min(times_us),
            "max_us": max(times_us),
        }


def failure_groups(report: StudyReport) -> list[tuple[TrialSummary, ...]]:
    """Return what is not ok, grouped by outcome, implementation and reason, in that order.

    Of a config that was interrupted and tried again, the last attempt counts.
    """
    order = [str(outcome) for outcome in Outcome]
    groups: dict[tuple[int, str, str], list[TrialSummary]] = {}
    last = {
        (trial.workload, trial.implementation, canonical_json(dict(trial.config))): trial
        for trial in report.trials
    }
    for trial in last.values():
        if trial.outcome is not None and trial.outcome is not Outcome.OK:
            reason = trial.message.partition(":")[0]
            key = (order.index(str(trial.outcome)), trial.implementation, reason)
            groups.setdefault(key, []).append(trial)
    return [tuple(trials) for _, trials in sorted(groups.items())]


def sampled(candidate: BestCandidate) -> SampledTrial:
    """Return a confirmed trial with its samples."""
    return SampledTrial(
        candidate.trial_id,
        candidate.implementation,
        candidate.config,
        candidate.workload,
        "confirm",
        candidate.samples_us,
    )


def _labels(workloads: Collection[Workload]) -> dict[Workload, str]:
    """Name each workload by its shape, and by what else sets it apart in this study."""
    several_dtypes = len({each.dtype for each in workloads}) > 1
    several_scalars = len({each.scalars for each in workloads}) > 1
    labels = {}
    for each in workloads:
        parts = [each.shape_text]
        if several_dtypes:
            parts.append(each.dtype)
        if several_scalars:
            parts.extend(f"{name}={value!r}" for name, value in each.scalars)
        labels[each] = " ".join(parts)
    return labels


def _workload_reports(
    session: Session, study: StudySummary, trials: Sequence[TrialSummary]
) -> tuple[WorkloadReport, ...]:
    groups: dict[Workload, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(trial.workload, []).append(trial)
    labels = _labels(groups)
    return tuple(
        _workload_report(session, study, workload, labels[workload], group)
        for workload, group in groups.items()
    )


def _workload_report(
    session: Session,
    study: StudySummary,
    workload: Workload,
    label: str,
    trials: Sequence[TrialSummary],
) -> WorkloadReport:
    # A trial that took over an equal one's verdict is shown by the processes of that one.
    wanted = {trial.id for trial in trials} | {trial.reused_from_id for trial in trials}
    confirmed = tuple(
        each
        for each in queries.best_candidates(
            session,
            workload,
            environment_key=study.environment_key,
            with_samples=True,
            with_reruns=True,  # where this study is one
        )
        if each.trial_id in wanted and all(each.samples_us) and each.samples_us
    )
    answer = _answer(workload, confirmed)
    beside = trial_controls(session, answer.best.trial_id) if answer else ()
    return WorkloadReport(workload, label, confirmed, answer, tuple(trials), tuple(beside))


def _answer(workload: Workload, confirmed: Sequence[BestCandidate]) -> BestAnswer | None:
    """Answer as ``tuner best`` does, but from this study alone and with its own source."""
    if not confirmed:
        return None
    newest = sorted(confirmed, key=lambda each: (each.finished_at, each.trial_id))
    hashes = {each.implementation: each.source_hash for each in newest}
    answer = answer_exact(confirmed, workload, newest[-1].environment, hashes)
    return replace(answer, differences=())


def _measured_by(
    session: Session, trials: Sequence[TrialSummary]
) -> tuple[Environment | None, Protocol | None]:
    if not trials:
        return None, None
    detail = queries.trial_detail(session, trials[0].id)
    return detail.environment, detail.protocol


def _sampled(session: Session, study: StudySummary, trial_id: int) -> SampledTrial:
    detail = queries.trial_detail(session, trial_id)
    trial = detail.summary
    if trial.study_id != study.id:
        raise NotFound(
            f"trial {trial_id} is not one of study {study.name}",
            hint=f"choose one of {Way.LIST_TRIALS.of(study.id)}",
        )
    stages: dict[str, list[tuple[float, ...]]] = {}
    for process in detail.processes:
        if process.report is not None and process.report.samples_us:
            stages.setdefault(process.stage, []).append(process.report.samples_us)
    if not stages:
        raise NotFound(
            f"trial {trial_id} has no samples ({trial.outcome or 'running'})",
            hint="choose a measured trial",
        )
    stage = "confirm" if "confirm" in stages else "quick"
    return SampledTrial(
        trial_id, trial.implementation, trial.config, trial.workload, stage, tuple(stages[stage])
    )
