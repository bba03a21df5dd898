"""``tuner serve`` as a process: how it starts, ends, and what ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn
from serving import own_addresses
from serving import Serving
from serving import TOKEN
from working import wait

from tuner.cli import serve as serve_command
from tuner.cli.serve import read_token
from tuner.errors import UsageError
from tuner.service import limits
from tuner.service import protocol
from tuner.service import supervisor
from tuner.service.app import create_app
from tuner.service.server import listening_socket
from tuner.settings import Settings
from tuner.store import open_store

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
OTHERS = "0.0.0.0"


def refused(*words: str) -> tuple[int, str]:
    """Return exit code and message of a service that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "serve", "--port", "0", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture
def serving(tmp_path: Path, cache_dir: Path) -> Iterator[Callable[..., Serving]]:
    """Return a starter of services over a database of the test's own."""
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> Serving:
            db = str(tmp_path / "served.db")
            return stack.enter_context(Serving(db, cache_dir, tmp_path, *words))

        yield start


def test_it_makes_the_database_and_ends_well_with_a_stream_open(
    serving: Callable[..., Serving], tmp_path: Path
) -> None:
    service = serving("--no-work")
    assert (tmp_path / "served.db").exists()
    assert service.client.get("/readyz").status_code == 200
    assert service.client.get("/api/v1/studies").json()["items"] == []
    assert not psutil.Process(service.process.pid).children()

    with service.client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry: ")
        begun = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        rest = list(lines)  # to its end: it is closed, not cut off
    code = service.process.wait(20)

    assert any(line.startswith("data: ") for line in rest)
    assert code == 0, service.log
    assert time.monotonic() - begun < 10.0
    assert "Traceback" not in service.log
    assert TOKEN not in service.log
    assert "GET /readyz 200" in service.log


def test_the_process_that_takes_jobs_is_started_again_and_ends_with_the_service(
    serving: Callable[..., Serving],
) -> None:
    service = serving("--device", "cpu")

    def worker() -> psutil.Process | None:
        children = psutil.Process(service.process.pid).children()
        return children[0] if children else None

    wait(lambda: worker() is not None, "a worker")
    first = worker()
    assert first is not None
    first.kill()
    wait(lambda: (now := worker()) is not None and now.pid != first.pid, "another worker")
    second = worker()
    assert second is not None
    wait(lambda: "idle" in [each["state"] for each in devices(service)], "an idle device")
    service.process.kill()
    service.process.wait()

    def has_ended() -> bool:
        return not second.is_running() or second.status() == psutil.STATUS_ZOMBIE

    wait(has_ended, "the worker's end", 5.0)


def devices(service: Serving) -> list[dict[str, str]]:
    found: list[dict[str, str]] = service.client.get("/api/v1/devices").json()["items"]
    return found


def test_others_reach_it_as_the_documentation_says(serving: Callable[..., Serving]) -> None:
    service = serving("--no-work", "--host", OTHERS)
    port = service.client.base_url.port

    for called in own_addresses():
        answer = service.client.get(f"http://{called}:{port}/api/v1/studies")
        assert answer.status_code == 200, called
    by_name = {"Host": f"{socket.gethostname()}:{port}"}
    assert service.client.get("/api/v1/studies", headers=by_name).status_code == 200
    first = service.log.splitlines()[0]
    assert first.startswith("answers to ")
    assert socket.gethostname().lower() in first
    assert "IP addresses" in first


def test_it_does_not_start_where_it_must_not(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    shutil.copy(GOLDEN / "revision_0003.sqlite3", old)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, text = refused("--db", str(tmp_path / "new.db"), "--port", port, "--no-work")
        assert (code, port in text) == (2, True)

    typo = tmp_path / "typo" / "x.db"
    code, text = refused("--db", str(typo), "--no-work")
    assert (code, "there is no folder" in text) == (2, True)
    assert not typo.parent.exists()
    code, text = refused("--host", OTHERS, "--db", str(tmp_path / "other.db"))
    assert (code, "without a token" in text) == (2, True)
    assert not (tmp_path / "other.db").exists()
    code, text = refused("--db", str(old))
    assert (code, "tuner db upgrade" in text) == (3, True)


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"caf\xc3\xa9", b"x" * 5000])
def test_a_token_file_that_holds_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_bytes(content)

    with pytest.raises(UsageError, match="holds no token"):
        read_token(path)
    with pytest.raises(UsageError, match="can't be read"):
        read_token(tmp_path / "none")
    path.write_bytes(TOKEN.encode() + b"\n")
    assert read_token(path) == TOKEN


@pytest.mark.parametrize(
    ("mode", "is_taken"),
    [(0o600, True), (0o400, True), (0o640, True), (0o644, False), (0o444, False), (0o602, False)],
)
def test_a_token_file_that_everybody_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_taken: bool
) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN, encoding="ascii")
    path.chmod(mode)

    if is_taken:
        assert read_token(path) == TOKEN
    else:
        with pytest.raises(UsageError, match="open to every user") as caught:
            read_token(path)
        assert caught.value.hint == f"chmod 600 {path}"
    monkeypatch.setattr(serve_command, "_MOUNTED", tmp_path)  # as a container's secret
    assert read_token(path) == TOKEN


def test_a_token_comes_from_a_pipe() -> None:
    reading, writing = os.pipe()  # as `--token-file <(pass tuner)` gives it
    os.write(writing, TOKEN.encode())
    os.close(writing)
    assert read_token(Path(f"/dev/fd/{reading}")) == TOKEN
    os.close(reading)


def test_a_process_that_ends_at_once_is_started_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY_S", 0.2)
    starts: list[float] = []

    def start() -> subprocess.Popen[bytes]:
        starts.append(time.monotonic())
        if len(starts) == 2:  # as where there is no memory for another process
            raise BlockingIOError("no more processes")
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])

    async def run() -> None:
        stopping = asyncio.Event()
        task = asyncio.create_task(supervisor.supervise(start, stopping))
        while len(starts) < 4:
            await asyncio.sleep(0.01)
        stopping.set()
        await task

    asyncio.run(run())
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    assert pauses[0] >= 0.2
    assert 0.4 <= pauses[1] < 0.8, "the first delay is the first one; this start took no time"
    assert pauses[2] >= 0.8


def test_a_process_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 0.5)
    stubborn = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    async def run() -> None:
        stopping = asyncio.Event()
        task = asyncio.create_task(supervisor.supervise(lambda: process, stopping))
        await asyncio.sleep(0.1)
        stopping.set()
        await task

    asyncio.run(run())
    assert process.returncode == -signal.SIGKILL
    process.stdout.close()


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Where a service answers that waits half a second for headers."""
    monkeypatch.setattr(protocol, "HEADER_TIMEOUT_S", 0.5)
    settings = Settings(db=str(tmp_path / "slow.db"))
    with open_store(settings.db, create=True, writable=False):
        pass
    config = uvicorn.Config(
        create_app(settings, token=TOKEN), http=protocol.DeadlineProtocol, lifespan="off",
        log_config=None,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with listening_socket("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        wait(lambda: server.started, "the server")
        yield listener.getsockname()[:2]
        server.should_exit = True
        thread.join()


def test_connections_that_say_nothing_or_too_much_are_closed(address: tuple[str, int]) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    slow = [b"", b"GET /hea", request, request + b"X: y\r\n"]
    connections = [socket.create_connection(address, timeout=10.0) for _ in slow]
    idle = [socket.create_connection(address, timeout=10.0) for _ in range(200)]
    for connection, start in zip(connections, slow, strict=True):
        connection.sendall(start)
    with socket.create_connection(address, timeout=10.0) as quick:
        quick.sendall(request + b"\r\n")
        assert quick.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(1.0)  # between two requests, a client may be silent for longer
        quick.sendall(request + b"\r\n")
        assert quick.recv(4096).startswith(b"HTTP/1.1 200")
    for connection in (*connections, *idle):
        assert connection.recv(4096) == b""
        connection.close()
    with socket.create_connection(address, timeout=10.0) as flood:
        flood.sendall(request)
        with contextlib.suppress(OSError):
            for _ in range(100):
                flood.sendall(b"X-Filler: " + b"x" * 8000 + b"\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert flood.recv(4096)[:12] in (b"", b"HTTP/1.1 431")


def received(address: tuple[str, int], request: bytes) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and JSON, or the text of a page, of the only answer to some bytes."""
    with socket.create_connection(address, timeout=10.0) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))  # until it is closed
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    assert int(headers["content-length"]) == len(body)
    is_json = headers["content-type"] == "application/json"
    return int(first.split()[1]), headers, json.loads(body) if is_json else body.decode()


HOST = b"Host: 127.0.0.1\r\n"


def test_head_sends_nothing_after_the_headers(address: tuple[str, int]) -> None:
    for path in (b"/healthz", b"/nothing", b"/api/v1/exports/trials.csv", b"/api/v1/events"):
        with socket.create_connection(address, timeout=10.0) as connection:
            request = b"HEAD " + path + b" HTTP/1.1\r\n" + HOST
            connection.sendall(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.count(b"HTTP/1.1 ") == 2, path
        assert answer.endswith(b"\r\n\r\n")


UNREADABLE = [
    ("GET /api/v1/studies/é HTTP/1.1\r\n".encode() + HOST + b"\r\n", 400, "ASCII"),
    ("GET /?q=é HTTP/1.1\r\n".encode("latin-1") + HOST + b"\r\n", 400, "ASCII"),
    (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400, "no HTTP"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "not HTTPS"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "no HTTP"),
    (b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n", 400, "no HTTP"),
    (b"POST /login HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n", 400, "no HTTP"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * protocol.MAX_HEADER_BYTES, 431, "bytes"),
]


@pytest.mark.parametrize(("request_", "status", "words"), UNREADABLE)
def test_what_is_no_request_is_answered_in_the_shape_of_errors(
    address: tuple[str, int], request_: bytes, status: int, words: str
) -> None:
    found, headers, fields = received(address, request_)

    assert found == status
    assert list(fields) == ["schema", "error", "message", "hint", "status"]
    assert (fields["schema"], fields["status"]) == ("tuner.error/1", status)
    assert words in fields["message"] + fields["hint"]
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["connection"] == "close"


def test_with_too_many_connections_only_health_is_answered(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 3)

    def get(path: bytes, more: bytes = b"") -> tuple[int, dict[str, str], Any]:
        return received(address, b"GET " + path + b" HTTP/1.1\r\n" + HOST + more + b"\r\n")

    closing = b"Connection: close\r\n"
    assert get(b"/openapi.json", closing)[0] == 200
    idle = [socket.create_connection(address, timeout=10.0) for _ in range(3)]
    status, headers, fields = get(b"/openapi.json")
    assert (status, fields["error"]) == (503, "too_many_connections")
    assert fields["schema"] == "tuner.error/1"
    assert int(headers["retry-after"]) > 0
    status, headers, _ = get(b"/studies", b"Accept: text/html\r\n")
    assert (status, headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert get(b"/healthz", closing)[0] == 200
    for connection in idle:
        connection.close()
    wait(lambda: get(b"/openapi.json", closing)[0] == 200, "the service to have room again")


def test_it_makes_answers_before_they_are_asked_for(
    serving: Callable[..., Serving], settings: Settings, tmp_path: Path
) -> None:
    shutil.copy(settings.db, tmp_path / "served.db")
    client = serving("--no-work").client

    def answers(state: str) -> float:
        text = client.get("/metrics").text
        return float(text.partition(f"\ntuner_best_answers_{state} ")[2].split()[0])

    wait(lambda: answers("kept") > 0 and answers("waiting") == 0, "answers made ahead")
    before = answers("kept")
    architecture = client.get("/api/v1/studies/planted").json()["architecture"]
    question = {"operator": "planted", "shape": "6x40", "arch": architecture}
    answer = client.get("/api/v1/best", params=question)
    assert answer.json()["best"]["workload"]["shape"] == [6, 40]
    assert answers("kept") == before
