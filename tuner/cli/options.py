"""Options that every verb takes, declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tuner.settings import Settings


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class ExportFormat(StrEnum):
    """How data is exported."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


Db = Annotated[str | None, typer.Option("--db", help="Database URL or SQLite file.", metavar="URL")]
FormatOption = Annotated[Format, typer.Option("--format", help="How data is printed.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write data to a file.", metavar="FILE")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say less on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
Device = Annotated[
    str | None, typer.Option("--device", help="auto, cpu, cuda:N or hip:N.", metavar="ID")
]
Operators = Annotated[
    list[Path] | None,
    typer.Option("--operators", help="Folder with further operators.", metavar="DIR"),
]
Studies = Annotated[
    list[Path] | None,
    typer.Option("--studies", help="Folder with further study files.", metavar="DIR"),
]


def settings_from(
    db: str | None = None,
    *,
    device: str | None = None,
    operators: list[Path] | None = None,
    studies: list[Path] | None = None,
    token: str | None = None,
) -> Settings:
    """Read the settings with the flags of a command on top."""
    from tuner.settings import load_settings

    return load_settings(
        db=db,
        device=device,
        operators=tuple(operators) if operators else None,
        studies=tuple(studies) if studies else None,
        token=token,
    )


def warn_of_broken_operators(settings: Settings) -> None:
    """Name each operator that can't be loaded, for what goes on without it.

    Raises:
        BrokenOperator: A folder of the settings holds no operator.
    """
    import logging

    from tuner import api

    _, faults = api.all_operators(settings)
    for fault in faults:
        logging.getLogger("tuner").warning("goes on without an operator: %s", fault.message)


def set_up_logging(*, quiet: bool, verbose: bool) -> None:
    """Send log records to stderr: errors, warnings or everything."""
    import logging

    level = logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", force=True)
    for name in ("alembic", "sqlalchemy", "filelock", "asyncio"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
