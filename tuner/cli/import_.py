"""``tuner import`` and ``tuner evidence``: results from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from typing import TYPE_CHECKING

import typer

from tuner.cli import options
from tuner.domain.identity import canonical_json
from tuner.domain.identity import Plain

if TYPE_CHECKING:
    from tuner.api.importing import ImportResult

SET_COLUMNS = (
    "evidence", "records", "ok", "operators", "architectures", "measured_on", "files", "formats",
    "imported_at",
)  # fmt: skip
TABLE_COLUMNS = (
    "record_id", "implementation", "shape", "dtype", "config", "outcome", "median", "low", "high",
    "unit", "timer", "measured_on", "message",
)  # fmt: skip
# In the table, raw samples would hide the rest.
CSV_COLUMNS = (
    "record_id", "file", "file_sha256", "line", "origin", "operator", "implementation", "language",
    "runtime", "shape", "dtype", "scalars", "config", "outcome", "message", "unit", "median", "low",
    "high", "median_us", "low_us", "high_us", "samples_us", "timer", "statistic", "max_abs_error",
    "max_rel_error", "measured_on", "environment", "protocol", "extra",
)  # fmt: skip


def import_files(
    files: Annotated[list[Path], typer.Argument(help="Files to import.", metavar="FILE...")],
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="Format, where it is not to be recognised.", metavar="NAME"),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Store the good lines of a file with bad ones.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the set of evidence.", metavar="NAME")
    ] = None,
    db: options.Db = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Store results from elsewhere: evidence of others, or a bundle or database of tuner.

    Evidence is RESULT lines in logs, their CSV tables, Kernel Tuner's files, and TOML files with
    [[recorded]] rows. It is marked as imported and never mixes with what was measured here. A
    bundle (`tuner export bundle`) or another database is merged; what is here already stays.
    """
    from tuner import api
    from tuner.cli.output import say

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db)
    for file in files:
        result = api.import_file(
            file, format_name=format_name, partial=partial, name=name, settings=settings
        )
        for note in result.notes:
            say(f"warning: {note}")
        if not quiet:
            say(_summary(result))


def evidence(
    name: Annotated[str | None, typer.Argument(help="Name of a set; all without it.")] = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """List imported evidence, or show one set with every figure as its source writes it."""
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows
    from tuner.cli.output import say

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db)
    columns: tuple[str, ...]
    if name is None:
        rows, columns, schema = api.list_evidence(settings), SET_COLUMNS, "tuner.evidence/1"
    else:
        shown = api.show_evidence(name, settings)
        if format_name is options.Format.JSON:
            print_object(shown, output=output)
            return
        rows, schema = shown["rows"], shown["schema"]
        is_table = format_name is options.Format.TABLE
        columns = TABLE_COLUMNS if is_table else CSV_COLUMNS
        if is_table and not quiet:
            for claim in shown["claims"]:
                say(f"{claim['faster']} is {claim['ratio']:.3g} times as fast as {claim['slower']}")
    if format_name is options.Format.CSV:
        rows = [_flat(row) for row in rows]
    print_rows(rows, columns, schema=schema, format_name=format_name, output=output)


def _summary(result: ImportResult) -> str:
    added = {kind: count for kind, count in result.added.items() if count}
    if result.evidence is not None:
        if not added:
            return f"{result.file}: imported before, as evidence {result.evidence}; nothing added"
        count = added["records"]
        word = "record" if count == 1 else "records"
        return f"{result.file}: {count} {word} stored as evidence {result.evidence}"
    listed = ", ".join(f"{count} {kind}" for kind, count in added.items())
    advanced = f", {result.advanced} brought further" if result.advanced else ""
    return f"{result.file}: {listed or 'nothing'} added{advanced}; {result.known} rows known"


def _flat(row: Mapping[str, Plain]) -> dict[str, Plain]:
    """Return a row whose lists and objects are JSON, for cells."""
    return {
        name: canonical_json(value) if isinstance(value, dict | list) else value
        for name, value in row.items()
    }
