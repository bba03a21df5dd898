"""``tuner dashboard``: look at stored studies with optuna-dashboard."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from tuner.cli import options


def dashboard(
    studies: Annotated[
        list[str] | None, typer.Argument(help="Names or ids of studies; all if none is given.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="A loopback address: there is no login.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="0 takes any that is free.", min=0, max=65535)
    ] = 8766,
    operators: options.Operators = None,
    db: options.Db = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Show stored studies with optuna-dashboard: history, importance of parameters, slices.

    Copies them into Optuna studies in memory, one a workload, and serves until Ctrl-C. What is
    changed in the browser is not stored. Run it again to see trials that were added since.

    Example: tuner dashboard quickstart
    """
    from tuner import api
    from tuner.cli.output import say
    from tuner.service.dashboard import check_dashboard
    from tuner.service.dashboard import serve_dashboard

    options.set_up_logging(quiet=quiet, verbose=verbose)
    check_dashboard(host, port)
    copies = api.optuna_copies(studies or (), options.settings_from(db, operators=operators))

    def ready(address: str) -> None:
        say(f"{copies.trials} trials as {len(copies.names)} Optuna studies")
        say(f"dashboard: {address} (Ctrl-C ends it)")

    with contextlib.suppress(KeyboardInterrupt):
        serve_dashboard(copies.storage, host, port, ready)
