"""``tuner export``: rows as CSV, JSON or Parquet; all as a bundle; spaces for other tuners."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated
from typing import Literal
from typing import TYPE_CHECKING

import typer

from tuner.cli import options

if TYPE_CHECKING:
    from tuner.settings import Settings


class What(StrEnum):
    """What can be exported."""

    TRIALS = "trials"
    BEST = "best"
    SAMPLES = "samples"
    BUNDLE = "bundle"
    KERNEL_TUNER = "kernel-tuner"
    T4 = "t4"


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

    kernel-tuner and t4 write a folder with a file for each implementation and workload of a study,
    for Kernel Tuner's simulation mode and in the open T4 format.
    """
    from tuner import api
    from tuner.report.export import export_rows
    from tuner.report.export import write_lines

    options.set_up_logging(quiet=quiet, verbose=verbose)
    if what is What.BUNDLE:
        with api.bundle_source(study, options.settings_from(db)) as lines:
            write_lines(lines, output)
        return
    if what in (What.KERNEL_TUNER, What.T4):
        _export_spaces(what, study, output, options.settings_from(db))
        return
    with api.export_source(what.value, study, options.settings_from(db)) as (rows, columns):
        export_rows(rows, columns, what=what.value, format_name=format_name.value, output=output)


def _export_spaces(what: What, study: str | None, output: Path | None, settings: Settings) -> None:
    from tuner import api
    from tuner.cli.output import say
    from tuner.errors import UsageError

    if study is None or output is None:
        raise UsageError(
            f"{what.value} needs a study and a folder",
            hint=f"tuner export {what.value} --study NAME --output FOLDER",
        )
    kind: Literal["kernel-tuner", "t4"] = "t4" if what is What.T4 else "kernel-tuner"
    for path in api.export_for_kernel_tuner(study, output, kind, settings):
        say(f"wrote {path}")
