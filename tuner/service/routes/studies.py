"""Studies: what was asked, how far it is, and its report. Asking for one makes a job."""

from __future__ import annotations

from typing import Annotated
from typing import Literal

from fastapi import APIRouter
from fastapi import Path
from fastapi import Query
from starlette.responses import Response

from tuner import api
from tuner.service import schemas
from tuner.service.answers import csv_answer
from tuner.service.answers import csv_stream
from tuner.service.answers import json_answer
from tuner.service.answers import page_answer
from tuner.service.answers import report_answer
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import PageParameters
from tuner.service.dependencies import SettingsDep
from tuner.service.dependencies import Strict
from tuner.service.openapi import csv_text
from tuner.service.openapi import NOT_FOUND
from tuner.service.openapi import ok
from tuner.service.openapi import text

router = APIRouter(prefix="/api/v1/studies", tags=["studies"])

StudyName = Annotated[str, Path(max_length=200, description="Name or id; the newest of a name")]


class TrialFilters(Strict):
    """Which trials of a study."""

    outcome: str | None = None
    implementation: str | None = None
    shape: str | None = None
    confirmed: bool | None = None


class TrialParameters(TrialFilters, PageParameters):
    """Which trials of a study, and which part of them."""


@router.get("", responses=ok(schemas.StudyList))
def list_studies(settings: SettingsDep, parameters: Annotated[PageParameters, Query()]) -> Response:
    """List the stored studies, newest first."""
    page = api.page_studies(settings, parameters.limit, parameters.cursor)
    return page_answer("tuner.studies/1", page)


@router.get(".csv", responses=csv_text())
def list_studies_csv(settings: SettingsDep, _none: NoQuery) -> Response:
    """List the stored studies as CSV."""
    rows = api.page_studies(settings).items
    return csv_answer(rows, schemas.columns(schemas.StudyItem), "studies")


@router.get("/{study}", responses=ok(schemas.Study) | NOT_FOUND)
def show_study(study: StudyName, settings: SettingsDep, _none: NoQuery) -> Response:
    """Show one study with what was asked for."""
    return json_answer(api.show_study(study, settings))


@router.get("/{study}/trials", responses=ok(schemas.TrialList) | NOT_FOUND)
def list_trials(
    study: StudyName, settings: SettingsDep, parameters: Annotated[TrialParameters, Query()]
) -> Response:
    """List a study's trials in the order they were started, whatever came of them."""
    filters = parameters.model_dump(exclude={"limit", "cursor"})
    page = api.page_trials(
        study, settings, filters=filters, limit=parameters.limit, cursor=parameters.cursor
    )
    return page_answer("tuner.trials/1", page)


@router.get("/{study}/trials.csv", responses=csv_text() | NOT_FOUND)
def list_trials_csv(
    study: StudyName, settings: SettingsDep, filters: Annotated[TrialFilters, Query()]
) -> Response:
    """List all of a study's trials that pass the filters as CSV."""
    return csv_stream(api.trial_source(study, settings, filters.model_dump()), f"trials-{study}")


@router.get(
    "/{study}/report.{ending}",
    responses=text("text/html", "One page with tables and charts, or Markdown") | NOT_FOUND,
)
def report(
    study: StudyName,
    ending: Literal["html", "md"],
    settings: SettingsDep,
    _none: NoQuery,
) -> Response:
    """Report a study: one HTML page with charts, or Markdown for a pull request."""
    return report_answer(api.report_text(study, ending, settings), ending)
