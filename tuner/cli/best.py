"""``tuner best``: the best stored config for a shape."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from typing import TYPE_CHECKING

import typer

from tuner.cli import options
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.domain.study import BestCandidate
    from tuner.report.best import BestAnswer

COLUMNS = (
    "rank", "implementation", "config", "median_us", "low_us", "high_us", "bandwidth_gb_s",
    "slower", "trial_id",
)  # fmt: skip


class MatchOption(StrEnum):
    """How closely the answer must match."""

    EXACT = "exact"
    SAME_ARCH = "same-arch"
    NEAREST_SHAPE = "nearest-shape"


def best(
    operator: Annotated[str, typer.Argument(help="Name of the operator.")],
    shape: Annotated[str, typer.Option("--shape", help="Such as 1024x4096.")],
    dtype: Annotated[str, typer.Option("--dtype", help="Element type.")] = "float32",
    scalar: Annotated[
        list[str] | None,
        typer.Option("--scalar", help="Scalar argument, such as epsilon=1e-6.", metavar="NAME=X"),
    ] = None,
    row_padding: Annotated[
        int,
        typer.Option("--row-padding", min=0, help="Elements between a row's end and the next row."),
    ] = 0,
    device: options.Device = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="Answer for this architecture, without a device.")
    ] = None,
    implementation: Annotated[
        str | None, typer.Option("--implementation", help="Only this implementation.")
    ] = None,
    match: Annotated[
        MatchOption | None, typer.Option("--match", help="How closely the answer must match.")
    ] = None,
    operators: options.Operators = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Say which configuration is best for a shape, and how sure that is.

    Example: tuner best OPERATOR --shape 1024x4096 --format json
    """
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows

    options.set_up_logging(quiet=quiet, verbose=verbose)
    answer = api.best(
        operator,
        shape,
        dtype=dtype,
        scalars=_scalars(scalar or []),
        row_padding=row_padding,
        device=device,
        architecture=arch,
        implementation=implementation,
        match=match.value if match else None,
        settings=options.settings_from(db, operators=operators),
    )
    if format_name is options.Format.JSON:
        print_object(answer.as_plain(), output=output)
        return
    print_rows(
        _rows(answer), COLUMNS, schema="tuner.best/1", format_name=format_name, output=output
    )
    if not quiet:
        _explain(answer)


def _scalars(pairs: list[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name in values:
            raise UsageError(f"--scalar {name!r} is given more than once", hint="give it once")
        try:
            values[name] = float(text)
        except ValueError as error:
            raise UsageError(
                f"--scalar {pair!r} is not NAME=NUMBER", hint="such as epsilon=1e-6"
            ) from error
    return values


def _rows(answer: BestAnswer) -> list[dict[str, object]]:
    ranked = [("best", answer.best), *(("tie", each) for each in answer.ties)]
    if answer.runner_up is not None:
        ranked.append(("runner-up", answer.runner_up))
    return [_row(rank, each, answer.best) for rank, each in ranked]


def _row(rank: str, candidate: BestCandidate, best_one: BestCandidate) -> dict[str, object]:
    return {
        "rank": rank,
        "implementation": candidate.implementation,
        "config": dict(candidate.config),
        "median_us": candidate.median_us,
        "low_us": min(candidate.process_medians_us),
        "high_us": max(candidate.process_medians_us),
        "bandwidth_gb_s": candidate.bandwidth_gb_s,
        "slower": candidate.median_us / best_one.median_us,
        "trial_id": candidate.trial_id,
    }


def _explain(answer: BestAnswer) -> None:
    from tuner.cli.output import say

    protocol = answer.best.protocol
    say(
        f"match: {answer.match}; {protocol.processes} processes x {protocol.samples} samples, "
        f"{protocol.cache} cache; study {answer.best.study_name}, "
        f"{answer.best.finished_at:%Y-%m-%d %H:%M} UTC"
    )
    if answer.ties:
        say(f"{len(answer.ties)} more can't be told apart from it by their 95 % intervals")
    for note in answer.notes:
        say(f"note: {note}")
    for difference in answer.differences:
        say(f"differs: {difference}")
    for warning in answer.best.warnings:
        say(f"warning: {warning}")
