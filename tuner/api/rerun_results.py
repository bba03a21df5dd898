"""What a rerun gave, as it is stored: the same for one that was stopped and gone on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.domain.outcome import Outcome
from tuner.domain.study import REPRODUCES
from tuner.domain.study import RERUN_KEY
from tuner.domain.study import TrialPoint
from tuner.report.reproduce import Rerun

if TYPE_CHECKING:
    from tuner.report.reproduction import ReproductionReport
    from tuner.store import Store


def token_of(store: Store, study_id: int) -> str | None:
    """Return what tells the studies of one rerun from those of others of the same record.

    None where the study was begun by a version that did not tell them apart.
    """
    from tuner.store import queries

    with store.session() as session:
        origin = queries.find_study(session, study_id).spec.get(REPRODUCES, {})
    token: str | None = origin.get(RERUN_KEY)
    return token


def stored_rerun(store: Store, point: TrialPoint, trial_id: int, *, is_quick: bool) -> Rerun:
    """Return what a trial of a rerun gave.

    Args:
        store: Where it is.
        point: What it is about.
        trial_id: Its row.
        is_quick: Take the samples of the quick stage, which those of the original are of.
    """
    from tuner.store import queries

    with store.session() as session:
        detail = queries.trial_detail(session, trial_id)
    summary = detail.summary
    is_ok = summary.outcome is Outcome.OK
    stage = "quick" if is_quick else "confirm"
    reports = [each.report for each in detail.processes if each.stage == stage and is_ok]
    timed = [each for each in reports if each is not None]
    return Rerun(
        workload=point.workload,
        config=point.config,
        outcome=summary.outcome or Outcome.INTERRUPTED,
        message=summary.message,
        trial_id=trial_id,
        study_id=summary.study_id,
        processes_us=tuple(each.samples_us for each in timed),
        build=detail.build,
        max_abs_error=summary.max_abs_error,
        launches_per_sample=tuple(each.launches_per_sample for each in timed),
        submissions=tuple(each.submission for each in timed),
    )


def refused_rerun(point: TrialPoint, why: str, study_id: int) -> Rerun:
    """Return the rerun of what the device refuses before launch."""
    return Rerun(point.workload, point.config, Outcome.SKIPPED, why, study_id=study_id)


def store_reproductions(store: Store, report: ReproductionReport) -> None:
    """Store the verdicts of a rerun, unless that was done before it was gone on with."""
    from tuner.store.reproductions import add_reproduction
    from tuner.store.reproductions import reproductions_in

    with store.session() as session:
        if reproductions_in(session, report.study_ids):
            return
    with store.transaction() as connection:
        for each in report.stored():
            add_reproduction(connection, each)
