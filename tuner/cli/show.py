"""``tuner show``: everything stored of one trial."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import options


def show(
    trial: Annotated[int, typer.Argument(help="Id of a trial.", min=1)],
    source: Annotated[
        bool, typer.Option("--source", help="Print the kernel's source too.")
    ] = False,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Show a trial: outcome, build, checks, raw samples, environment, protocol and source."""
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_text

    options.set_up_logging(quiet=quiet, verbose=verbose)
    detail = api.show_trial(trial, options.settings_from(db))
    if format_name is options.Format.TABLE:
        print_text(_as_text(detail, with_source=source), output=output)
        return
    print_object(detail, output=output)


def _as_text(detail: dict[str, object], *, with_source: bool) -> str:
    from tuner.cli.output import shown

    lines: list[str] = []

    def add(name: str, value: object, depth: int) -> None:
        indent = "  " * depth
        if name == "files" and not with_source and isinstance(value, dict):
            lines.append(f"{indent}files: {', '.join(value)} (--source prints them)")
        elif isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:")
            for key, each in value.items():
                add(str(key), each, depth + 1)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, each in enumerate(value):
                add(f"{name}[{number}]", each, depth)
        elif isinstance(value, str) and "\n" in value:
            lines.append(f"{indent}{name}:")
            lines.extend(f"{indent}  | {line}" for line in value.splitlines())
        else:
            lines.append(f"{indent}{name}: {shown(value)}")

    for name, value in detail.items():
        add(name, value, 0)
    return "\n".join(lines)
