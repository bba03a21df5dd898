"""Tells studies made to reproduce a record from those that ask a question of their own."""

from __future__ import annotations

from sqlalchemy import ColumnElement
from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.orm import Session

from tuner.store.evidence_models import ReproductionRow
from tuner.store.models import TrialRow


def is_no_rerun(study_id: InstrumentedAttribute[int] = TrialRow.study_id) -> ColumnElement[bool]:
    """Return the condition that a trial, or a study, does not belong to a reproduction's rerun."""
    linked = select(ReproductionRow.id).where(ReproductionRow.rerun_study_id == study_id)
    return ~linked.exists()


def is_rerun(session: Session, study_id: int) -> bool:
    """Tell whether a study is the rerun of a record."""
    linked = select(ReproductionRow.id).where(ReproductionRow.rerun_study_id == study_id).limit(1)
    return session.execute(linked).first() is not None
