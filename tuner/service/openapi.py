"""The description at ``/openapi.json``: every answer is named, the errors of all routes too."""

from __future__ import annotations

from typing import Any
from typing import TypeAlias

from fastapi import FastAPI

from tuner.service.security import READ_METHODS

_ERROR_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_PROBLEM = {
    "title": "Problem",
    "type": "object",
    "description": "What went wrong, in one shape for every error.",
    "required": ["schema", "error", "message", "hint", "status"],
    "properties": {
        "schema": {"type": "string", "const": "tuner.error/1"},
        "error": {"type": "string", "description": "Which error, in snake_case"},
        "message": {"type": "string", "description": "One line that names the thing"},
        "hint": {"type": "string", "description": "What to do about it, or empty"},
        "status": {"type": "integer", "description": "Of HTTP"},
    },
}
# What the layers before the handlers answer.
_EVERYWHERE = {
    "400": "A parameter or the body is not as described here, or was not understood",
    "401": "The token is missing or wrong",
    "403": "Called by a name that is not allowed, from another site's page, or without a token",
    "405": "The method is not for this path",
    "500": "An operator's files are broken, or this program is; the service's log says more",
    "503": "The database can't be used, or needs an upgrade; or too many connections are open",
}
_WRITES = {
    "408": "The body came too slowly",
    "413": "The body is larger than 64 KiB",
    "415": "The body is not plain JSON",
    "429": "Too many writes; Retry-After says after how many seconds to come again",
}
Responses: TypeAlias = dict[int | str, dict[str, Any]]
_REPLACED = ("HTTPValidationError", "ValidationError")


def _answer(description: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ERROR_REFERENCE}}
    return {"description": description, "content": content}


def describe(app: FastAPI) -> None:
    """Let an application describe itself as it answers, not as the framework would."""
    made = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(made())
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]  # FastAPI documents it so


def ok(model: Any, description: str = "Found") -> Responses:
    """Return the description of a JSON answer."""
    return {200: {"model": model, "description": description}}


def accepted(model: Any) -> Responses:
    """Return the description of the answer to what is put into the queue."""
    headers = {
        "Location": {"description": "Where to watch it", "schema": {"type": "string"}},
        "Idempotent-Replayed": {
            "description": "true where the key had been used for this request before",
            "schema": {"type": "string"},
        },
    }
    return {202: {"model": model, "description": "Queued", "headers": headers}}


def text(media_type: str, description: str) -> Responses:
    """Return the description of an answer that is not JSON."""
    content = {media_type: {"schema": {"type": "string"}}}
    return {200: {"content": content, "description": description}}


def event_stream(description: str) -> Responses:
    """Return the description of server-sent events; ``data`` is a JSON object."""
    names = ("id", "event", "data")
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }
    return {200: {"content": {"text/event-stream": {"schema": schema}}, "description": description}}


def csv_text() -> Responses:
    """Return the description of a list as CSV."""
    return text("text/csv", "UTF-8, a header, units in the names, formulas neutralised")


def problem(status: int, description: str) -> Responses:
    """Return the description of an error that a route answers with besides the common ones."""
    return {status: _answer(description)}


NOT_FOUND = problem(404, "There is none of that name or id")


def _completed(found: dict[str, Any]) -> dict[str, Any]:
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _REPLACED:
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "tuner_session"},
    }
    for path in found["paths"].values():
        for method, operation in path.items():
            _complete(operation, is_write=method.upper() not in READ_METHODS)
    return found


def _complete(operation: dict[str, Any], *, is_write: bool) -> None:
    responses = operation["responses"]
    responses.pop("422", None)  # invalid requests are answered with 400
    common = _EVERYWHERE | _WRITES if is_write else _EVERYWHERE
    for status, description in common.items():
        responses.setdefault(status, _answer(description))
    operation["responses"] = dict(sorted(responses.items()))
    # Reads need it only where the service listens to other machines.
    needed: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
    operation["security"] = needed if is_write else [{}, *needed]
