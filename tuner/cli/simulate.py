"""``tuner simulate``: which sampler finds the best config soonest, on stored results."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tuner.cli import options

COLUMNS = (
    "shape", "dtype", "implementation", "configs", "best_us", "sampler",
    "within_5_percent_median", "within_5_percent_p90", "within_1_percent_median",
    "within_1_percent_p90", "score", "score_low", "score_high", "propose_ms",
)  # fmt: skip
MAX_REPEATS = 1000
MAX_EVALUATIONS = 100_000


class Sampler(StrEnum):
    """What can propose configs of a stored space."""

    GUIDED = "guided"
    RANDOM = "random"
    TPE = "tpe"
    GP = "gp"


def simulate(
    study: Annotated[str, typer.Argument(help="Name or id of a finished exhaustive study.")],
    samplers: Annotated[
        list[Sampler] | None,
        typer.Option("--sampler", help="What to compare; may be given several times."),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=MAX_REPEATS, help="Searches of each space.")
    ] = 25,
    evaluations: Annotated[
        int,
        typer.Option("--evaluations", min=1, max=MAX_EVALUATIONS, help="Configs a search tries."),
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first repeat.")] = 0,
    warm_start: Annotated[
        bool,
        typer.Option("--warm-start", help="Tell searches what the study's other shapes gave."),
    ] = False,
    no_default: Annotated[
        bool, typer.Option("--no-default", help="Don't begin with the default config.")
    ] = False,
    operators: options.Operators = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Replay searches on the results of a study that measured every config.

    Says after how many evaluations each sampler was within 5 % and 1 % of the best config, and its
    score against random search (doi 10.1016/j.future.2024.05.021): 1 has the best at once, 0 is
    as good as random, with its 95 % interval.

    Example: tuner simulate nightly --sampler guided --sampler tpe --repeats 25
    """
    from tuner import api
    from tuner.cli.output import print_rows
    from tuner.cli.output import say

    options.set_up_logging(quiet=quiet, verbose=verbose)
    chosen = samplers or [Sampler.GUIDED, Sampler.RANDOM]
    rows = api.simulate(
        study,
        [each.value for each in dict.fromkeys(chosen)],
        repeats=repeats,
        evaluations=evaluations,
        seed=seed,
        warm_start=warm_start,
        from_default=not no_default,
        settings=options.settings_from(db, operators=operators),
        progress=say if verbose else None,
    )
    print_rows(rows, COLUMNS, schema="tuner.simulate/1", format_name=format_name, output=output)
