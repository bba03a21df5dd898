"""Asking for studies and reruns through the queue, and looking after the jobs this makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.api.common import device_for
from tuner.api.common import open_database
from tuner.api.job_rows import job_row
from tuner.api.known_devices import auto_device
from tuner.api.originals import read_subject
from tuner.api.plain import plain
from tuner.api.registered import find_registered
from tuner.domain.device import check_device_name
from tuner.domain.identity import Plain
from tuner.domain.patterns import IDEMPOTENCY_KEY_PATTERN
from tuner.domain.patterns import IN_WORDS
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.workload import parse_shape
from tuner.errors import DeviceUnavailable
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

    from tuner.store import Store

MAX_RECORD_CHARACTERS = 200


def launch_study(
    study: str,
    *,
    shapes: Sequence[str] | None = None,
    budget: str | None = None,
    device: str | None = None,
    fresh: bool = False,
    idempotency_key: str | None = None,
    settings: Settings,
) -> tuple[dict[str, Plain], bool]:
    """Put a registered study into the queue.

    Args:
        study: Its name, never a path.
        shapes: Tune these instead of the file's, as a study of its own.
        budget: When to stop early: ``200`` (trials), ``90s``, ``30m`` or ``2h``. Of each run: a
            job that was paused or taken back begins to count again.
        device: ``auto``, ``cpu``, ``cuda:N`` or ``hip:N``; None takes the file's.
        fresh: Measure again what was measured before.
        idempotency_key: A second request of equal key makes no second job.
        settings: Say which database, and where studies and operators are.

    Returns:
        The job, and whether it is new.

    Raises:
        NotFound: No study of that name is registered.
        UsageError: The request is wrong.
        Conflict: The key stands for another request.
        DeviceUnavailable: No such device takes jobs.
        DatabaseProblem: The database can't be used.
    """
    from tuner.study.overrides import parse_budget
    from tuner.study.overrides import with_shapes

    request = {
        "study": study,
        "shapes": None if shapes is None else list(shapes),
        "budget": budget,
        "device": device,
        "fresh": fresh,
    }
    with open_database(settings, create=True, writable=True) as store:
        known = _job_of_key(store, idempotency_key, JobKind.STUDY, request)
        if known is not None:
            return job_row(known), False
        found = find_registered(study, settings)
        spec = found.spec
        if shapes is not None:
            spec = with_shapes(spec, found.operator, shapes)
        if budget is not None:
            parse_budget(budget)
        asked = device_for(device, spec.device, settings)
        complete = {**request, "name": spec.name}  # what it will be stored under
        return add_job(store, JobKind.STUDY, complete, asked, idempotency_key)


def launch_reproduce(
    record: str,
    *,
    device: str | None = None,
    shape: str | None = None,
    idempotency_key: str | None = None,
    settings: Settings,
) -> tuple[dict[str, Plain], bool]:
    """Put the rerun of a stored result into the queue.

    Args:
        record: Id of a trial, name of a study or of a set of evidence; never a folder.
        device: Where to run; None takes the record's own device.
        shape: Run at this shape instead.
        idempotency_key: A second request of equal key makes no second job.
        settings: Say which database, and where operators are.

    Returns:
        The job, and whether it is new.

    Raises:
        NotFound: There is no such record.
        UsageError: The request is wrong, or the record holds nothing to compare with.
        Conflict: The key stands for another request.
        DeviceUnavailable: No such device takes jobs.
        DatabaseProblem: The database can't be used.
    """
    request = {"record": record, "device": device, "shape": shape}
    with open_database(settings, create=True, writable=True) as store:
        known = _job_of_key(store, idempotency_key, JobKind.REPRODUCE, request)
        if known is not None:
            return job_row(known), False
        if "/" in record or len(record) > MAX_RECORD_CHARACTERS:
            raise UsageError(
                f"record {record[:100]!r} is none", hint="give a trial's id, or a stored name"
            )
        with store.session() as session:
            subject = read_subject(session, record, settings)
        if shape is not None:
            subject.operator.check_shape(parse_shape(shape))
        asked = device or subject.device_id or settings.device
        complete = {**request, "kind": subject.kind}  # a name alone does not say it
        return add_job(store, JobKind.REPRODUCE, complete, asked, idempotency_key)


def show_job(job_id: int, settings: Settings) -> dict[str, Plain]:
    """Return a job.

    Raises:
        NotFound: There is no such job, or no database.
    """
    from tuner.store import jobs

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return job_row(jobs.read_job(session, job_id))


def newest_job(study: str, settings: Settings) -> dict[str, Plain] | None:
    """Return the newest job that is to run a study of a name, or opened the study; or None.

    Args:
        study: Name of a study, or id of a stored one.
        settings: Say which database.

    Raises:
        NotFound: There is no database.
    """
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        job = read_newest_job(session, study)
    return None if job is None else job_row(job)


def read_newest_job(session: Session, study: str) -> Job | None:
    """Return what ``newest_job`` does, from an open store."""
    from tuner.store import jobs
    from tuner.store import queries
    from tuner.store import study_states

    try:
        found = queries.find_study(session, study)
    except NotFound:
        return jobs.newest_of_study(session, study, None)
    if found.name == study:
        return jobs.newest_of_study(session, study, found.id)
    return study_states.newest_job(session, found.id)


def pause_job(job_id: int, settings: Settings) -> dict[str, Plain]:
    """Pause a job: a running one when its process has stopped. It keeps its study.

    Raises:
        NotFound: There is no such job.
        Conflict: It has ended.
    """
    from tuner.store import job_wishes

    return _wish(job_wishes.pause_job, job_id, settings)


def resume_job(job_id: int, settings: Settings) -> dict[str, Plain]:
    """Put a paused job back into the queue.

    Raises:
        NotFound: There is no such job.
        Conflict: It has ended.
    """
    from tuner.store import job_wishes

    return _wish(job_wishes.resume_job, job_id, settings)


def cancel_job(job_id: int, settings: Settings) -> dict[str, Plain]:
    """End a job: a running one when its process has stopped. Its finished trials are kept.

    Raises:
        NotFound: There is no such job.
        Conflict: It has finished or failed.
    """
    from tuner.store import job_wishes

    return _wish(job_wishes.cancel_job, job_id, settings)


def list_job_devices(settings: Settings) -> list[dict[str, Plain]]:
    """Return the devices of all hosts: ``idle``, ``busy`` with a job, or ``gone``.

    Raises:
        NotFound: There is no database.
    """
    from tuner.store import job_devices

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found: list[dict[str, Plain]] = plain(job_devices.list_devices(session))
    return found


def _wish(
    change: Callable[[Connection, int], Job], job_id: int, settings: Settings
) -> dict[str, Plain]:
    with (
        open_database(settings, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        return job_row(change(connection, job_id))


def _job_of_key(
    store: Store, key: str | None, kind: JobKind, request: Mapping[str, Plain]
) -> Job | None:
    """Return the job of a key: an answer given once stays, whatever changed since."""
    from tuner.store import jobs

    if key is None:
        return None
    if not re.fullmatch(IDEMPOTENCY_KEY_PATTERN, key):
        raise UsageError(
            "the idempotency key is not one", hint=f"use {IN_WORDS[IDEMPOTENCY_KEY_PATTERN]}"
        )
    with store.session() as session:
        return jobs.find_by_key(session.connection(), key, kind, request)


def add_job(
    store: Store,
    kind: JobKind,
    request: Mapping[str, Plain],
    asked: str,
    key: str | None,
    *,
    study_id: int | None = None,
) -> tuple[dict[str, Plain], bool]:
    """Put a job into the queue of a device.

    Args:
        store: Where the queue is.
        kind: What it does.
        request: What is asked, checked and complete.
        asked: The device; ``auto`` for the best that jobs are taken for.
        key: Idempotency key.
        study_id: A study to go on with; None where it opens its own.

    Returns:
        The job, and whether it is new.

    Raises:
        DeviceUnavailable: No such device takes jobs.
    """
    from tuner.store import jobs

    check_device_name(asked)
    with store.session() as session:
        device_id = _device(session, asked)
    with store.transaction() as connection:
        job, is_new = jobs.add_job(connection, kind, request, device_id, key, study_id=study_id)
    return job_row(job), is_new


def _device(session: Session, asked: str) -> str:
    """Return the device that a job waits for.

    Any, as long as none was ever registered: the process that takes jobs may be starting.
    """
    from tuner.store import job_devices

    devices = job_devices.list_devices(session)
    known = dict.fromkeys(each.device_id for each in devices)
    if asked != "auto":
        if known and asked not in known:
            raise DeviceUnavailable(
                f"no process takes jobs for {asked}",
                hint=f"there are {', '.join(known)}; {Way.TAKE_JOBS.of(asked)}",
            )
        return asked
    chosen = auto_device((each.device_id, each.state != "gone") for each in devices)
    if chosen is None:
        raise DeviceUnavailable(
            "no process has taken jobs for any device yet, so that auto means none",
            hint="name the device, or wait until a process has started that takes jobs",
        )
    return chosen
