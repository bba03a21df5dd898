"""``tuner work``: take jobs from the queue and run them on this machine's devices."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import options


def work(
    devices: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            help="auto, cpu, cuda:N or hip:N; repeatable. Default: all GPUs, or cpu.",
            metavar="ID",
        ),
    ] = None,
    studies: options.Studies = None,
    operators: options.Operators = None,
    db: options.Db = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Run queued jobs, one at a time on each device, until Ctrl-C or SIGTERM.

    The service starts one by itself. Several machines can share a PostgreSQL database.

    Example: tuner work --device cuda:0 --db postgresql://tuner@db/tuner
    """  # fmt: skip
    from tuner.cli.output import say
    from tuner.service.work.loop import work as take_jobs

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db, operators=operators, studies=studies)
    options.warn_of_broken_operators(settings)
    take_jobs(settings, devices or [], (lambda _: None) if quiet else say)
