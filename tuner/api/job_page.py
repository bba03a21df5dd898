"""A job with what it does, or did, as its page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.job_rows import job_row
from tuner.api.progress import read_progress
from tuner.domain.evidence import AGAIN
from tuner.domain.evidence import OriginalKind
from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.report.shown import MISSING
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.domain.evidence import StoredReproduction
    from tuner.store.views import TrialSummary


@dataclass(frozen=True, slots=True)
class RerunView:
    """A result beside its rerun.

    Attributes:
        original_kind: ``trial`` or ``record``.
        original_id: Its row.
        recorded: Its figure with its unit, as it was written; "" of a trial.
        recorded_us: Median of a trial.
        shape: Of the rerun.
        implementation: Its name in the original.
        config: As the original has it.
        looks: Id and median of each trial of the rerun; None where that was not measured.
        outcome: How the last of them ended.
        verdict: What came out.
        ratio: Rerun over original; None where it means nothing.
        ratio_low: Lower end of its 95 % interval; None where there is none.
        ratio_high: Upper end.
    """

    original_kind: str
    original_id: str
    recorded: str
    recorded_us: float | None
    shape: str
    implementation: str
    config: Config
    looks: tuple[tuple[int, float | None], ...] = ()
    outcome: str = ""
    verdict: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job, what it runs, and what that gave.

    Attributes:
        job: As every answer shows it.
        studies: How far each study is that it opened, with ``part``: which part of a rerun it is.
        reruns: Each result that it ran again, once all are judged.
    """

    job: Mapping[str, Plain]
    studies: tuple[Mapping[str, Plain], ...]
    reruns: tuple[RerunView, ...]


def job_view(job_id: int, settings: Settings) -> JobView:
    """Return what the page of a job shows.

    Raises:
        NotFound: There is no such job, or no database.
    """
    from tuner.store import jobs
    from tuner.store.reproductions import reproductions_in

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        job = jobs.read_job(session, job_id)
        study_ids = _study_ids(session, job)
        reruns: tuple[RerunView, ...] = ()
        if job.kind is JobKind.REPRODUCE and job.result is not None:
            trials = _trials(session, study_ids)
            found = reproductions_in(session, study_ids)
            reruns = tuple(view for each in found if (view := _rerun(session, each, trials)))
        parts = _parts(session, study_ids)
        studies = tuple(
            {**read_progress(session, each), "part": part}
            for each, part in zip(study_ids, parts, strict=True)
        )
    return JobView(job_row(job), studies, reruns)


def _study_ids(session: Session, job: Job) -> Sequence[int]:
    from tuner.store.reruns import studies_of_rerun

    if job.study_id is None:
        return ()
    if job.kind is JobKind.STUDY:
        return (job.study_id,)
    found: Sequence[int] | None = (job.result or {}).get("rerun_study_ids")
    return found or studies_of_rerun(session, job.study_id)


def _parts(session: Session, study_ids: Sequence[int]) -> list[str]:
    """Say of each study of a rerun what sets it apart from the others; "" where nothing does.

    Results whose protocols differ, as imported ones of two input cases do, take a study each.
    """
    from tuner.store import queries

    studies = [queries.find_study(session, each) for each in study_ids]
    names = [each.name for each in studies]
    is_again = [
        name.endswith(AGAIN) and name.removesuffix(AGAIN) in names[:place]
        for place, name in enumerate(names)
    ]
    protocols = {each.protocol_key for each in studies}
    found = []
    for study, again in zip(studies, is_again, strict=True):
        case = study.spec.get("protocol", {}).get("input_case")
        text = f"input case {case}" if case and len(protocols) > 1 else ""
        if again:
            text = f"{text}: " if text else ""
            text += "what was not the same, measured again"
        found.append(text)
    return found


def _trials(session: Session, study_ids: Sequence[int]) -> dict[int, TrialSummary]:
    from tuner.store import queries

    return {trial.id: trial for each in study_ids for trial in queries.list_trials(session, each)}


def _rerun(
    session: Session, stored: StoredReproduction, trials: Mapping[int, TrialSummary]
) -> RerunView | None:
    """Return a result beside its rerun; None of what sums up a whole study."""
    found = stored.reproduction
    if found.original_kind not in ("trial", "record"):
        return None
    original = _original(session, found.original_kind, found.original_id)
    ids = (found.rerun_trial_id, stored.again_trial_id)
    looks = [trials[each] for each in ids if each is not None]
    return replace(
        original,
        shape=looks[-1].workload.shape_text if looks else original.shape,
        looks=tuple((each.id, _median_us(each)) for each in looks),
        outcome=str(looks[-1].outcome if looks else Outcome.SKIPPED),
        verdict=found.verdict,
        ratio=found.ratio,
        ratio_low=found.ratio_low,
        ratio_high=found.ratio_high,
    )


def _original(session: Session, kind: OriginalKind, original_id: str) -> RerunView:
    from tuner.store import evidence
    from tuner.store import queries

    if kind == "record":
        record = evidence.find_record(session, int(original_id)).record
        figure = f"{record.times.median} {record.times.unit}"
        name = record.implementation or MISSING
        shape = record.shape or MISSING
        return RerunView(kind, original_id, figure, None, shape, name, record.config)
    trial = queries.trial_detail(session, int(original_id)).summary
    shape, name = trial.workload.shape_text, trial.implementation
    return RerunView(kind, original_id, "", _median_us(trial), shape, name, trial.config)


def _median_us(trial: TrialSummary) -> float | None:
    return trial.median_us or trial.quick_median_us
