"""``tuner reproduce``: run a stored result again and say whether it still holds."""

from __future__ import annotations

from typing import Annotated
from typing import TYPE_CHECKING

import typer

from tuner.cli import options

if TYPE_CHECKING:
    from tuner.report.reproduction import ReproductionReport

TABLE_COLUMNS = (
    "implementation", "config", "shape", "unit", "recorded", "recorded_low", "recorded_high",
    "rerun_shape", "rerun_us", "rerun_low_us", "rerun_high_us", "ratio", "verdict",
)  # fmt: skip
MAX_LINES = 12  # of one kind of remark; --format json has all
WHOLE = ("note", "source", "differs")  # these are told in full


def reproduce(
    record: Annotated[
        str,
        typer.Argument(help="Trial id, study or evidence name, or folder of `show --export`."),
    ],
    device: options.Device = None,
    shape: Annotated[
        str | None, typer.Option("--shape", help="Run at this shape instead.", metavar="8x512")
    ] = None,
    current_source: Annotated[
        bool, typer.Option("--current-source", help="Run today's source, not the stored one.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show how today's source differs from the stored one.")
    ] = False,
    operators: options.Operators = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> int:
    """Run a stored result again, from its stored source, and compare.

    Exit code: 0 same, faster or ambiguous; 1 slower or wrong; 3 not comparable.

    Example: tuner reproduce 12 --diff
    """
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows
    from tuner.cli.progress import Progress
    from tuner.report.reproduce import exit_code
    from tuner.report.reproduction import COLUMNS
    from tuner.report.reproduction import SCHEMA

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db, operators=operators)
    with Progress(quiet=quiet, verbose=verbose) as progress:
        report = api.reproduce(
            record, device=device, shape=shape, current_source=current_source, listener=progress,
            settings=settings,
        )  # fmt: skip
    if format_name is options.Format.JSON:
        print_object(report.as_plain(), output=output)
    else:
        columns = COLUMNS if format_name is options.Format.CSV else _shown_columns(report)
        print_rows(
            report.rows(), columns, schema=SCHEMA, format_name=format_name, output=output,
            title=f"{record}, run again on {report.device_id}",
        )  # fmt: skip
    if diff:
        _show_diff(report)
    if not quiet:
        _explain(report)
    _say_verdict(report)
    return exit_code(report.judgement.verdict)


def _shown_columns(report: ReproductionReport) -> list[str]:
    """Leave out what says nothing: the rerun's shape where it is the recorded one."""
    same_shape = all(each.rerun.workload == each.original.workload for each in report.entries)
    return [name for name in TABLE_COLUMNS if name != "rerun_shape" or not same_shape]


def _explain(report: ReproductionReport) -> None:
    from tuner.report.speedups import claims
    from tuner.report.speedups import rankings

    remarks = {
        "note": list(report.notes),
        "source": [str(each) for each in report.source_changes],
        "differs": [
            f"{each}{'' if each.is_identity else ' (context)'}" for each in report.differences
        ],
        "changed": report.changes(),
        "ranking": [str(each) for each in rankings(report.entries)],
        "claim": [str(each) for each in claims(report.entries)],
    }  # fmt: skip
    _say_each(remarks)


def _say_each(remarks: dict[str, list[str]]) -> None:
    from tuner.cli.output import say

    for kind, texts in remarks.items():
        shown = texts if kind in WHOLE else texts[:MAX_LINES]
        for text in shown:
            say(f"{kind}: {text}")
        if len(texts) > len(shown):
            say(f"{kind}: and {len(texts) - len(shown)} more, all in --format json")


def _show_diff(report: ReproductionReport) -> None:
    from tuner.cli.output import say

    if not report.source_changes:
        say("diff: today's source is the stored one")
    for each in report.source_changes:
        say(each.diff.rstrip("\n") or str(each))


def _say_verdict(report: ReproductionReport) -> None:
    from tuner.cli.output import say

    judgement = report.judgement
    text = judgement.verdict.replace("_", " ")
    if judgement.ratio is not None:
        text += f": {judgement.ratio:.4g} times the recorded time"
    if judgement.low is not None and judgement.high is not None:
        text += f" (95 % interval {judgement.low:.4g} to {judgement.high:.4g})"
    if judgement.threshold is not None:
        text += f"; a change of {judgement.threshold:.1%} counts"
    say(f"verdict: {text}")
    _say_each({"because": list(judgement.reasons)})
    if judgement.verdict == "ambiguous":
        say("warning: the interval does not decide; reproduce again, or with less other work here")
    listed = ", ".join(str(each) for each in report.study_ids)
    say(f"rerun stored as study {listed}")
