"""Tells studies made to reproduce a record from those that ask a question of their own."""

from __future__ import annotations

from sqlalchemy import ColumnElement
from sqlalchemy import select

from tuner.store.evidence_models import ReproductionRow
from tuner.store.models import TrialRow


def is_no_rerun() -> ColumnElement[bool]:
    """Return the condition that a trial does not belong to a reproduction's rerun."""
    linked = select(ReproductionRow.id).where(ReproductionRow.rerun_study_id == TrialRow.study_id)
    return ~linked.exists()
