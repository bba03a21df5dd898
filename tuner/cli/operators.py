"""``tuner operators``: what can be tuned."""

from __future__ import annotations

from tuner.cli import options

COLUMNS = ("operator", "implementation", "language", "dims", "dtypes", "description")


def operators(
    operators: options.Operators = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """List operators and their implementations, also where one of them is broken."""
    from tuner import api
    from tuner.cli.output import print_rows

    options.set_up_logging(quiet=quiet, verbose=verbose)
    found, faults = api.all_operators(options.settings_from(operators=operators))
    rows = [
        {
            "operator": operator.name,
            "implementation": each.name,
            "language": each.language,
            "dims": "x".join(operator.dims),
            "dtypes": ", ".join(operator.tolerances),
            "description": each.description,
        }
        for operator in found
        for each in operator.implementations
    ]
    print_rows(rows, COLUMNS, schema="tuner.operators/1", format_name=format_name, output=output)
    if faults:
        raise faults[0]
