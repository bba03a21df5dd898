"""``tuner serve``: the HTTP service with its pages, and the process that takes jobs beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import options
from tuner.errors import MissingDependency
from tuner.errors import UsageError

MAX_TOKEN_BYTES = 4096
_OTHERS = stat.S_IROTH | stat.S_IWOTH
# Where container engines mount secrets, mostly readable for all: all there are of the container.
_MOUNTED = Path("/run/secrets")
_Host = Annotated[
    str,
    typer.Option("--host", help="Address to listen on; 0.0.0.0 is all of IPv4, :: all of IPv6."),
]
_TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help="File with the token that lets clients write.", metavar="FILE"
    ),
]


def serve(
    host: _Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port; 0 takes a free one.", min=0, max=65535)
    ] = 8765,
    token_file: _TokenFile = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", help="Further name it may be called by.", metavar="NAME"),
    ] = None,
    no_work: Annotated[
        bool, typer.Option("--no-work", help="Take no jobs; `tuner work` does, here or elsewhere.")
    ] = False,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", help="Take jobs for this device only.", metavar="ID"),
    ] = None,
    studies: options.Studies = None,
    operators: options.Operators = None,
    db: options.Db = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Serve the results, and take tuning jobs, over HTTP.

    Listens on this machine only, where reading is free; to start studies, give a token. For
    other machines a token is needed for everything.

    Example: openssl rand -hex 32 > token && chmod 600 token && tuner serve --token-file token
    """
    options.set_up_logging(quiet=quiet, verbose=verbose)
    try:
        from tuner.service.server import serve as run
        from tuner.service.server import ServeOptions
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the service needs the package {error.name}", hint="pip install 'tuner[service]'"
        ) from error
    token = None if token_file is None else read_token(token_file)
    settings = options.settings_from(db, operators=operators, studies=studies, token=token)
    chosen = ServeOptions(
        host=host,
        port=port,
        allowed_hosts=tuple(allowed_host or ()),
        devices=tuple(device or ()),
        takes_jobs=not no_work,
    )
    if not quiet:
        _show_requests()
    options.warn_of_broken_operators(settings)
    run(settings, chosen, _say_where)


def _say_where(url: str, called: str) -> None:
    from tuner.cli.output import say

    say(f"answers to {called}; --allowed-host NAME adds a name")
    say(f"listening on {url}")


def read_token(path: Path) -> str:
    """Return the token in a file, without white space around it.

    Raises:
        UsageError: It can't be read, holds no token, or others than its owner can write it, or
            others than its group read it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"token file {path} can't be read: {error.strerror}") from error
    if stat.S_ISREG(mode) and not path.resolve().is_relative_to(_MOUNTED):
        _check_mode(path, mode)
    token = content.decode("utf-8", "replace").strip()
    if len(content) > MAX_TOKEN_BYTES or not (token.isascii() and token.isprintable() and token):
        raise UsageError(
            f"token file {path} holds no token", hint="make one with: openssl rand -hex 32"
        )
    return token


def _check_mode(path: Path, mode: int) -> None:
    if mode & _OTHERS:
        fault = "is open to every user of this machine"
    elif mode & stat.S_IWGRP:
        fault = "can be written by its group"
    else:
        return
    raise UsageError(f"token file {path} {fault}", hint=f"chmod 600 {path}")


def _show_requests() -> None:
    """Log a line for each request: method, path, status and time, never a query or a header."""
    import logging

    logging.getLogger("tuner.service").setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
