"""A study, as a page shows it: how far it is, what it found, what failed and why."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from typing import TYPE_CHECKING

from tuner import __version__
from tuner.api.common import open_database
from tuner.domain.identity import Plain
from tuner.domain.outcome import failed_count
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.errors import UsageError
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.report.study_report import StudyReport
    from tuner.report.study_report import WorkloadReport
    from tuner.report.tables import Table
    from tuner.store.views import StudySummary

MAX_TRIALS_OF_A_PAGE = 10_000
MAX_TRIALS_OF_A_GROUP = 8
MAX_LOGS = 40
MAX_RERUNS_OF_A_RECORD = 5


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """One workload of a study.

    Attributes:
        label: Names it within the study.
        answer: As ``tuner best --format json`` has it; None while nothing is confirmed.
        without_answer: How it stands where there is none.
        slower: Time of the next one over the best's, with its 95 % interval; None without one.
        counts: Trials by outcome.
        failed: How many of them failed.
        smallest_median_us: Of each implementation's fastest confirmed config, by name.
    """

    label: str
    answer: Mapping[str, Plain] | None
    without_answer: str
    slower: tuple[float, float, float] | None
    counts: Mapping[str, int]
    failed: int
    smallest_median_us: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Winner:
    """The best config of one workload of a study.

    Attributes:
        label: Names it among those shown.
        answer: As ``tuner best --format json`` has it.
        slower: Time of the next one over the best's, with its 95 % interval; None without one.
    """

    label: str
    answer: Mapping[str, Plain]
    slower: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class Winners:
    """What a study found best.

    Attributes:
        study_id: The study.
        study: Its name.
        architecture: Of its device.
        created_at: When it was begun.
        is_cpu: Its times say nothing about a GPU.
        workloads: In the order of the study.
    """

    study_id: int
    study: str
    architecture: str
    created_at: str
    is_cpu: bool
    workloads: tuple[Winner, ...]


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
        workloads: In the order of the study, those of which nothing was tried last.
        failures: Grouped, by outcome.
        controls: Of each run and workload.
        marks: Why runs are marked, one line each.
        environment: Every field of machine and toolchain.
        environment_key: Identifies them.
    """

    facts: Mapping[str, str]
    is_cpu: bool
    implementations: tuple[str, ...]
    workloads: tuple[WorkloadView, ...]
    failures: tuple[FailureGroup, ...]
    controls: Table
    marks: tuple[str, ...]
    environment: Table
    environment_key: str


def study_view(study: str | int, settings: Settings) -> StudyView:
    """Return what the page of a study shows.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: It has too many trials for one page.
    """
    from tuner.report.controls import marks
    from tuner.report.controls_table import controls_table
    from tuner.report.study_report import NOTHING_TRIED
    from tuner.report.tables import environment_table
    from tuner.report.tables import study_facts

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        report = read_report(session, study)
        failures = _failures(session, report)
    return StudyView(
        facts=study_facts(report),
        is_cpu=report.is_cpu,
        implementations=report.implementations,
        workloads=(
            *(_workload(report, each) for each in report.workloads),
            *(WorkloadView(each, None, NOTHING_TRIED, None, {}, 0, {}) for each in report.untried),
        ),
        failures=failures,
        controls=controls_table(report),
        marks=tuple(marks(report.controls)),
        environment=environment_table(report),
        environment_key=report.study.environment_key,
    )


def newest_winners(settings: Settings) -> Winners | None:
    """Return what the newest study with a confirmed trial found best; None where there is none.

    Raises:
        NotFound: There is no database.
    """
    from tuner.report.study_report import read_winners
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        study = queries.newest_confirmed_study(session)
        workloads = () if study is None else read_winners(session, study)
    if study is None:
        return None
    return Winners(
        study_id=study.id,
        study=study.name,
        architecture=study.architecture,
        created_at=study.created_at.isoformat(),
        is_cpu=study.device_id == "cpu",
        workloads=tuple(
            Winner(each.label, each.answer.as_plain(), each.answer.slower())
            for each in workloads
            if each.answer is not None
        ),
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
    check_size(found)
    return read_study_report(
        session, found, revision="", program_version=__version__, created_at=datetime.now(UTC)
    )


def record_reruns(
    record_ids: Iterable[int], settings: Settings
) -> dict[str, list[dict[str, Plain]]]:
    """Return the newest reruns of imported records, by the record's id, each with its trial.

    Raises:
        NotFound: There is no database.
    """
    from tuner.store import queries
    from tuner.store.reproductions import list_reproductions

    found: dict[str, list[dict[str, Plain]]] = {str(each): [] for each in record_ids}
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        for stored in reversed(list_reproductions(session, original_kind="record")):
            each = stored.reproduction
            group = found.get(each.original_id)
            if group is None or len(group) == MAX_RERUNS_OF_A_RECORD:
                continue
            row: dict[str, Plain] = {
                "verdict": each.verdict,
                "ratio": each.ratio,
                "created_at": stored.created_at.isoformat(),
                "architecture": None,
                "trial": None,
                "again_trial_id": stored.again_trial_id,
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


def check_size(study: StudySummary) -> None:
    """Check that all of a study can be read for one page.

    Raises:
        UsageError: It has too many trials.
    """
    stored = sum(study.counts.values())
    if stored > MAX_TRIALS_OF_A_PAGE:
        raise UsageError(
            f"study {study.name} has {stored} trials, too many for one page",
            hint=f"its CSV files have all; {Way.REPORT_STUDY.of(study.id)}",
        )


def _workload(report: StudyReport, workload: WorkloadReport) -> WorkloadView:
    from tuner.report.study_report import without_answer
    from tuner.report.tables import fastest_of

    counts: dict[str, int] = {}
    for trial in workload.trials:
        name = str(trial.outcome or RUNNING)
        counts[name] = counts.get(name, 0) + 1
    fastest = {name: fastest_of(workload, name) for name in report.implementations}
    answer = workload.answer
    return WorkloadView(
        label=workload.label,
        answer=None if answer is None else answer.as_plain(),
        without_answer=without_answer(report.study, workload.trials),
        slower=None if answer is None else answer.slower(),
        counts=counts,
        failed=failed_count(counts),
        smallest_median_us={name: each.median_us for name, each in fastest.items() if each},
    )


def _failures(session: Session, report: StudyReport) -> tuple[FailureGroup, ...]:
    """Return what is not ok as the report groups it, with the log of the first of each group."""
    from tuner.report.study_report import failure_groups
    from tuner.store import queries

    groups = failure_groups(report)
    # What a constraint refuses was never built: it has no log.
    built = [trials[0].id for trials in groups if trials[0].outcome is not Outcome.SKIPPED]
    logs = queries.trial_logs(session, built[:MAX_LOGS])
    return tuple(
        FailureGroup(
            outcome=str(trials[0].outcome),
            implementation=trials[0].implementation,
            stage=str(trials[0].stage or ""),
            message=trials[0].message,
            count=len(trials),
            trial_ids=tuple(each.id for each in trials[:MAX_TRIALS_OF_A_GROUP]),
            log=logs.get(trials[0].id, ""),
        )
        for trials in groups
    )
