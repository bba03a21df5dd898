"""Pausing, resuming and cancelling, of a job or of a study's newest one."""

from __future__ import annotations

from typing import Literal
from typing import TypeAlias

from tuner.api.jobs import cancel_job
from tuner.api.jobs import newest_job
from tuner.api.jobs import pause_job
from tuner.api.jobs import resume_job
from tuner.api.paging import show_study
from tuner.api.resuming import resume_study
from tuner.domain.identity import Plain
from tuner.errors import NotFound
from tuner.settings import Settings
from tuner.ways import Way

JobAction: TypeAlias = Literal["pause", "resume", "cancel"]
_CHANGES = {"pause": pause_job, "resume": resume_job, "cancel": cancel_job}


def change_job(job_id: int, action: JobAction, settings: Settings) -> dict[str, Plain]:
    """Pause, resume or cancel a job, and return it.

    Raises:
        NotFound: There is no such job.
        Conflict: It has ended.
    """
    return _CHANGES[action](job_id, settings)


def change_study(
    study: str, action: JobAction, settings: Settings
) -> tuple[dict[str, Plain], bool]:
    """Pause, resume or cancel a study's newest job; resuming makes one where none is left.

    Args:
        study: Name of a study, or id of a stored one.
        action: What to do.
        settings: Say which database, and where studies and operators are.

    Returns:
        The job, and whether it is new.

    Raises:
        NotFound: There is no such study, or it has no job.
        Conflict: The job has ended.
        DeviceUnavailable: No such device takes jobs.
    """
    if action == "resume":
        return resume_study(study, settings)
    found = newest_job(study, settings)
    if found is None:
        show_study(study, settings)  # says so where there is no such study
        raise NotFound(f"study {study[:100]!r} has no job", hint=f"{Way.LIST_JOBS} lists all")
    return change_job(found["job_id"], action, settings), False
