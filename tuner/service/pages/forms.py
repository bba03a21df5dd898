"""Reads what a page's form sends."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.responses import Response

from tuner.errors import UsageError

MAX_FIELDS = 20
MAX_CHARACTERS = 2000


class FormFields:
    """A dependency that reads the fields of a form, by name; those left empty are not among them.

    A dependency, so that what uses them needs not be a coroutine: one that waits for the
    database would hold up every other request.

    Args:
        known: The names of all fields that the form has.
    """

    def __init__(self, *known: str) -> None:
        self._known = known

    async def __call__(self, request: Request) -> Mapping[str, str]:
        """Read the fields of one request.

        Raises:
            UsageError: There are too many, or one is unknown, too long or given more than once.
        """
        body = (await request.body()).decode("utf-8", "replace")
        try:
            fields = parse_qs(body, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError as error:
            raise UsageError(f"a form has at most {MAX_FIELDS} fields") from error
        for name, values in fields.items():
            if name not in self._known:
                raise UsageError(f"unknown field {name[:40]!r}", hint=self._hint)
            if len(values) > 1:
                raise UsageError(
                    f"field {name[:40]!r} is given more than once", hint="give it once"
                )
            if len(values[0]) > MAX_CHARACTERS:
                raise UsageError(f"{name[:40]!r} has more than {MAX_CHARACTERS} characters")
        return {name: values[0].strip() for name, values in fields.items() if values[0]}

    @property
    def _hint(self) -> str:
        return f"the form has: {', '.join(self._known)}" if self._known else "the form has none"


NO_FIELDS = Depends(FormFields())


def new_key() -> str:
    """Return a key for a form: sent twice, it makes one job."""
    return secrets.token_urlsafe(16)


def see(path: str) -> Response:
    """Send the browser to a page of ours, so that reloading it sends no form again."""
    return RedirectResponse(path, 303)
