"""A study, as a page shows it: how far it is, what it found, what failed and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from typing import TYPE_CHECKING

from tuner import __version__
from tuner.api.common import open_database
from tuner.api.plain import plain
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.errors import UsageError
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.report.best import BestAnswer
    from tuner.report.study_report import StudyReport
    from tuner.report.study_report import WorkloadReport
    from tuner.report.tables import Table
    from tuner.store.views import StudySummary
    from tuner.store.views import TrialSummary

# Reading 810 trials for a page takes 0.4 s (2-core x86-64, 2026-12-02).
MAX_TRIALS_OF_A_PAGE = 10_000
MAX_TRIALS_OF_A_GROUP = 8
MAX_LOGS = 40
MAX_RERUNS_OF_A_RECORD = 5
_NOT_DONE = (Outcome.INTERRUPTED.value, "running")  # an interrupted trial is tried again


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One workload of a study.

    Attributes:
        label: Names it within the study.
        answer: As ``tuner best --format json`` has it; None while nothing is confirmed.
        slower: Time of the next one over the best's, with its 95 % interval; None without one.
        counts: Trials by outcome.
        smallest_median_us: Of each implementation's fastest confirmed config, by name.
    """

    label: str
    answer: Mapping[str, Plain] | None
    slower: tuple[float, float, float] | None
    counts: Mapping[str, int]
    smallest_median_us: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Trials that ended in the same way for the same reason.

    Attributes:
        outcome: How.
        implementation: Of all of them.
        stage: Where the first of them failed, or "".
        message: Of the first of them.
        count: How many.
        trial_ids: The first of them.
        log: Compiler output or stack trace of the first; "" where there is none.
    """

    outcome: str
    implementation: str
    stage: str
    message: str
    count: int
    trial_ids: tuple[int, ...]
    log: str


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study with its results.

    Attributes:
        facts: What its head says, by name.
        is_cpu: Its times say nothing about a GPU.
        implementations: Names, sorted.
        workloads: In the order of the study.
        failures: Grouped, by outcome.
        environment: Every field of machine and toolchain.
        environment_key: Identifies them.
    """

    facts: Mapping[str, str]
    is_cpu: bool
    implementations: tuple[str, ...]
    workloads: tuple[WorkloadView, ...]
    failures: tuple[FailureGroup, ...]
    environment: Table
    environment_key: str


def figure_text(value: float | None) -> str:
    """Return a figure with four significant digits, as reports show it; a dash for None."""
    from tuner.report.tables import number

    return number(value)


def study_progress(study: str | int, settings: Settings) -> dict[str, Plain]:
    """Return how far a study is, as ``job_progress`` does, whoever runs it.

    Raises:
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries
    from tuner.store.fastest import fastest_trials

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = queries.find_study(session, study)
        fastest = fastest_trials(session, found.id)
    return {
        "study_id": found.id,
        "study": found.name,
        "state": found.state,
        "planned": found.planned,
        "done": sum(count for name, count in found.counts.items() if name not in _NOT_DONE),
        "counts": dict(found.counts),
        "best": plain(fastest),
    }


def study_view(study: str | int, settings: Settings) -> StudyView:
    """Return what the page of a study shows.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: It has too many trials for one page.
    """
    from tuner.report.tables import environment_table
    from tuner.report.tables import study_facts

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        report = read_report(session, study)
        failures = _failures(session, report)
    return StudyView(
        facts=study_facts(report),
        is_cpu=report.is_cpu,
        implementations=report.implementations,
        workloads=tuple(_workload(report, each) for each in report.workloads),
        failures=failures,
        environment=environment_table(report),
        environment_key=report.study.environment_key,
    )


def read_report(session: Session, study: str | int) -> StudyReport:
    """Read the report of a study for a page.

    Raises:
        NotFound: There is no such study.
        UsageError: It has too many trials for one page.
    """
    from tuner.report.study_report import read_study_report
    from tuner.store import queries

    found = queries.find_study(session, study)
    _check_size(found)
    return read_study_report(
        session, found, revision="", program_version=__version__, created_at=datetime.now(UTC)
    )


def record_reruns(settings: Settings) -> dict[str, list[dict[str, Plain]]]:
    """Return the newest reruns of imported records, by the record's id, each with its trial.

    Raises:
        NotFound: There is no database.
    """
    from tuner.store import queries
    from tuner.store.reproductions import list_reproductions

    found: dict[str, list[dict[str, Plain]]] = {}
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        for stored in reversed(list_reproductions(session, original_kind="record")):
            each = stored.reproduction
            group = found.setdefault(each.original_id, [])
            if len(group) == MAX_RERUNS_OF_A_RECORD:
                continue
            row: dict[str, Plain] = {
                "verdict": each.verdict,
                "ratio": each.ratio,
                "created_at": stored.created_at.isoformat(),
                "architecture": None,
                "trial": None,
            }
            if each.rerun_trial_id is not None:
                detail = queries.trial_detail(session, each.rerun_trial_id)
                row["architecture"] = detail.environment.identity.get("architecture")
                row["trial"] = {
                    "trial_id": detail.summary.id,
                    "shape": detail.summary.workload.shape_text,
                    "median_us": detail.summary.median_us,
                }
            group.append(row)
    return found


def slower_than_best(answer: BestAnswer) -> tuple[float, float, float] | None:
    """Return the time of the next config over the best's, with the ends of its 95 % interval."""
    from tuner.domain.stats import ratio_interval

    second = answer.runner_up
    if second is None:
        return None
    low, high = ratio_interval(answer.best.samples_us, second.samples_us)
    return second.median_us / answer.best.median_us, low, high


def _check_size(study: StudySummary) -> None:
    stored = sum(study.counts.values())
    if stored > MAX_TRIALS_OF_A_PAGE:
        raise UsageError(
            f"study {study.name} has {stored} trials, too many for one page",
            hint=f"download its CSV files, or run `tuner report {study.id}`",
        )


def _workload(report: StudyReport, workload: WorkloadReport) -> WorkloadView:
    from tuner.report.tables import fastest_of

    counts: dict[str, int] = {}
    for trial in workload.trials:
        name = str(trial.outcome or "running")
        counts[name] = counts.get(name, 0) + 1
    fastest = {name: fastest_of(workload, name) for name in report.implementations}
    answer = workload.answer
    return WorkloadView(
        label=workload.label,
        answer=None if answer is None else answer.as_plain(),
        slower=None if answer is None else slower_than_best(answer),
        counts=counts,
        smallest_median_us={name: each.median_us for name, each in fastest.items() if each},
    )


def _failures(session: Session, report: StudyReport) -> tuple[FailureGroup, ...]:
    """Group what is not ok as the report does, and read the log of the first of each group."""
    from tuner.store import queries

    groups: dict[tuple[str, str, str], list[TrialSummary]] = {}
    for trial in report.trials:
        if trial.outcome is not None and trial.outcome is not Outcome.OK:
            reason = trial.message.partition(":")[0]
            key = (str(trial.outcome), trial.implementation, reason)
            groups.setdefault(key, []).append(trial)
    order = [str(outcome) for outcome in Outcome]
    found = []
    logs = 0
    for (outcome, implementation, _), trials in sorted(
        groups.items(), key=lambda item: (order.index(item[0][0]), item[0])
    ):
        first = trials[0]
        log = ""
        # What a constraint refuses was never built: it has no log.
        if first.outcome is not Outcome.SKIPPED and logs < MAX_LOGS:
            log = queries.trial_detail(session, first.id).log
            logs += 1
        found.append(
            FailureGroup(
                outcome=outcome,
                implementation=implementation,
                stage=str(first.stage or ""),
                message=first.message,
                count=len(trials),
                trial_ids=tuple(each.id for each in trials[:MAX_TRIALS_OF_A_GROUP]),
                log=log,
            )
        )
    return tuple(found)
