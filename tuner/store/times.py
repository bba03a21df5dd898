"""Points in time as texts, made by the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class iso_time(FunctionElement[str]):  # noqa: N801 - used as a function
    """A time column as the text that ``isoformat(timespec="microseconds")`` gives in UTC.

    For exports of many rows: making an object of each time, and a text of that, took as long as
    to read the row.
    """

    type = Text()
    name = "iso_time"
    inherit_cache = True


@compiles(iso_time)
def _from_text(element: iso_time, compiler: SQLCompiler, **more: Any) -> str:
    # SQLAlchemy stores it as 2026-12-02 06:05:04.000123, in UTC.
    return f"replace({compiler.process(element.clauses, **more)}, ' ', 'T') || '+00:00'"


@compiles(iso_time, "postgresql")
def _from_time(element: iso_time, compiler: SQLCompiler, **more: Any) -> str:
    moment = f"{compiler.process(element.clauses, **more)} AT TIME ZONE 'UTC'"
    return f"""to_char({moment}, 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
