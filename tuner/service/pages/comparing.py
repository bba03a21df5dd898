"""Two studies or environments side by side."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.errors import TunerError
from tuner.service.dependencies import StateDep
from tuner.service.errors import PageRoute
from tuner.service.errors import problem_of
from tuner.service.pages.rendering import render
from tuner.service.wording import PAGE_WORDS
from tuner.settings import Settings

router = APIRouter(prefix="/compare", route_class=PageRoute)
MAX_CHOICES = 200


@router.get("")
def compare(request: Request, state: StateDep, a: str = "", b: str = "") -> Response:
    """Set two sides beside each other, or ask which."""
    context: dict[str, Any] = {
        "sides": _sides(state.settings), "a": a, "b": b, "comparison": None, "error": None,
    }  # fmt: skip
    if not (a and b):
        return render(request, "compare.html", context)
    try:
        context["comparison"] = api.compare(a, b, settings=state.settings).as_plain()
    except TunerError as error:
        told = problem_of(error, state.teller, PAGE_WORDS)
        return render(request, "compare.html", context | {"error": told}, status=told.status)
    return render(request, "compare.html", context)


def _sides(settings: Settings) -> dict[str, list[tuple[str, str]]]:
    """Return what can be compared: value and words of each, studies and environments."""
    studies = api.page_studies(settings, MAX_CHOICES).items
    environments = api.page_environments(settings, MAX_CHOICES).items
    return {
        "Studies": [
            (
                str(each["study_id"]),
                f"{each['study_id']}: {each['study']}, {each['architecture']}, "
                f"{each['created_at'][:16].replace('T', ' ')}",
            )
            for each in studies
            if each["ok"]
        ],
        "Environments": [
            (
                f"env:{each['environment_key']}",
                f"{each['architecture']}, {_toolchain(each['identity'])} "
                f"({each['environment_key'][:12]})",
            )
            for each in reversed(environments)
            if each["studies"]
        ],
    }


def _toolchain(identity: dict[str, str]) -> str:
    found = [
        f"{name} {identity[name]}"
        for name in ("driver", "runtime", "compiler", "triton")
        if name in identity
    ]
    return ", ".join(found) or "toolchain unknown"
