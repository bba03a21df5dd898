"""How far a job is, from the database alone: the same on every host, and after a restart."""

from __future__ import annotations

from tuner.api.common import open_database
from tuner.api.plain import plain
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.settings import Settings

_NOT_DONE = (Outcome.INTERRUPTED.value, "running")


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
    from tuner.store import queries
    from tuner.store.fastest import fastest_trials

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        job = jobs.read_job(session, job_id)
        answer: dict[str, Plain] = {
            "job_id": job.id,
            "state": job.state.value,
            "wish": job.wish.value,
            "message": job.message,
            "study_id": job.study_id,
            "study": None,
            "planned": None,
            "done": 0,
            "counts": {},
            "best": [],
        }
        if job.study_id is None:
            return answer
        study = queries.find_study(session, job.study_id)
        done = [count for name, count in study.counts.items() if name not in _NOT_DONE]
        return answer | {
            "study": study.name,
            "planned": study.planned,
            "done": sum(done),
            "counts": dict(study.counts),
            "best": plain(fastest_trials(session, study.id)),
        }
