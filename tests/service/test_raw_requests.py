"""Requests as they are on the wire: what is slow, long, doubled, or no HTTP at all."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient
from serving import TOKEN
from working import wait

from tuner import service
from tuner.service import limits
from tuner.service import protocol
from tuner.service.app import create_app
from tuner.service.server import listening_socket
from tuner.settings import Settings
from tuner.store import open_store


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


CLOSING = HOST + b"Connection: close\r\n\r\n"
AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n".encode()
LAUNCH = b"Content-Length: 2\r\n" + CLOSING + b"{}"
CONTRADICTING = [
    (b"GET /healthz HTTP/1.1\r\n" + HOST + CLOSING, "Host"),
    (b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n" + CLOSING, "Host"),
    (b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "Host"),
    (
        b"POST /api/v1/studies HTTP/1.1\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n"
        + AUTHORIZED
        + LAUNCH,
        "Idempotency-Key",
    ),
    (b"POST /api/v1/studies HTTP/1.1\r\n" + AUTHORIZED * 2 + LAUNCH, "Authorization"),
    (b"GET http://evil.example/healthz HTTP/1.1\r\n" + CLOSING, "Host"),
    (b"GET https://127.0.0.1/healthz HTTP/1.1\r\n" + CLOSING, "Host"),
    (b"GET http://a@127.0.0.1/healthz HTTP/1.1\r\n" + CLOSING, "Host"),
    (b"GET http://127.0.0.1:1/healthz HTTP/1.1\r\n" + CLOSING, "Host"),
    (b"GET http://[/healthz HTTP/1.1\r\n" + CLOSING, "address"),
]


@pytest.mark.parametrize(("request_", "words"), CONTRADICTING)
def test_a_request_that_contradicts_itself_is_refused(
    address: tuple[str, int], request_: bytes, words: str
) -> None:
    status, _, fields = received(address, request_)

    assert (status, fields["schema"], fields["error"]) == (400, "tuner.error/1", "invalid_request")
    assert words in fields["message"]
    assert fields["hint"]


def test_an_address_with_this_host_is_answered(address: tuple[str, int]) -> None:
    for place in (b"http://127.0.0.1/healthz", b"HTTP://127.0.0.1/healthz"):
        assert received(address, b"GET " + place + b" HTTP/1.1\r\n" + CLOSING)[0] == 200
    asked = b"GET http://127.0.0.1/healthz?x=1 HTTP/1.1\r\n"
    assert "'x'" in received(address, asked + CLOSING)[2]["message"]
    with socket.create_connection(address, timeout=10.0) as connection:
        connection.sendall(b"GET http://127.0.0.1 HTTP/1.1\r\n" + CLOSING)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200"), "the first page"


def test_a_list_may_come_in_several_lines(address: tuple[str, int]) -> None:
    lines = b"Accept: application/json\r\nAccept: text/html\r\n"
    with socket.create_connection(address, timeout=10.0) as connection:
        connection.sendall(b"GET /none HTTP/1.1\r\n" + lines + CLOSING)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"<main" in answer


def test_each_header_that_is_read_and_no_list_is_given_once(reader: TestClient) -> None:
    files = Path(service.__file__).parent.rglob("*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    read = set(re.findall(r'(?:asked|headers)\.get\("([a-z-]+)"', text))
    read.update(re.findall(r'"([a-z-]+)" in (?:asked|headers)', text))
    paths = reader.get("/openapi.json").json()["paths"].values()
    operations = [operation for path in paths for operation in path.values()]
    described = [each for operation in operations for each in operation.get("parameters", [])]
    read.update(each["name"].lower() for each in described if each["in"] == "header")

    assert {"host", "idempotency-key", "last-event-id", "sec-fetch-site"} <= read
    of_answers_and_lists = {"accept-ranges", "transfer-encoding"}
    assert read - of_answers_and_lists <= limits.GIVEN_ONCE


UNREADABLE = [
    ("GET /api/v1/studies/é HTTP/1.1\r\n".encode() + HOST + b"\r\n", 400, "ASCII"),
    ("GET /?q=é HTTP/1.1\r\n".encode("latin-1") + HOST + b"\r\n", 400, "ASCII"),
    (b"GET healthz HTTP/1.1\r\n" + HOST + b"\r\n", 400, "no path"),
    (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400, "Expected HTTP/"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "not HTTPS"),
    (b"hello\r\n\r\n", 400, "no HTTP"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2.0"),
    (b"GET /healthz HTTP/2.0\r\n" + HOST + b"\r\n", 505, "HTTP/2.0"),
    (b"GET /healthz HTTP/3.7\r\n" + HOST + b"\r\n", 505, "HTTP/3.7"),
    (b"GET /healthz\r\n\r\n", 505, "HTTP/0.9"),
    (b"FOO /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 501, "'FOO'"),
    (b"\r\nfoo-bar /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 501, "'foo-bar'"),
    (b"get /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 501, "capitals"),
    (b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n", 501, "no proxy"),
    (b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n", 400, "header"),
    (b"POST /login HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n", 400, "Content-Length"),
    (b"POST /login HTTP/1.1\r\n" + b"Content-Length: 1\r\n" * 2, 400, "Content-Length"),
    (
        b"POST /api/v1/studies HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
        + AUTHORIZED
        + HOST
        + b"\r\nzz\r\n",
        400,
        "chunk size",
    ),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * protocol.MAX_HEADER_BYTES, 431, "bytes"),
    (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 70_000 + b"\r\n\r\n", 431, "bytes"),
    (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, "address"),
    (b"GET /?" + b"x" * 3_000_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, "address"),
    (b"GET http://127.0.0.1/" + b"x" * 70_000 + b" HTTP/1.1\r\n" + HOST, 414, "address"),
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
    assert re.fullmatch("[a-z_]+", fields["error"])
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["connection"] == "close"
    assert ("HTTPS" in fields["hint"]) == (words in ("not HTTPS", "no HTTP"))


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
