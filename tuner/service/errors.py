"""What an error answer says, its one shape in JSON, and who gets it as a page instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Coroutine
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from http import HTTPStatus
from typing import Any
from typing import TypeAlias

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tuner import errors
from tuner.domain.patterns import IN_WORDS
from tuner.errors import TunerError
from tuner.service.answers import json_answer
from tuner.service.headers import SECURITY_HEADERS
from tuner.service.headers import wants_page
from tuner.service.telling import Teller
from tuner.service.wording import HTTP_WORDS
from tuner.service.wording import PAGE_WORDS
from tuner.ways import Words

SCHEMA = "tuner.error/1"

# Most special first: the first class that fits decides.
_STATUS_BY_ERROR: tuple[tuple[type[TunerError], int], ...] = (
    (errors.NoDatabase, 503),
    (errors.NotFound, 404),
    (errors.NoValidConfig, 404),
    (errors.BrokenOperator, 500),
    (errors.Conflict, 409),
    (errors.UsageError, 400),
    (errors.DeviceUnavailable, 409),
    (errors.EnvironmentProblem, 503),
    (errors.BudgetExhausted, 504),
)
_NAME_BY_STATUS = {
    400: "bad_request",
    401: "unauthorized",
    413: "body_too_large",
    414: "uri_too_long",  # Python's phrase for it depends on its version
    429: "too_many_requests",
    500: "internal_error",
}
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_MAX_MESSAGE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Problem:
    """What an error answer says.

    Attributes:
        status: Of HTTP.
        message: One line that names the thing.
        hint: What to do about it.
        error: Which error, in snake_case; "" takes the status's.
        headers: Further headers.
    """

    status: int
    message: str
    hint: str = ""
    error: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class InvalidRequest(errors.UsageError):
    """A request is not as it is described."""


PageMaker: TypeAlias = Callable[[Request, Problem], Response]
Handler: TypeAlias = Callable[[Request, Any], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose errors are pages, whoever asks."""


def handlers(page: PageMaker) -> dict[int | type[Exception], Handler]:
    """Return what answers each kind of error.

    Args:
        page: Makes an error's page.
    """
    return {
        TunerError: _answered_by(_own_error, page),
        RequestValidationError: _answered_by(_validation_error, page),
        HTTPException: _answered_by(_http_error, page),
        Exception: _answered_by(_internal_error, page),
    }


def _answered_by(read: Callable[[Request, Any], Problem], page: PageMaker) -> Handler:
    async def answer(request: Request, error: Exception) -> Response:
        found = read(request, error)
        if is_for_a_person(request):
            return page(request, found)
        return error_answer(found)

    return answer


def error_answer(problem: Problem) -> Response:
    """Return the answer to a program."""
    fields = {
        "schema": SCHEMA,
        "error": problem.error or _name_of(problem.status),
        "message": problem.message[:_MAX_MESSAGE_CHARACTERS],
        "hint": problem.hint,
        "status": problem.status,
    }
    return json_answer(fields, status=problem.status, headers=problem.headers)


def problem_of(error: TunerError, teller: Teller, words: Words = HTTP_WORDS) -> Problem:
    """Return what is said of an error of this program.

    Args:
        error: What went wrong.
        teller: Keeps back what no client is to know.
        words: Of the surface through which the client came.
    """
    message, hint = teller.told(error, words)
    status = status_of(error)
    name = _CAPITAL.sub("_", type(error).__name__).lower()
    headers = {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Problem(status, message, hint, name, headers)


def status_of(error: TunerError) -> int:
    """Return the status with which an error of this program is answered."""
    return next((code for kind, code in _STATUS_BY_ERROR if isinstance(error, kind)), 500)


def is_for_a_person(request: Request) -> bool:
    """Tell whether an error is answered with a page."""
    return _is_of_page(request) or wants_page(request.url.path, request.headers)


def _is_of_page(request: Request) -> bool:
    return isinstance(request.scope.get("route"), PageRoute)


def _own_error(request: Request, error: TunerError) -> Problem:
    """Say what went wrong in words of the surface through which the client came."""
    words = PAGE_WORDS if is_for_a_person(request) else HTTP_WORDS
    return problem_of(error, request.app.state.service.teller, words)


def _validation_error(request: Request, error: RequestValidationError) -> Problem:
    """Say 400 where a parameter or the body is not as documented; name the first fault."""
    first = error.errors()[0]
    place, *path = (str(part) for part in first["loc"])
    if place == "path" and _is_of_page(request):  # such as /jobs/x, which nobody can correct
        return Problem(404, f"there is no page {request.url.path[:100]!r}")
    name = ".".join(path)
    if first["type"] == "extra_forbidden":
        text = f"unknown {'field' if place == 'body' else 'parameter'} {name[:100]!r}"
    else:
        text = f"{place} {name[:100]!r}" if name else place
        text += f": {_fault_in_words(first)}"
    hint = "go back and correct it" if _is_of_page(request) else "see /openapi.json"
    return Problem(400, text, hint, "invalid_request")


def _fault_in_words(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "string_pattern_mismatch":
        return f"use {IN_WORDS[fault['ctx']['pattern']]}"
    return str(fault["msg"])


def _http_error(request: Request, error: HTTPException) -> Problem:
    """Say what the framework does: no such path, method not allowed, broken body."""
    headers = dict(error.headers or {})
    hint = ""
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = methods_of(request.app.state.service.routes, request.scope["path"])
        allowed |= set(headers.get("Allow", "GET").split(", "))
        if "GET" in allowed:
            allowed.add("HEAD")
        headers["Allow"] = ", ".join(sorted(allowed))
        hint = f"allowed: {headers['Allow']}"
    elif error.status_code == HTTPStatus.NOT_FOUND:
        hint = "see /openapi.json for what there is"
    return Problem(error.status_code, str(error.detail), hint, headers=headers)


def _internal_error(_request: Request, _error: Exception) -> Problem:
    """Say 500. What happened is in the service's log, not in the answer."""
    return Problem(
        500,
        "internal error",
        "this is a bug in tuner; the service's log has the trace",
        headers=SECURITY_HEADERS,  # the framework answers outside of our outermost layer here
    )


def methods_of(routes: Iterable[Route], path: str) -> set[str]:
    """Return every method that some route of a path takes.

    Starlette names those of the first route alone, and each method has a route of its own here.
    """
    matching = (each.methods for each in routes if each.path_regex.match(path))
    return set().union(*(methods or () for methods in matching))


def _name_of(status: int) -> str:
    return _NAME_BY_STATUS.get(status) or HTTPStatus(status).phrase.lower().replace(" ", "_")
