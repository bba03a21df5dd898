"""``tuner studies`` and ``tuner trials``: what is stored."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import options
from tuner.domain.outcome import Outcome

STUDY_COLUMNS = (
    "study_id", "study", "operator", "device_id", "architecture", "state", "planned", "trials",
    "ok", "failed", "skipped", "interrupted", "created_at", "finished_at",
)  # fmt: skip
TRIAL_COLUMNS = (
    "trial_id", "shape", "implementation", "config", "outcome", "stage", "confirmed", "median_us",
    "quick_median_us", "bandwidth_gb_s", "message",
)  # fmt: skip


def studies(
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """List the stored studies, newest last."""
    from tuner import api
    from tuner.cli.output import print_rows

    options.set_up_logging(quiet=quiet, verbose=verbose)
    rows = api.page_studies(options.settings_from(db)).items[::-1]
    print_rows(
        rows, STUDY_COLUMNS, schema="tuner.studies/1", format_name=format_name, output=output
    )


def trials(
    study: Annotated[str, typer.Argument(help="Name or id of a study.")],
    outcome: Annotated[
        Outcome | None, typer.Option("--outcome", help="Only trials that ended so.")
    ] = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """List the trials of a study, all outcomes, with the reason of each that is not ok."""
    from tuner import api
    from tuner.cli.output import print_rows

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db)
    rows = api.page_trials(study, settings, filters={"outcome": outcome}, limit=None).items
    print_rows(rows, TRIAL_COLUMNS, schema="tuner.trials/1", format_name=format_name, output=output)
