"""Asking which config is best, and why to believe the answer."""

from __future__ import annotations

from typing import Any
from typing import Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tuner import api
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.service.dependencies import ServiceState
from tuner.service.dependencies import StateDep
from tuner.service.errors import PageRoute
from tuner.service.errors import problem_of
from tuner.service.pages.choices import lookup_choices
from tuner.service.pages.forms import new_key
from tuner.service.pages.rendering import render
from tuner.service.pages.snippets import hip_snippet
from tuner.service.pages.snippets import python_snippet
from tuner.service.pages.snippets import triton_snippet
from tuner.service.wording import PAGE_WORDS

router = APIRouter(prefix="/lookup", route_class=PageRoute)


@router.get("")
def look_up(
    request: Request,
    state: StateDep,
    operator: str = "",
    shape: str = "",
    dtype: str = "float32",
    target: str = "",
    implementation: str = "",
    match: Literal["", "exact", "same-arch", "nearest-shape"] = "",
) -> Response:
    """Answer, or ask what is wanted."""
    asked = {
        "operator": operator, "shape": shape.strip(), "dtype": dtype, "target": target,
        "implementation": implementation.strip(), "match": match,
    }  # fmt: skip
    context: dict[str, Any] = {
        "choices": lookup_choices(state.settings), "asked": asked, "found": None, "error": None,
        "is_unknown": False, "has_nearest": False, "key": new_key(),
    }  # fmt: skip
    if not asked["shape"]:
        return render(request, "lookup.html", context)
    try:
        context |= _answer(asked, state)
    except TunerError as error:
        # The form stays, with what was asked.
        told = problem_of(error, state.teller, PAGE_WORDS)
        is_unknown = isinstance(error, NotFound)
        context |= {
            "error": told,
            "is_unknown": is_unknown,
            "has_nearest": is_unknown and _has_nearest(asked, state),
        }
        return render(request, "lookup.html", context, status=told.status)
    return render(request, "lookup.html", context)


def _has_nearest(asked: dict[str, str], state: ServiceState) -> bool:
    """Tell whether a question that has no answer has one at the nearest shape."""
    try:
        _answer({**asked, "match": "nearest-shape"}, state)
    except TunerError:
        return False
    return True


def _answer(asked: dict[str, str], state: ServiceState) -> dict[str, Any]:
    kind, _, name = asked["target"].partition(":")
    if kind not in ("arch", "device", ""):
        raise UsageError(f"no device or architecture {asked['target'][:60]!r}")
    found = api.look_up(
        asked["operator"],
        asked["shape"],
        state.settings,
        find_device=state.devices.find,
        dtype=asked["dtype"],
        device=name if kind == "device" else None,
        architecture=name if kind == "arch" else None,
        implementation=asked["implementation"] or None,
        match=asked["match"] or None,  # type: ignore[arg-type]
    )
    launches = {each.language: each for each in found.launches}
    return {
        "found": found,
        "snippets": [
            ("Python", python_snippet(found.answer, kind, name)),
            ("Triton", triton_snippet(launches["triton"]) if "triton" in launches else None),
            ("HIP", hip_snippet(launches["hip"]) if "hip" in launches else None),
        ],
    }
