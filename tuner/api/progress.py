"""How far a study or a job is, from the database alone: the same on every host, after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.plain import plain
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_NOT_DONE = (Outcome.INTERRUPTED, RUNNING)  # an interrupted trial is tried again


def study_progress(study: str | int, settings: Settings) -> dict[str, Plain]:
    """Return how far a study is, as ``job_progress`` does, whoever runs it.

    Raises:
        NotFound: There is no such study, or no database.
    """
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return read_progress(session, study)


def job_progress(job_id: int, settings: Settings) -> dict[str, Plain]:
    """Return how far a job is.

    Returns:
        Its state and wish; of the study it opened, if it has: how many trials are planned, how
        many are done (an interrupted one is tried again), how many ended in each way, and the
        fastest of each workload so far.

    Raises:
        NotFound: There is no such job, or no database.
    """
    from tuner.store import jobs

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        job = jobs.read_job(session, job_id)
        study = None if job.study_id is None else read_progress(session, job.study_id)
    nothing: dict[str, Plain] = {
        **dict.fromkeys(("study_id", "study", "planned", "begun_since")),
        "is_driven": False,
        "done": 0,
        "counts": {},
        "best": [],
    }
    return {
        "job_id": job.id,
        **(nothing if study is None else study),
        "state": job.state.value,
        "wish": job.wish.value,
        "message": job.message,
    }


def read_progress(session: Session, study: str | int) -> dict[str, Plain]:
    """Return how far a study is, from an open store.

    ``is_driven``: a living process drives it; ``begun_since``: the next study of its name.

    Raises:
        NotFound: There is no such study.
    """
    from tuner.store import queries
    from tuner.store.fastest import fastest_trials
    from tuner.store.leases import driven_studies

    found = queries.find_study(session, study)
    return {
        "study_id": found.id,
        "study": found.name,
        "state": found.state.value,
        "begun_since": queries.begun_since(session, found),
        "is_driven": bool(driven_studies(session.connection(), [found.id])),
        "planned": found.planned,
        "done": sum(count for name, count in found.counts.items() if name not in _NOT_DONE),
        "counts": dict(found.counts),
        "best": plain(fastest_trials(session, found.id)),
    }
