"""Lists of what is stored, a page at a time, and one study whole."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import asdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.common import operator_if_known
from tuner.api.job_rows import job_row
from tuner.api.plain import plain
from tuner.domain.identity import content_hash
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.domain.queue import JobState
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.errors import UsageError
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.store.paging import TrialFilter
    from tuner.store.views import StudySummary

MAX_ID_DIGITS = 18  # more would take long to read as a number
_SCOPE_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list.

    Attributes:
        items: Its rows.
        following: Cursor of the next part, or None at the end.
    """

    items: tuple[Mapping[str, Plain], ...]
    following: str | None = None


def page_studies(settings: Settings, limit: int | None = None, cursor: str | None = None) -> Page:
    """Return studies, newest first, with their trials counted; all of them without a limit.

    Raises:
        UsageError: The cursor is not one of this list.
        NotFound: There is no database.
    """
    from tuner.store.paging import study_rows

    return _newest_first(study_rows, "study_id", settings, limit, cursor)


def newest_studies(settings: Settings, limit: int) -> tuple[Mapping[str, Plain], ...]:
    """Return the newest studies that ask a question of their own: without reruns of records.

    Raises:
        NotFound: There is no database.
    """
    from tuner.store.paging import study_rows

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return tuple(study_rows(session, limit=limit, with_reruns=False))


def page_reproductions(
    settings: Settings, limit: int | None = None, cursor: str | None = None
) -> Page:
    """Return reruns of records, newest first.

    Raises:
        UsageError: The cursor is not one of this list.
        NotFound: There is no database.
    """
    from tuner.store.paging import reproduction_rows

    return _newest_first(reproduction_rows, "reproduction_id", settings, limit, cursor)


def page_environments(
    settings: Settings, limit: int | None = None, cursor: str | None = None
) -> Page:
    """Return machines and toolchains that something was measured with, newest first.

    Raises:
        UsageError: The cursor is not one of this list.
        NotFound: There is no database.
    """
    from tuner.store.paging import environment_rows

    return _newest_first(environment_rows, "environment_id", settings, limit, cursor)


def page_jobs(
    settings: Settings,
    *,
    state: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Page:
    """Return jobs, newest first; all of them without a limit.

    Raises:
        UsageError: The cursor is not one of this list, or there is no such state.
        NotFound: There is no database.
    """
    from tuner.store import jobs

    if state is not None and state not in set(JobState):
        raise UsageError(f"no state {state[:40]!r}", hint=f"one of {', '.join(JobState)}")
    scope = _scope("job_id", state)
    after = _read_cursor(cursor, scope)
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = jobs.list_jobs(
            session,
            state=None if state is None else JobState(state),
            after=after,
            limit=None if limit is None else limit + 1,
        )
    return _cut([job_row(each) for each in found], "job_id", limit, scope)


def page_trials(
    study: str,
    settings: Settings,
    *,
    filters: Mapping[str, str | bool | None] | None = None,
    limit: int | None = 100,
    cursor: str | None = None,
) -> Page:
    """Return a study's trials in the order they were started.

    Args:
        study: Name or id.
        settings: Say which database.
        filters: ``outcome``, ``implementation``, ``shape`` and ``confirmed``.
        limit: At most so many; None for all.
        cursor: Where the last page ended; None begins.

    Raises:
        UsageError: A filter's value or the cursor is not one.
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries
    from tuner.store.paging import trial_rows

    wanted = _trial_filter(filters or {})
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = queries.find_study(session, study)
        study_id = found.id
        _check_implementation(session, wanted.implementation, found, settings)
        _check_shape(session, wanted.shape, found)
        scope = _scope("trials", study_id, asdict(wanted))
        after = _read_cursor(cursor, scope) or 0
        wanted_rows = None if limit is None else limit + 1
        rows = list(trial_rows(session, study_id, wanted, after=after, limit=wanted_rows))
    return _cut(rows, "trial_id", limit, scope)


@contextmanager
def trial_source(
    study: str, settings: Settings, filters: Mapping[str, str | bool | None] | None = None
) -> Iterator[tuple[Iterator[Mapping[str, Plain]], Sequence[str]]]:
    """Give all of a study's trials that pass the filters, as they are read, and their columns.

    Raises:
        UsageError: A filter's value is not one.
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries
    from tuner.store.paging import TRIAL_COLUMNS
    from tuner.store.paging import trial_rows

    wanted = _trial_filter(filters or {})
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = queries.find_study(session, study)
        study_id = found.id
        _check_implementation(session, wanted.implementation, found, settings)
        _check_shape(session, wanted.shape, found)
        yield trial_rows(session, study_id, wanted, limit=None), TRIAL_COLUMNS


def show_study(study: str, settings: Settings) -> dict[str, Plain]:
    """Return everything stored of a study itself, JSON-ready.

    Raises:
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = queries.find_study(session, study)
    fields = plain(found)
    return {
        "schema": "tuner.study/1",
        "study_id": fields.pop("id"),
        "study": fields.pop("name"),
        **fields,
        "trials": sum(found.counts.values()),
    }


def _newest_first(
    read: Callable[..., list[dict[str, Plain]]],
    key: str,
    settings: Settings,
    limit: int | None,
    cursor: str | None,
) -> Page:
    scope = _scope(key)
    before = _read_cursor(cursor, scope)

    def rows(session: Session) -> list[dict[str, Plain]]:
        return read(session, before=before, limit=None if limit is None else limit + 1)

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return _cut(rows(session), key, limit, scope)


def _trial_filter(filters: Mapping[str, str | bool | None]) -> TrialFilter:
    from tuner.store.paging import TrialFilter

    given = dict(filters)
    outcome, shape = given.pop("outcome", None), given.pop("shape", None)
    known = [RUNNING, *(each.value for each in Outcome)]
    if outcome is not None and outcome not in known:
        raise UsageError(f"no outcome {str(outcome)[:60]!r}", hint=f"one of {', '.join(known)}")
    return TrialFilter(
        outcome=None if outcome is None else str(outcome),
        shape=None if shape is None else shape_text(parse_shape(str(shape))),
        **given,  # type: ignore[arg-type]
    )


def _check_implementation(
    session: Session, name: str | None, study: StudySummary, settings: Settings
) -> None:
    """Refuse the name of an implementation that a study hasn't got.

    Raises:
        UsageError: It is none of those with a trial, nor of those that may get one.
    """
    from tuner.store.paging import has_implementation
    from tuner.store.paging import implementation_names

    if name is None or has_implementation(session, study.id, name):
        return
    operator = operator_if_known(study.operator, settings)
    planned = study.spec.get("space") or (
        [each.name for each in operator.implementations] if operator else []
    )
    known = sorted({*planned, *implementation_names(session, study.id)})
    if name not in known:
        raise UsageError(
            f"study {study.name[:100]!r} has no implementation {name[:100]!r}",
            hint=f"one of {', '.join(known)}" if known else "it has no trials yet",
        )


def _check_shape(session: Session, shape: str | None, study: StudySummary) -> None:
    """Refuse a shape that a study has not got.

    Raises:
        UsageError: It is none of those with a trial, nor of those that may get one.
    """
    from tuner.store.paging import shape_names

    planned = study.spec.get("shapes", [])
    if shape is None or shape in planned:
        return
    known = list(dict.fromkeys([*planned, *shape_names(session, study.id)]))
    if shape not in known:
        raise UsageError(
            f"study {study.name[:100]!r} has no shape {shape[:100]}",
            hint=f"one of {', '.join(known[:20])}" if known else "it has no trials yet",
        )


def _cut(rows: Sequence[Mapping[str, Plain]], key: str, limit: int | None, scope: str) -> Page:
    """Return a page of rows of which one more than wanted was read."""
    if limit is None or len(rows) <= limit:
        return Page(tuple(rows))
    kept = tuple(rows[:limit])
    return Page(kept, _cursor(kept[-1][key], scope))


def _scope(*parts: Plain) -> str:
    return content_hash(list(parts))[:_SCOPE_DIGITS]


def _cursor(row_id: int, scope: str) -> str:
    return base64.urlsafe_b64encode(f"{scope}{row_id}".encode()).rstrip(b"=").decode()


def _read_cursor(cursor: str | None, scope: str) -> int | None:
    """Return the id in a cursor.

    Raises:
        UsageError: It was not made for this list with these filters.
    """
    from tuner.store.problems import MAX_ID

    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        text = ""
    digits = text[_SCOPE_DIGITS:]
    is_id = digits.isdecimal() and len(digits) <= MAX_ID_DIGITS and int(digits) <= MAX_ID
    if text[:_SCOPE_DIGITS] != scope or not is_id:
        raise UsageError(
            "the cursor is not one of this list",
            hint=Way.NEXT_PAGE,
        )
    return int(digits)
