"""The ``tuner`` command. Imports no verb's machinery: ``tuner --help`` must answer at once."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated
from typing import Any

import typer

from tuner import __version__
from tuner.cli import best
from tuner.cli import compare
from tuner.cli import compile as compile_verb
from tuner.cli import dashboard
from tuner.cli import database
from tuner.cli import devices
from tuner.cli import export
from tuner.cli import import_
from tuner.cli import operators
from tuner.cli import profile
from tuner.cli import report
from tuner.cli import reproduce
from tuner.cli import run
from tuner.cli import serve
from tuner.cli import show
from tuner.cli import simulate
from tuner.cli import studies
from tuner.cli import work
from tuner.errors import TunerError
from tuner.start import collect_less

SIGTERM_EXIT_CODE = 128 + signal.SIGTERM
# Newer releases of typer carry a click of their own: its base exception is reached through typer.
_COMMAND_LINE_ERROR: Any = next(
    each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException"
)

app = typer.Typer(
    name="tuner",
    help="Tune GPU kernels, keep the results, and trust the numbers.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("best")(best.best)
app.command("studies")(studies.studies)
app.command("trials")(studies.trials)
app.command("show")(show.show)
app.command("export")(export.export)
app.command("import")(import_.import_files)
app.command("evidence")(import_.evidence)
app.command("simulate")(simulate.simulate)
app.command("report")(report.report)
app.command("profile")(profile.profile)
app.command("reproduce")(reproduce.reproduce)
app.command("compare")(compare.compare)
app.command("operators")(operators.operators)
app.command("devices")(devices.devices)
app.command("doctor")(devices.doctor)
app.command("compile")(compile_verb.compile_operator)
app.command("serve")(serve.serve)
app.command("dashboard")(dashboard.dashboard)
app.command("work")(work.work)
app.add_typer(database.app, name="db")


class Terminated(BaseException):
    """SIGTERM came. Like KeyboardInterrupt, it is not an error to be caught on the way."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tuner {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Tune GPU kernels, keep the results, and trust the numbers."""


def main() -> None:
    """Run the command and turn errors into one line, a hint and an exit code."""
    collect_less()
    signal.signal(signal.SIGTERM, _on_sigterm)
    debug = "--debug" in sys.argv
    try:
        code = app(standalone_mode=False)
    except TunerError as error:
        code = _fail(error.message, error.hint, error.exit_code, debug=debug)
    except _COMMAND_LINE_ERROR as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):  # typer turns the first into the second
        code = _fail("stopped; finished trials are kept", "run the same command to go on", 130)
    except Terminated:
        code = _fail(
            "terminated; finished trials are kept", "run the same command to go on",
            SIGTERM_EXIT_CODE,
        )  # fmt: skip
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        code = 0
    except Exception as error:
        code = _fail(
            f"internal error: {type(error).__name__}: {error}",
            "this is a bug in tuner; run again with --debug and report the trace", 1, debug=debug,
        )  # fmt: skip
    # Python's end looks through all objects, to give back what goes with the process anyway: 0.18 s
    # after a run (2-core x86-64, 2026-12-03).
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, hint: str, code: int, *, debug: bool = False) -> int:
    if debug:
        traceback.print_exc()
    typer.echo(f"error: {message}", err=True)
    if hint:
        typer.echo(f"hint: {hint}", err=True)
    return code


def _on_sigterm(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated("the command was ended by SIGTERM")
