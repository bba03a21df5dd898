"""``tuner export``: trials, samples or best configs as CSV, JSON or Parquet; all as a bundle."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tuner.cli import options


class What(StrEnum):
    """What can be exported."""

    TRIALS = "trials"
    BEST = "best"
    SAMPLES = "samples"
    BUNDLE = "bundle"


def export(
    what: Annotated[What, typer.Argument(help="What to export.")],
    study: Annotated[str | None, typer.Option("--study", help="Only this study.")] = None,
    format_name: Annotated[
        options.ExportFormat, typer.Option("--format", help="File format.")
    ] = options.ExportFormat.CSV,
    output: options.Output = None,
    db: options.Db = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Export what is stored, one row each, units in the header.

    Text that a spreadsheet would run as a formula gets a leading apostrophe in CSV.

    A bundle holds everything, as JSON lines with checksums, for `tuner import` on another machine;
    --format does not matter for it.
    """
    from tuner import api
    from tuner.report.export import export_rows
    from tuner.report.export import write_lines

    options.set_up_logging(quiet=quiet, verbose=verbose)
    if what is What.BUNDLE:
        with api.bundle_source(study, options.settings_from(db)) as lines:
            write_lines(lines, output)
        return
    with api.export_source(what.value, study, options.settings_from(db)) as (rows, columns):
        export_rows(rows, columns, what=what.value, format_name=format_name.value, output=output)
