"""Reads what a page's form sends."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated
from typing import TypeAlias
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.responses import Response

from tuner.errors import UsageError

MAX_FIELDS = 20
MAX_CHARACTERS = 2000


async def _form_fields(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, by name.

    A dependency, so that what uses them needs not be a coroutine: one that waits for the
    database would hold up every other request.

    Raises:
        UsageError: There are too many, or one is too long or given more than once.
    """
    body = (await request.body()).decode("utf-8", "replace")
    try:
        fields = parse_qs(body, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise UsageError(f"a form has at most {MAX_FIELDS} fields") from error
    for name, values in fields.items():
        if len(values) > 1:
            raise UsageError(f"field {name[:40]!r} is given more than once", hint="give it once")
        if len(values[0]) > MAX_CHARACTERS:
            raise UsageError(f"{name[:40]!r} has more than {MAX_CHARACTERS} characters")
    return {name: values[0].strip() for name, values in fields.items()}


FormDep: TypeAlias = Annotated[Mapping[str, str], Depends(_form_fields)]


def new_key() -> str:
    """Return a key for a form: sent twice, it makes one job."""
    return secrets.token_urlsafe(16)


def see(path: str) -> Response:
    """Send the browser to a page of ours, so that reloading it sends no form again."""
    return RedirectResponse(path, 303)
