"""Shows a running study on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import math
import sys
import time
from datetime import timedelta
from typing import Self
from typing import TYPE_CHECKING

from tuner.cli.output import say
from tuner.cli.output import stderr_console
from tuner.domain.identity import config_text
from tuner.domain.outcome import Outcome
from tuner.study import events

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINES_PER_STUDY = 20


class Progress:
    """A listener of study events."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._bar = _bar() if sys.stderr.isatty() and not quiet else None
        self._done = 0
        self._planned = 0
        self._failed = 0
        self._best: dict[str, tuple[float, str]] = {}
        self._begun = time.monotonic()
        self._done_before = 0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        match event:
            case events.StudyOpened():
                self._opened(event)
            case events.TrialBegun(point=point):
                self._show(description=str(point))
            case events.TrialEnded():
                self._ended(event)
            case events.Confirming():
                text = (
                    f"{event.workload.shape_text}: confirming {event.finalists} finalists, "
                    f"process {event.process + 1} of {event.processes}"
                )
                self._show(description=text)
                if self._verbose:
                    self._line(text)

    def _opened(self, event: events.StudyOpened) -> None:
        definition = event.definition
        self._done, self._planned = event.done, definition.planned
        self._done_before, self._begun = event.done, time.monotonic()
        self._show(total=definition.planned, completed=event.done)
        verb = {
            "new": "starting",
            "resumed": f"going on after {event.done} trials with",
            "finished": "already finished, nothing to add:",
        }[event.state]
        where = definition.environment.identity.get("architecture", "")
        self._line(
            f"{verb} study {definition.name}: {definition.planned} trials on "
            f"{definition.device_id} ({where}), {definition.sampler}"
        )

    def _ended(self, event: events.TrialEnded) -> None:
        self._done += 1
        best = self._note_best(event)
        self._show(completed=self._done, best=best)
        self._failed += event.outcome.is_failure
        if event.outcome not in (Outcome.OK, Outcome.SKIPPED) or self._verbose:
            figure = f"{event.quick_median_us:.4g} us" if event.quick_median_us else event.message
            self._line(f"{event.point}: {event.outcome} {figure}")
        elif self._bar is None:
            every = max(1, self._planned // LINES_PER_STUDY)
            if self._done % every == 0 or self._done == self._planned:
                text = f"{self._done} of {self._planned} trials ({self._done / self._planned:.0%})"
                self._line(f"{text}, {self._failed} failed{self._time_left()}; {best}".rstrip("; "))

    def _note_best(self, event: events.TrialEnded) -> str:
        """Return the fastest of a trial's workload so far, by the quick stage."""
        shape = event.point.workload.shape_text
        if event.quick_median_us is not None:
            config = f"{event.point.implementation} {config_text(event.point.config)}"
            found = (event.quick_median_us, config)
            self._best[shape] = min(found, self._best.get(shape, found))
        if shape not in self._best:
            return ""
        time_us, config = self._best[shape]
        return f"best of {shape} {time_us:.4g} us {config}"

    def _time_left(self) -> str:
        """Say how long the rest takes at the pace so far; finals are not counted."""
        here = self._done - self._done_before
        left = self._planned - self._done
        if not here or not left:
            return ""
        left_s = (time.monotonic() - self._begun) / here * left
        return f", about {timedelta(seconds=math.ceil(left_s))} left"

    def _show(self, **fields: object) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], **fields)  # type: ignore[arg-type]

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            say(text)


def _bar() -> Bar:
    from rich import progress

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TaskProgressColumn(),
        progress.TextColumn("{task.fields[best]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=stderr_console(),
        transient=True,
    )
    bar.add_task("starting", total=None, best="")
    return bar
