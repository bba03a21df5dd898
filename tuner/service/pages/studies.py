"""Studies: the list, asking for one, and one with its progress, results and charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.domain.identity import Plain
from tuner.domain.queue import ENDED
from tuner.domain.queue import JobState
from tuner.domain.queue import StudyState
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.service.answers import json_answer
from tuner.service.dependencies import RowId
from tuner.service.dependencies import ServiceState
from tuner.service.dependencies import SettingsDep
from tuner.service.dependencies import StateDep
from tuner.service.errors import PageRoute
from tuner.service.errors import problem_of
from tuner.service.pages.choices import device_names
from tuner.service.pages.forms import FormFields
from tuner.service.pages.forms import new_key
from tuner.service.pages.forms import NO_FIELDS
from tuner.service.pages.forms import see
from tuner.service.pages.rendering import render
from tuner.service.routes.studies import StudyName
from tuner.service.wording import PAGE_WORDS
from tuner.settings import Settings

router = APIRouter(prefix="/studies", route_class=PageRoute)

_MOVING = (StudyState.QUEUED, StudyState.RUNNING)  # will change without anybody's doing
STUDIES_OF_A_PAGE = 50
TRIALS_OF_A_PAGE = 200

StudyFields: TypeAlias = Annotated[
    Mapping[str, str], Depends(FormFields("study", "shapes", "budget", "device", "fresh", "key"))
]


@router.get("")
def list_studies(
    request: Request, state: StateDep, cursor: str | None = None, study: str = ""
) -> Response:
    """List the studies, and offer to run one: which is chosen in the form, ``study`` says."""
    return _list(request, state, {"study": study}, cursor)


@router.post("")
def launch(request: Request, fields: StudyFields, state: StateDep) -> Response:
    """Ask for a study; what is wrong with the request is said beside the form."""
    try:
        job, _ = api.launch_study(
            fields.get("study", ""),
            shapes=fields["shapes"].replace(",", " ").split() if "shapes" in fields else None,
            budget=fields.get("budget"),
            device=fields.get("device"),
            fresh="fresh" in fields,
            idempotency_key=fields.get("key"),
            settings=state.settings,
        )
    except TunerError as error:
        return _list(request, state, fields, None, error)
    return see(f"/jobs/{job['job_id']}")


@router.get("/{study:int}")
def show_study(request: Request, study: RowId, state: StateDep) -> Response:
    """Show a study with everything that was found."""
    context = {
        **_progress(study, state.settings),
        **_results(study, state),
        "summary": api.show_study(str(study), state.settings),
    }
    return render(request, "study.html", context)


@router.get("/{name}")
def find_study(name: StudyName, settings: SettingsDep) -> Response:
    """Lead to the newest study of a name, or to the form that runs it where there is none yet."""
    try:
        return see(f"/studies/{api.show_study(name, settings)['study_id']}")
    except NotFound:
        if name not in [each["name"] for each in api.registered_studies(settings)]:
            raise
    return see(f"/studies?{urlencode({'study': name})}#launch")


@router.get("/{study}/progress")
def show_progress(
    request: Request, study: RowId, settings: SettingsDep, seen: str = ""
) -> Response:
    """Show how far a study is: the part of its page that changes while it runs.

    ``seen`` is what the page shows of its job; where that is another by now, the buttons and,
    at the end, the results are sent too.
    """
    found = _progress(study, settings)
    changed = seen != found["seen"]
    return render(request, "parts/progress_update.html", {**found, "changed": changed})


@router.get("/{study}/results")
def show_results(request: Request, study: RowId, state: StateDep) -> Response:
    """Show what was found so far."""
    context = {**_results(study, state), "study_id": study}
    return render(request, "parts/results.html", context)


@router.get("/{study}/figures.json")
def figures(study: RowId, settings: SettingsDep) -> Response:
    """Send the charts of a study, for the page's script to draw."""
    return json_answer(api.study_figures(study, settings))


@router.get("/{study}/trials")
def list_trials(
    request: Request,
    study: RowId,
    settings: SettingsDep,
    outcome: str = "",
    implementation: str = "",
    shape: str = "",
    cursor: str | None = None,
) -> Response:
    """List a study's trials, whatever came of them."""
    filters = {"outcome": outcome, "implementation": implementation, "shape": shape}
    given = {name: value for name, value in filters.items() if value}
    page = api.page_trials(
        str(study), settings, filters=given, limit=TRIALS_OF_A_PAGE, cursor=cursor
    )
    context = {
        "summary": api.show_study(str(study), settings),
        "trials": page.items,
        "following": page.following,
        "filters": filters,
        "given": given,
    }
    return render(request, "trials.html", context)


@router.post("/{study}/{action}", dependencies=[NO_FIELDS])
def change(study: RowId, action: api.JobAction, settings: SettingsDep) -> Response:
    """Pause, resume or cancel a study's newest job."""
    api.change_study(str(study), action, settings)
    return see(f"/studies/{study}")


def _list(
    request: Request,
    state: ServiceState,
    fields: Mapping[str, str],
    cursor: str | None,
    error: TunerError | None = None,
) -> Response:
    page = api.page_studies(state.settings, STUDIES_OF_A_PAGE, cursor)
    told = None if error is None else problem_of(error, state.teller, PAGE_WORDS)
    context = {
        "studies": page.items,
        "following": page.following,
        "registered": api.registered_studies(state.settings),
        "devices": device_names(state.settings),
        "fields": fields,
        "error": told,
        "key": new_key(),
    }
    status = 200 if told is None else told.status
    return render(request, "studies.html", context, status=status)


def _progress(study: int, settings: Settings) -> dict[str, Any]:
    progress = api.study_progress(study, settings)
    job = api.newest_job(str(study), settings)
    state = progress["state"]
    is_live = state in _MOVING or is_live_job(job)
    return {
        "study_id": study,
        "progress": progress,
        "job": job,
        "is_live": is_live,
        "key": new_key(),
        "can_resume": not is_live and api.can_resume(study, settings),
        "seen": "-".join([state, *([job["state"], job["wish"]] if job is not None else [])]),
    }


def is_live_job(job: Mapping[str, Plain] | None) -> bool:
    """Tell whether a job runs, or will without anybody's doing."""
    return job is not None and job["state"] not in (*ENDED, JobState.PAUSED)


def _results(study: int, state: ServiceState) -> dict[str, Any]:
    try:
        return {"view": api.study_view(study, state.settings), "too_large": None}
    except UsageError as error:
        told = problem_of(error, state.teller, PAGE_WORDS)
        fastest = api.study_progress(study, state.settings)["best"]
        return {"view": None, "too_large": told, "fastest": fastest}
