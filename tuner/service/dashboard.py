"""optuna-dashboard over an Optuna storage, for this machine only: it has no login."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from wsgiref.simple_server import make_server
from wsgiref.simple_server import WSGIRequestHandler
from wsgiref.simple_server import WSGIServer

from tuner.errors import EnvironmentProblem
from tuner.errors import MissingDependency
from tuner.errors import UsageError
from tuner.service.addresses import is_loopback
from tuner.service.addresses import LOOPBACK_NAMES
from tuner.service.addresses import url_of

if TYPE_CHECKING:
    from wsgiref.types import StartResponse
    from wsgiref.types import WSGIApplication
    from wsgiref.types import WSGIEnvironment

    import optuna


def check_dashboard(host: str, port: int) -> None:
    """Check what is needed, before studies are read for nothing.

    Args:
        host: Where it is to be shown.
        port: Likewise; for the way to reach it from elsewhere.

    Raises:
        UsageError: The address is not of this machine alone.
        MissingDependency: optuna-dashboard is not installed.
    """
    if not is_loopback(host):
        shown = str(port or "PORT")
        raise UsageError(
            f"the dashboard is not shown on {host}: it has no login",
            hint="leave --host out; from elsewhere, forward the port: "
            f"ssh -L {shown}:localhost:{shown} THIS_MACHINE",
        )
    try:
        import optuna_dashboard  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"the dashboard needs the package {(error.name or '').replace('_', '-')}",
            hint="install it with: pip install 'tuner[dashboard]'",
        ) from error


def serve_dashboard(
    storage: optuna.storages.BaseStorage, host: str, port: int, ready: Callable[[str], None]
) -> None:
    """Serve until the process is told to stop.

    Args:
        storage: What to show. Changes made in the browser go no further than into this.
        host: A loopback address, or ``localhost``.
        port: 0 takes any that is free.
        ready: Called with the address once it answers.

    Raises:
        EnvironmentProblem: The port can't be had.
    """
    import optuna_dashboard

    app = _for_this_host(optuna_dashboard.wsgi(storage), LOOPBACK_NAMES | {host})
    try:
        server = make_server(host, port, app, _server_class(host), _QuietHandler)
    except OSError as error:
        raise EnvironmentProblem(
            f"port {port} of {host} can't be used: {error.strerror}",
            hint="give another one with --port, or 0 for any",
        ) from error
    with server:
        ready(f"{url_of(host, server.server_port)}/")
        server.serve_forever()


def _for_this_host(app: WSGIApplication, names: frozenset[str]) -> WSGIApplication:
    """Refuse requests for other hosts.

    A page elsewhere can let its own name lead to 127.0.0.1, and would then read what is shown.
    """

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked: str | None = None
        with contextlib.suppress(ValueError):
            asked = urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname
        if asked in names:
            return app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"this dashboard is reached as localhost only\n"]

    return guarded


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    """Answers several requests at once; those under way don't keep the process from ending."""

    daemon_threads = True


class _ThreadingServer6(_ThreadingServer):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    """Logs no line a request: a page asks for several every few seconds."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _server_class(host: str) -> type[WSGIServer]:
    return _ThreadingServer6 if ":" in host else _ThreadingServer
