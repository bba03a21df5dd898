"""Shows how far a copy of a database is on stderr: a bar on a terminal, else a line a table."""

from __future__ import annotations

from typing import Self

from rich.progress import BarColumn
from rich.progress import MofNCompleteColumn
from rich.progress import Progress
from rich.progress import TextColumn
from rich.progress import TimeElapsedColumn

from tuner.cli.output import say
from tuner.cli.output import stderr_console


class CopyProgress:
    """A listener of ``api.copy_database``."""

    def __init__(self, *, quiet: bool) -> None:
        console = stderr_console()
        self._says_lines = not quiet and not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, table: str, done: int, total: int) -> None:
        """Show how many rows of a table are copied."""
        self._bar.update(self._task, description=table, completed=done, total=total)
        if self._says_lines and done == total and total:
            say(f"{table}: {total} rows")
