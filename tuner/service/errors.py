"""The one shape of every error answer, and how the program's errors become status codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tuner import errors
from tuner.errors import TunerError
from tuner.service.answers import json_answer
from tuner.service.headers import SECURITY_HEADERS

SCHEMA = "tuner.error/1"

# Most special first: the first class that fits decides.
_STATUS_BY_ERROR: tuple[tuple[type[TunerError], int], ...] = (
    (errors.NotFound, 404),
    (errors.NoValidConfig, 404),
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
    429: "too_many_requests",
    500: "internal_error",
}
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_MAX_MESSAGE_CHARACTERS = 500


def error_answer(
    status: int,
    message: str,
    *,
    hint: str = "",
    error: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error answer.

    Args:
        status: Of HTTP.
        message: One line that names the thing.
        hint: What to do about it.
        error: Which error, in snake_case; "" takes the status's.
        headers: Further headers.
    """
    fields = {
        "schema": SCHEMA,
        "error": error or _name_of(status),
        "message": message[:_MAX_MESSAGE_CHARACTERS],
        "hint": hint,
        "status": status,
    }
    return json_answer(fields, status=status, headers=headers)


def status_of(error: TunerError) -> int:
    """Return the status with which an error of this program is answered."""
    return next((code for kind, code in _STATUS_BY_ERROR if isinstance(error, kind)), 500)


async def tuner_error(_request: Request, error: Exception) -> Response:
    """Answer with an error of this program."""
    assert isinstance(error, TunerError)
    status = status_of(error)
    name = _CAPITAL.sub("_", type(error).__name__).lower()
    headers = {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return error_answer(status, error.message, hint=error.hint, error=name, headers=headers)


async def validation_error(_request: Request, error: Exception) -> Response:
    """Answer 400 where a parameter or the body is not as documented; name the first fault."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place, *path = (str(part) for part in first["loc"])
    name = ".".join(path)
    if first["type"] == "extra_forbidden":
        text = f"unknown {'field' if place == 'body' else 'parameter'} {name[:100]!r}"
    elif name:
        text = f"{place} {name[:100]!r}: {first['msg']}"
    else:
        text = f"{place}: {first['msg']}"
    return error_answer(400, text, hint="see /openapi.json", error="invalid_request")


async def http_error(request: Request, error: Exception) -> Response:
    """Answer with an error of the framework: no such path, method not allowed, broken body."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    hint = ""
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = allowed_methods(request) | set(headers.get("Allow", "GET").split(", "))
        headers["Allow"] = ", ".join(sorted(allowed))
        hint = f"allowed: {headers['Allow']}"
    elif error.status_code == HTTPStatus.NOT_FOUND:
        hint = "see /openapi.json for what there is"
    return error_answer(error.status_code, str(error.detail), hint=hint, headers=headers)


async def internal_error(_request: Request, _error: Exception) -> Response:
    """Answer 500. What happened is in the service's log, not in the answer."""
    return error_answer(
        500,
        "internal error",
        hint="this is a bug in tuner; the service's log has the trace",
        headers=SECURITY_HEADERS,  # the framework answers outside of our outermost layer here
    )


def allowed_methods(request: Request) -> set[str]:
    """Return every method that some route of the path takes.

    Starlette names those of the first route alone, and each method has a route of its own here.
    """
    path = request.scope["path"]
    return {
        method
        for route in request.app.state.service.routes
        if route.path_regex.match(path)
        for method in route.methods
    }


def _name_of(status: int) -> str:
    return _NAME_BY_STATUS.get(status) or HTTPStatus(status).phrase.lower().replace(" ", "_")
