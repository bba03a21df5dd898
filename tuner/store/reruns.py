"""Tells studies made to reproduce a record from those that ask a question of their own.

A rerun says so from its beginning, in what is stored as its study file; the rows of its
reproductions come when it has ended, or never where it is cancelled.
"""

from __future__ import annotations

import json

from sqlalchemy import ColumnElement
from sqlalchemy import or_
from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.orm import Session

from tuner.domain.study import REPRODUCES
from tuner.domain.study import RERUN_KEY
from tuner.store.evidence_models import ReproductionRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.table import table_of


def is_no_rerun(study_id: InstrumentedAttribute[int] = TrialRow.study_id) -> ColumnElement[bool]:
    """Return the condition that a trial, or a study, does not belong to a reproduction's rerun."""
    return ~_is_of_rerun(study_id)


def is_rerun(session: Session, study_id: int) -> bool:
    """Tell whether a study is the rerun of a record."""
    query = select(StudyRow.id).where(StudyRow.id == study_id, _is_of_rerun(StudyRow.id))
    return session.execute(query).first() is not None


def studies_of_rerun(session: Session, study_id: int) -> tuple[int, ...]:
    """Return the studies of the rerun that a study belongs to, in the order they were begun.

    A rerun has one for each protocol, and another one where it took a second look.
    """
    spec = json.loads(session.get_one(StudyRow, study_id).spec)
    token = spec.get(REPRODUCES, {}).get(RERUN_KEY)
    if token is None:  # of a version that did not tell them apart
        return (study_id,)
    text = f'"{RERUN_KEY}":"{token}"'
    query = select(StudyRow.id).where(
        StudyRow.name.startswith(spec["name"], autoescape=True),
        StudyRow.spec.contains(text, autoescape=True),
    )
    return tuple(session.scalars(query.order_by(StudyRow.id)))


def _is_of_rerun(study_id: InstrumentedAttribute[int]) -> ColumnElement[bool]:
    study = table_of(StudyRow).alias()
    # Canonical JSON has no spaces, and a quote within a text follows a backslash.
    says_so = select(study.c.id).where(
        study.c.id == study_id, study.c.spec.contains(f'"{REPRODUCES}":{{', autoescape=True)
    )
    linked = select(ReproductionRow.id).where(ReproductionRow.rerun_study_id == study_id)
    return or_(says_so.exists(), linked.exists())
