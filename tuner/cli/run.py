"""``tuner run``: run a study and say what came out."""

from __future__ import annotations

from typing import Annotated
from typing import TYPE_CHECKING

import typer

from tuner.cli import options
from tuner.errors import NoValidConfig

if TYPE_CHECKING:
    from tuner.api import StudyResult
    from tuner.domain.identity import Plain
    from tuner.study.coverage import Coverage

MOST_UNCOVERED = 12  # lines; --format json has all
BEST_COLUMNS = (
    "shape", "implementation", "config", "median_us", "low_us", "high_us", "bandwidth_gb_s", "ties",
)  # fmt: skip


def run(
    study: Annotated[str, typer.Argument(help="Study file, or name of a shipped study.")],
    device: options.Device = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--shape", help="Tune this shape instead of the file's; repeatable.", metavar="8x512"
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Stop after 200 trials, or after 90s, 30m, 2h."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what was measured before.")
    ] = False,
    operators: options.Operators = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Run a study; on one that was stopped, go on; on a finished one, add nothing.

    Example: tuner run quickstart --device cpu --budget 30m
    """
    from tuner import api
    from tuner.cli.progress import Progress
    from tuner.study.overrides import parse_budget

    options.set_up_logging(quiet=quiet, verbose=verbose)
    limit = None if budget is None else parse_budget(budget)
    settings = options.settings_from(db, operators=operators)
    with Progress(quiet=quiet, verbose=verbose) as progress:
        result = api.run_study(
            study, shapes=shapes, device=device, budget=limit, fresh=fresh, listener=progress,
            settings=settings,
        )  # fmt: skip
    _report(result, format_name, output, quiet=quiet)
    if not result.best:
        raise NoValidConfig(
            f"study {result.name} has no valid config",
            hint=f"tuner trials {result.name} lists what failed and why",
        )


def _report(
    result: StudyResult, format_name: options.Format, output: options.Output, *, quiet: bool
) -> None:
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows
    from tuner.cli.output import say
    from tuner.report.controls import marks

    if format_name is options.Format.JSON:
        print_object(
            {
                "schema": "tuner.run/1",
                "study": result.name,
                "study_id": result.study_id,
                "finished": result.finished,
                "counts": dict(result.counts),
                "database": result.database,
                "elapsed_s": result.elapsed_s,
                "best": [answer.as_plain() for answer in result.best],
                "unanswered": [each.as_plain() for each in result.unanswered],
                "uncovered": [_uncovered_plain(each) for each in result.uncovered],
                "marks": marks(result.controls),
            },
            output=output,
        )
    else:
        rows = [
            {
                "shape": answer.asked.shape_text,
                "implementation": answer.best.implementation,
                "config": dict(answer.best.config),
                "median_us": answer.best.median_us,
                "low_us": min(answer.best.process_medians_us),
                "high_us": max(answer.best.process_medians_us),
                "bandwidth_gb_s": answer.best.bandwidth_gb_s,
                "ties": len(answer.ties),
            }
            for answer in result.best
        ]
        print_rows(
            rows, BEST_COLUMNS, schema="tuner.run/1", format_name=format_name, output=output,
            title=f"Best of study {result.name} on {_device_of(result)}",
        )  # fmt: skip
    if quiet:
        return
    for workload in result.unanswered:
        say(f"no valid config for {workload.shape_text}")
    _say_uncovered(result)
    _say_marks(result)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.counts.items()))
    state = "finished" if result.finished else "stopped by its budget; run again to go on"
    say(f"study {result.name} (id {result.study_id}) {state}: {counts}; {result.elapsed_s:.1f} s")
    say(f"database: {result.database}")
    _say_next(result)


def _uncovered_plain(each: Coverage) -> dict[str, Plain]:
    return {
        "shape": each.workload.shape_text,
        "implementation": each.implementation,
        "tried": each.tried,
        "planned": each.planned,
        "grid": each.grid,
    }


def _say_uncovered(result: StudyResult) -> None:
    from tuner.cli.output import say

    for each in result.uncovered[:MOST_UNCOVERED]:
        say(f"not covered: {each}")
    if len(result.uncovered) > MOST_UNCOVERED:
        say(f"not covered: parts of {len(result.uncovered) - MOST_UNCOVERED} more spaces")


def _say_marks(result: StudyResult) -> None:
    """Say in one line that the run is marked, by the workload that drifted most."""
    from tuner.cli.output import say
    from tuner.report.controls import marks

    found = marks(result.controls)
    if found:
        others = f" for {len(found)} shapes" if len(found) > 1 else ""
        say(f"run marked{others}: {found[0]}, with --fresh")


def _device_of(result: StudyResult) -> str:
    if not result.best:
        return "this device"
    identity = result.best[0].best.environment.identity
    return identity.get("architecture", "this device")


def _say_next(result: StudyResult) -> None:
    from tuner.cli.output import say

    if result.best:
        asked = result.best[0].asked
        say("next:")
        say(f"  tuner best {asked.operator} --shape {asked.shape_text}")
        say(f"  tuner trials {result.name}")
        say(f"  tuner show {result.best[0].best.trial_id}")
        say(f"  tuner export trials --study {result.name} --format csv --output trials.csv")
