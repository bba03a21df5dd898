"""Answers in the service's forms: strict JSON, lists with a cursor, CSV that is streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import ExitStack
from contextlib import nullcontext
from typing import TypeAlias

from starlette.responses import Response
from starlette.responses import StreamingResponse
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner import api
from tuner.domain.identity import canonical_json
from tuner.domain.identity import Plain

Source: TypeAlias = tuple[Iterator[Mapping[str, Plain]], Sequence[str]]
JSON_TYPE = "application/json"
CSV_TYPE = "text/csv; charset=utf-8"


def json_answer(
    fields: Mapping[str, Plain], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an object as JSON, without NaN and in ASCII: lone surrogates in a text survive."""
    content = json.dumps(fields, allow_nan=False, separators=(",", ":")).encode("ascii")
    return Response(content, status, dict(headers or {}), JSON_TYPE)


def list_answer(
    schema: str, items: Sequence[Mapping[str, Plain]], following: str | None = None
) -> Response:
    """Return a list: ``{"schema": ..., "items": [...], "next": cursor or null}``."""
    return json_answer({"schema": schema, "items": list(items), "next": following})


def page_answer(schema: str, page: api.Page) -> Response:
    """Return a page of a list."""
    return list_answer(schema, page.items, page.following)


def csv_answer(rows: Sequence[Mapping[str, Plain]], columns: Sequence[str], name: str) -> Response:
    """Return a short list as CSV, to save as a file of that name."""
    return csv_stream(nullcontext((iter(rows), columns)), name)


def csv_stream(
    source: AbstractContextManager[Source], name: str, *, is_flat: bool = False
) -> Response:
    """Stream rows as CSV while they are read.

    Args:
        source: Gives rows and columns; left when all is sent, or the client is gone.
        name: Of the file, without ending.
        is_flat: No cell is a list or an object, which would have to become JSON.
    """
    with ExitStack() as entering:
        rows, columns = entering.enter_context(source)
        closing = entering.pop_all()
    chunks = api.csv_chunks(rows if is_flat else map(_flat, rows), columns)
    return _Csv(chunks, closing, download_headers(name))


def report_answer(report: str, ending: str) -> Response:
    """Return a report to look at or to save.

    The page brings its own content policy, with the hashes of its scripts; the sandbox keeps
    them away from the service: they have no session and no storage.
    """
    media_type = "text/html" if ending == "html" else "text/markdown"
    headers = {"Content-Security-Policy": "frame-ancestors 'none'; sandbox allow-scripts"}
    return Response(report.encode("utf-8"), 200, headers, f"{media_type}; charset=utf-8")


def download_headers(name: str, ending: str = "csv") -> dict[str, str]:
    """Return the headers of a file to save; nothing of a study's name leaves its quotes."""
    kept = (each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in name)
    return {"Content-Disposition": f'attachment; filename="{"".join(kept)[:100]}.{ending}"'}


class _Csv(StreamingResponse):
    """A stream of CSV that leaves its source at the end, also where none of it was sent."""

    def __init__(self, chunks: Iterator[str], closing: ExitStack, headers: dict[str, str]) -> None:
        super().__init__(chunks, headers=headers, media_type=CSV_TYPE)
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._closing:
            await super().__call__(scope, receive, send)


def _flat(row: Mapping[str, Plain]) -> dict[str, Plain]:
    return {
        name: canonical_json(value) if isinstance(value, dict | list) else value
        for name, value in row.items()
    }
