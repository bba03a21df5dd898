"""``tuner compile``: build every config for an architecture, without a device of it."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import options
from tuner.domain.identity import Plain
from tuner.errors import NoValidConfig

FIGURES = ("registers", "spills", "spill_bytes", "shared_bytes", "code_bytes")
COLUMNS = (
    "implementation", "config", "shape", "state", *FIGURES, "build_s", "compiler", "message",
)  # fmt: skip


def compile_operator(
    operator: Annotated[str, typer.Argument(help="Name of the operator.")],
    arch: Annotated[str, typer.Option("--arch", help="Such as gfx1201, gfx942 or sm_90.")],
    shape: Annotated[
        str | None, typer.Option("--shape", help="Shape to compile for; default 1024x...x4096.")
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="Element type.")] = "float32",
    implementation: Annotated[
        str | None, typer.Option("--implementation", help="Only this implementation.")
    ] = None,
    operators: options.Operators = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Compile every config and show registers, spills, LDS and code size.

    What a compiler does not tell is shown as unavailable, never as 0.
    """
    from tuner import api
    from tuner.cli.output import print_rows
    from tuner.cli.output import say

    options.set_up_logging(quiet=quiet, verbose=verbose)
    rows = api.compile_operator(
        operator,
        arch,
        shape=shape,
        dtype=dtype,
        implementation=implementation,
        settings=options.settings_from(operators=operators),
        progress=None if quiet else say,
    )
    if format_name is options.Format.TABLE:
        rows = [_with_gaps_named(row) for row in rows]
    print_rows(rows, COLUMNS, schema="tuner.compile/1", format_name=format_name, output=output)
    if not any(row["state"] == "ok" for row in rows):
        raise NoValidConfig(f"nothing of {operator} compiled for {arch}")


def _with_gaps_named(row: dict[str, Plain]) -> dict[str, Plain]:
    """Say that a figure is unavailable, so that it is not taken for 0."""
    gaps = {name: "unavailable" for name in FIGURES if name in row and row[name] is None}
    return {**row, **gaps} if row["state"] == "ok" else row
