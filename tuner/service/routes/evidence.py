"""Imported evidence, and what reruns of records gave. A rerun is asked for as a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi import Path
from fastapi import Query
from starlette.responses import Response

from tuner import api
from tuner.service import schemas
from tuner.service.answers import csv_answer
from tuner.service.answers import json_answer
from tuner.service.answers import list_answer
from tuner.service.answers import page_answer
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import PageParameters
from tuner.service.dependencies import SettingsDep
from tuner.service.openapi import csv_text
from tuner.service.openapi import NOT_FOUND
from tuner.service.openapi import ok

router = APIRouter(prefix="/api/v1", tags=["evidence"])

SetName = Annotated[str, Path(max_length=200, description="Name of a set")]


@router.get("/evidence", responses=ok(schemas.EvidenceList))
def list_evidence(settings: SettingsDep, _none: NoQuery) -> Response:
    """List the imported sets of records, by name."""
    return list_answer("tuner.evidence/1", api.list_evidence(settings))


@router.get("/evidence.csv", responses=csv_text())
def list_evidence_csv(settings: SettingsDep, _none: NoQuery) -> Response:
    """List the imported sets as CSV."""
    rows = api.list_evidence(settings)
    return csv_answer(rows, schemas.columns(schemas.EvidenceItem), "evidence")


# Before the route of a set, which would take the ending as part of the name.
@router.get("/evidence/{name}.csv", responses=csv_text() | NOT_FOUND)
def show_evidence_csv(name: SetName, settings: SettingsDep, _none: NoQuery) -> Response:
    """Show the records of a set as CSV."""
    rows = api.show_evidence(name, settings)["rows"]
    return csv_answer(rows, schemas.columns(schemas.RecordItem), f"evidence-{name}")


@router.get("/evidence/{name}", responses=ok(schemas.EvidenceSet) | NOT_FOUND)
def show_evidence(name: SetName, settings: SettingsDep, _none: NoQuery) -> Response:
    """Show the records of a set, every figure as its source writes it."""
    return json_answer(api.show_evidence(name, settings))


@router.get("/reproductions", responses=ok(schemas.ReproductionList))
def list_reproductions(
    settings: SettingsDep, parameters: Annotated[PageParameters, Query()]
) -> Response:
    """List reruns of records with their verdicts, newest first."""
    page = api.page_reproductions(settings, parameters.limit, parameters.cursor)
    return page_answer("tuner.reproductions/1", page)


@router.get("/reproductions.csv", responses=csv_text())
def list_reproductions_csv(settings: SettingsDep, _none: NoQuery) -> Response:
    """List reruns of records as CSV."""
    rows = api.page_reproductions(settings).items
    return csv_answer(rows, schemas.columns(schemas.ReproductionItem), "reproductions")
