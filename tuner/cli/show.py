"""``tuner show``: the whole chain of one trial, on screen or as a folder to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import options


def show(
    trial: Annotated[int, typer.Argument(help="Id of a trial.", min=1)],
    source: Annotated[
        bool, typer.Option("--source", help="Print the kernel's source too.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Write a folder that others can rerun.", metavar="DIR"),
    ] = None,
    operators: options.Operators = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Show a trial from its claim down to samples, checks, environment, build and source.

    With --export DIR: study file, sources, environment, samples, and a manifest with the
    SHA-256 of each; `tuner reproduce DIR` runs it again, here or elsewhere.
    """
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows
    from tuner.cli.output import print_text
    from tuner.cli.output import say
    from tuner.report.chain import chain_text

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db, operators=operators)
    if export is not None:
        files = api.export_trial(trial, export, settings)
        if not quiet:
            say(f"{len(files)} files in {export}; next: tuner reproduce {_as_path(export)}")
        if format_name is not options.Format.TABLE or output is not None:
            rows = [{"file": str(export / name)} for name in files]
            print_rows(
                rows, ("file",), schema="tuner.show.export/1", format_name=format_name,
                output=output,
            )  # fmt: skip
        return
    detail = api.show_trial(trial, settings)
    if format_name is options.Format.TABLE:
        print_text(chain_text(detail, with_source=source), output=output)
        return
    print_object(detail, output=output)


def _as_path(folder: Path) -> str:
    """Return a folder as ``tuner reproduce`` knows it for one."""
    return str(folder) if len(folder.parts) > 1 else f"./{folder}"
