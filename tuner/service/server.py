"""Runs the service: one process that answers, and beside it the one that takes jobs."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from tuner import api
from tuner.errors import UsageError
from tuner.service.addresses import address_of
from tuner.service.addresses import is_ip
from tuner.service.addresses import url_of
from tuner.service.app import create_app
from tuner.service.dependencies import ServiceState
from tuner.service.protocol import DeadlineProtocol
from tuner.service.supervisor import supervise
from tuner.service.work.process import start_worker
from tuner.settings import Settings

BACKLOG = 1024
MAX_OPEN_FILES = 8192
GRACE_S = 8
KEEP_ALIVE_S = 30


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How the service is reached and what it does.

    Attributes:
        host: Address to listen on, or a name of one.
        port: 0 takes a free one.
        allowed_hosts: Further names that clients may call it by.
        devices: Devices to take jobs for; none for all that are usable.
        takes_jobs: Whether a process that takes jobs runs beside it.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    allowed_hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    takes_jobs: bool = True


def serve(settings: Settings, options: ServeOptions, ready: Callable[[str, str], None]) -> None:
    """Answer until SIGTERM or SIGINT comes; requests under way are answered first.

    Args:
        settings: Say which database; their token, if any, lets clients write.
        options: How it is reached.
        ready: Is told the URL once it answers, and by what clients may call it.

    Raises:
        UsageError: The address can't be had, or others could reach it without a token.
        DatabaseProblem: The database can't be made or used.
    """
    token = None if settings.token is None else settings.token.get_secret_value()
    address = _address(options)
    names = () if is_ip(options.host.strip("[]")) else (options.host,)
    allowed = (*options.allowed_hosts, *names)
    app = create_app(settings, token=token, address=address, allowed_hosts=allowed)
    api.prepare_database(settings)
    _raise_file_limit()
    with listening_socket(address, options.port) as listener:
        url = url_of(*listener.getsockname()[:2])
        called = app.state.service.access.called
        server = _Server(_config(app), app.state.service, partial(ready, url, called))
        # Uvicorn raises the signals that ended it again when it is done, for these handlers.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.handle_exit)
        start = partial(start_worker, settings, options.devices) if options.takes_jobs else None
        with (
            app.state.service.answers_ahead,
            asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner,
        ):
            runner.run(_run(server, listener, start))


def _address(options: ServeOptions) -> str:
    """Return the address to listen on, in figures: what is said and allowed goes by it."""
    try:
        return address_of(options.host)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"can't listen on {options.host!r}: {error}",
            hint="give an address of this machine, or 0.0.0.0 for all IPv4 ones",
        ) from error


def listening_socket(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an address in figures; on ``::``, for IPv6 alone.

    Raises:
        UsageError: The address can't be had.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"can't listen on {address} port {port}: {error}",
            hint="another service may have it; give another --port, or 0 for a free one",
        ) from error


class _Server(uvicorn.Server):
    """Ends event streams at the signal, and tells when it answers."""

    def __init__(
        self, config: uvicorn.Config, state: ServiceState, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.stopping = state.streams.stopping
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after what is under way; a second Ctrl-C does not wait for it."""
        super().handle_exit(sig, frame)
        self.stopping.set()


async def _run(
    server: _Server,
    listener: socket.socket,
    start: Callable[[], subprocess.Popen[bytes]] | None,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        if start is not None:
            tasks.create_task(supervise(start, server.stopping))
        await server.serve([listener])
        server.stopping.set()


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=DeadlineProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # ours counts, and names no query
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )


def _raise_file_limit() -> None:
    """Allow as many files as connections need, where the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
