"""``tuner compare``: what a new driver, compiler or kernel changed."""

from __future__ import annotations

from typing import Annotated
from typing import TYPE_CHECKING

import typer

from tuner.cli import options

if TYPE_CHECKING:
    from tuner.report.comparison import Comparison

TABLE_COLUMNS = (
    "shape", "winner_a", "config_a", "median_a_us", "winner_b", "config_b", "median_b_us", "ratio",
    "ratio_low", "ratio_high", "change", "winner",
)  # fmt: skip


def compare(
    left: Annotated[
        str, typer.Argument(metavar="A", help="Study, env:KEYPREFIX or source:HASHPREFIX.")
    ],
    right: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Compare the winners of two studies, environments or sources, workload by workload.

    The ratio is B over A: above 1, B is slower.

    Example: tuner compare nightly env:3f2a9c
    """
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows
    from tuner.report.comparison import COLUMNS
    from tuner.report.comparison import SCHEMA

    options.set_up_logging(quiet=quiet, verbose=verbose)
    found = api.compare(left, right, settings=options.settings_from(db))
    if format_name is options.Format.JSON:
        print_object(found.as_plain(), output=output)
    else:
        columns = COLUMNS if format_name is options.Format.CSV else TABLE_COLUMNS
        print_rows(
            found.rows(), columns, schema=SCHEMA, format_name=format_name, output=output,
            title=f"A: {found.left.label}; B: {found.right.label}",
        )  # fmt: skip
    if not quiet:
        _explain(found)


def _explain(found: Comparison) -> None:
    from tuner.cli.output import say

    for difference in found.environment:
        say(f"environment: {difference}{'' if difference.is_identity else ' (context)'}")
    if not any(each.is_identity for each in found.environment):
        say("environment: the same machine and toolchain")
    for text in found.sources:
        say(f"source: {text}")
    if not found.sources:
        say("source: the same wherever both have the implementation")
    for text in found.protocol:
        say(f"protocol: {text}")
    reasons = dict.fromkeys(text for each in found.workloads for text in each.judgement.reasons)
    for text in reasons:
        say(f"not comparable as times: {text}")
    say(", ".join(f"{count} {name}" for name, count in found.counts().items()))
