"""``tuner report``: CSV tables, Markdown for a pull request, and one HTML file with charts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import options


class ReportFormatOption(StrEnum):
    """What a report can be written as."""

    HTML = "html"
    MARKDOWN = "md"
    CSV = "csv"


class ImagesOption(StrEnum):
    """As what pictures the charts are written."""

    PNG = "png"
    SVG = "svg"
    NONE = "none"


def report(
    study: Annotated[str, typer.Argument(help="Name or id of a study.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the report; report-STUDY if not given.", metavar="DIR"
        ),
    ] = None,
    format_names: Annotated[
        list[ReportFormatOption] | None,
        typer.Option("--format", help="html, md or csv; give it twice for two. All if not given."),
    ] = None,
    images: Annotated[
        ImagesOption,
        typer.Option("--images", help="Write each chart as a picture too (needs Chromium)."),
    ] = ImagesOption.NONE,
    trial: Annotated[
        list[int] | None,
        typer.Option("--trial", help="Draw the samples of this trial too.", metavar="ID", min=1),
    ] = None,
    db: options.Db = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Report a study: tables as CSV, Markdown for a pull request, one HTML file with charts.

    Prints the path of each file written. An older report of the study is replaced; other files
    in the folder are left alone.

    Example: tuner report quickstart --output report --images png
    """
    from tuner import api
    from tuner.cli.output import print_text
    from tuner.cli.output import say

    options.set_up_logging(quiet=quiet, verbose=verbose)
    written = api.write_report(
        study,
        output,
        formats=[each.value for each in format_names or ReportFormatOption],
        images=images.value,
        trials=trial or (),
        settings=options.settings_from(db),
    )
    print_text("\n".join(str(written.folder / name) for name in written.files))
    if written.problem:
        say(f"warning: {written.problem}; everything else is written")
