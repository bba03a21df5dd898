"""Starts the service and asks it over HTTP, timing each request."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import uvloop

START_TIMEOUT_S = 60.0
SPARE_CONNECTIONS = 64  # of the open loop
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class HttpConnection(asyncio.Protocol):
    """Asks one thing at a time over one connection, with as little work as can be."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        """End the request when its whole answer is there."""
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if separator and length and len(body) >= int(length[1]) and self._answer is not None:
            self._answer.set_result(int(head[9:12]))

    def connection_lost(self, _error: Exception | None) -> None:
        """Fail what waits."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the service closed the connection"))

    async def get(self, path: str) -> int:
        """Return the status of a request."""
        assert self._transport is not None
        self._received = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


@dataclass(frozen=True, slots=True)
class Figures:
    """What one way of asking gave. Times in milliseconds."""

    questions: str
    loop: str
    requests: int
    per_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    worst_ms: float
    server_cpu: float

    def row(self) -> list[str]:
        """Return the cells of a table."""
        return [
            self.questions,
            self.loop,
            str(self.requests),
            f"{self.per_s:.0f}",
            *(f"{x:.1f}" for x in (self.p50_ms, self.p95_ms, self.p99_ms, self.worst_ms)),
            f"{self.server_cpu:.0%}",
        ]


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


HEADER = (
    "questions", "asked", "requests", "requests/s", "p50 ms", "p95 ms", "p99 ms", "worst ms",
    "server's CPU",
)  # fmt: skip


class Service:
    """A running ``tuner serve``.

    Args:
        database: SQLite path or URL.
        takes_jobs: With the process that takes jobs for this machine's device.

    Attributes:
        host: Address and port.
        pid: Its process.
    """

    def __init__(self, database: str, *, takes_jobs: bool = False) -> None:
        command = [sys.executable, "-m", "tuner", "serve", "--quiet", "--port", "0"]
        command += ["--db", database, *([] if takes_jobs else ["--no-work"])]
        self._process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        watchdog = threading.Timer(START_TIMEOUT_S, self._process.kill)
        watchdog.start()
        for line in self._process.stderr:
            if "listening on" in line:
                break
            sys.stderr.write(line)
        else:
            raise RuntimeError("the service did not start")
        watchdog.cancel()
        threading.Thread(target=self._process.stderr.read, daemon=True).start()
        self.host = line.rpartition("//")[2].strip()
        self.pid = self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until ``/readyz`` says that it is ready."""
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.host}/readyz", timeout=60):
                    return
            except urllib.error.HTTPError:
                time.sleep(0.2)

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        return cpu_seconds(self.pid)

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


class Questioner:
    """Asks a service and notes how long it takes."""

    def __init__(self, service: Service, clients: int) -> None:
        self._service = service
        self._clients = clients

    async def _connect(self, count: int) -> list[HttpConnection]:
        host, _, port = self._service.host.rpartition(":")
        loop = asyncio.get_running_loop()
        pairs = [
            await loop.create_connection(
                lambda: HttpConnection(self._service.host), host, int(port)
            )
            for _ in range(count)
        ]
        return [connection for _, connection in pairs]

    def closed(self, name: str, paths: Sequence[str]) -> Figures:
        """Ask everything once, by clients that wait for their answers."""
        return uvloop.run(self._closed(name, paths))

    async def _closed(self, name: str, paths: Sequence[str]) -> Figures:
        times_ms: list[float] = []
        left = iter(paths)

        async def client(connection: HttpConnection) -> None:
            for path in left:
                begun_s = time.perf_counter()
                status = await connection.get(path)
                times_ms.append((time.perf_counter() - begun_s) * 1e3)
                if status != 200:
                    raise RuntimeError(f"{status} for {path}")

        connections = await self._connect(self._clients)
        begun_s, cpu_s = time.perf_counter(), self._service.cpu_s()
        await asyncio.gather(*map(client, connections))
        took_s = time.perf_counter() - begun_s
        for each in connections:
            each.close()
        loop = f"closed loop, {self._clients} clients"
        return self._figures(name, loop, times_ms, took_s, self._service.cpu_s() - cpu_s)

    def open(self, name: str, paths: Sequence[str], rate: float) -> Figures:
        """Ask everything once, at a fixed rate."""
        return uvloop.run(self._open(name, paths, rate))

    async def _open(self, name: str, paths: Sequence[str], rate: float) -> Figures:
        times_ms: list[float] = []
        free: asyncio.Queue[HttpConnection] = asyncio.Queue()
        connections = await self._connect(SPARE_CONNECTIONS)
        for each in connections:
            free.put_nowait(each)

        async def ask(path: str, due_s: float) -> None:
            connection = await free.get()
            status = await connection.get(path)
            times_ms.append((time.perf_counter() - due_s) * 1e3)
            free.put_nowait(connection)
            if status != 200:
                raise RuntimeError(f"{status} for {path}")

        begun_s, cpu_s = time.perf_counter(), self._service.cpu_s()
        async with asyncio.TaskGroup() as tasks:
            for number, path in enumerate(paths):
                due_s = begun_s + number / rate
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                tasks.create_task(ask(path, due_s))
        took_s = time.perf_counter() - begun_s
        for each in connections:
            each.close()
        loop = f"open loop, {rate:.0f}/s"
        return self._figures(name, loop, times_ms, took_s, self._service.cpu_s() - cpu_s)

    def _figures(
        self, name: str, loop: str, times_ms: list[float], took_s: float, cpu_s: float
    ) -> Figures:
        times_ms.sort()
        count = len(times_ms)
        p50_ms, p95_ms, p99_ms = (times_ms[int((count - 1) * q)] for q in (0.5, 0.95, 0.99))
        return Figures(
            name, loop, count, count / took_s, p50_ms, p95_ms, p99_ms, times_ms[-1], cpu_s / took_s
        )
