"""Going on with a study, or with the rerun of a record, that was stopped."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.jobs import add_job
from tuner.api.jobs import launch_study
from tuner.api.jobs import read_newest_job
from tuner.api.jobs import resume_job
from tuner.domain.identity import Plain
from tuner.domain.queue import ENDED
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.queue import StudyState
from tuner.errors import Conflict
from tuner.errors import NotFound
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.store.views import StudySummary

_LEFT = (StudyState.STOPPED, StudyState.CANCELLED, StudyState.FAILED)


def resume_study(study: str, settings: Settings) -> tuple[dict[str, Plain], bool]:
    """Go on with a study: by its newest job, or, where that has ended, by a new one like it.

    Args:
        study: Name of a study, or id of a stored one.
        settings: Say which database, and where studies and operators are.

    Returns:
        The job, and whether it is new.

    Raises:
        NotFound: There is no such study, or it is not registered.
        Conflict: Its newest job is being cancelled; or it is a rerun that is finished, or that
            no job began.
        DeviceUnavailable: No such device takes jobs.
    """
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        job = read_newest_job(session, study)
        if job is not None and job.state not in ENDED:
            return resume_job(job.id, settings), False
        rerun = _find_rerun(session, study)
        if rerun is not None:
            return _resume_rerun(session, rerun, settings)
        asked = _asked(session, study, job)
    return launch_study(**asked, settings=settings)


def can_resume(study_id: int, settings: Settings) -> bool:
    """Tell whether ``resume_study`` goes on with a study that has no job to go on with it.

    Raises:
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        if queries.find_study(session, study_id).state not in _LEFT:
            return False
        rerun = _find_rerun(session, str(study_id))
        return rerun is None or _job_of_rerun(session, rerun.id) is not None


def _find_rerun(session: Session, study: str) -> StudySummary | None:
    """Return a study if it is stored and the rerun of a record."""
    from tuner.store import queries
    from tuner.store.reruns import is_rerun

    with suppress(NotFound):
        found = queries.find_study(session, study)
        return found if is_rerun(session, found.id) else None
    return None


def _job_of_rerun(session: Session, study_id: int) -> Job | None:
    from tuner.store.study_states import newest_job

    job = newest_job(session, study_id)
    return job if job is not None and job.kind is JobKind.REPRODUCE else None


def _resume_rerun(
    session: Session, rerun: StudySummary, settings: Settings
) -> tuple[dict[str, Plain], bool]:
    name = f"study {rerun.name} (id {rerun.id}), a rerun,"
    if rerun.state is StudyState.FINISHED:
        raise Conflict(f"{name} is finished", hint="reproduce its record again for another one")
    job = _job_of_rerun(session, rerun.id)
    if job is None:
        raise Conflict(
            f"{name} was begun by no job, so that none can go on with it",
            hint="reproduce its record: that begins another one",
        )
    with open_database(settings, create=False, writable=True) as store:
        # With the study from its beginning, for that names the rerun to go on with.
        return add_job(
            store, JobKind.REPRODUCE, job.request, job.device_id, None, study_id=rerun.id
        )


def _asked(session: Session, study: str, job: Job | None) -> dict[str, Plain]:
    from tuner.store import queries

    if job is None:
        found = queries.find_study(session, study)
        return {"study": found.name, "device": found.device_id}
    # On the device it had; with ``fresh``, it would begin again and not go on.
    asked = {**job.request, "device": job.device_id, "fresh": False}
    asked.pop("name", None)  # follows from the rest
    return asked
