"""``tuner db``: look after the results database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import options
from tuner.errors import DatabaseProblem

app = typer.Typer(
    help="Look after the results database.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("info")
def info(
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Show where the database is, its schema and how much it holds."""
    from tuner import api
    from tuner.cli.output import print_object
    from tuner.cli.output import print_rows

    found = api.database_info(options.settings_from(db))
    if format_name is options.Format.JSON:
        print_object({"schema": "tuner.db.info/1", **found}, output=output)
        return
    rows = [{"name": name, "value": value} for name, value in found.items()]
    print_rows(
        rows, ("name", "value"), schema="tuner.db.info/1", format_name=format_name, output=output
    )


@app.command("upgrade")
def upgrade(
    db: options.Db = None,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Bring an older database to this program's schema, after a backup."""
    from tuner import api
    from tuner.cli.output import say

    for line in api.upgrade_database(options.settings_from(db)):
        say(line)


@app.command("check")
def check(
    db: options.Db = None,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Check integrity, references, row checksums and derived figures."""
    from tuner import api
    from tuner.cli.output import say

    problems = api.check_database(options.settings_from(db))
    for line in problems:
        say(line)
    if problems:
        raise DatabaseProblem(
            f"{len(problems)} problem(s) found", hint="restore a backup, or export what is sound"
        )
    say("no problem found")


@app.command("backup")
def backup(
    target: Annotated[Path, typer.Argument(help="File to write; must not exist.")],
    db: options.Db = None,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Copy the database's file while it is in use. Of a server's database, see `db copy`."""
    from tuner import api
    from tuner.cli.output import say

    api.backup_database(target, options.settings_from(db))
    say(f"backup written to {target}")


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(help="Database to read.", metavar="SRC")],
    target: Annotated[
        str,
        typer.Argument(help="New file, or empty database of a server.", metavar="DST"),
    ],
    quiet: options.Quiet = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Copy all rows between a file and a PostgreSQL server, or two of either, ids included.

    What is there already is never changed; every row of the copy is read back and checked before
    it counts.

    Example: tuner db copy results.db postgresql://tuner@db.example.org/tuner
    """
    from tuner import api
    from tuner.cli.copying import CopyProgress
    from tuner.cli.output import say

    with CopyProgress(quiet=quiet) as progress:
        report = api.copy_database(source, target, progress)
    for name in report.driven:
        say(
            f"warning: study {name} was being run; what it stores from now on is only in "
            f"{report.source}"
        )
    if not quiet:
        rows = sum(report.rows.values())
        say(f"{rows} rows of {report.source} copied to {report.target}, each read back and checked")
