"""Who may write, by which name, from which page, what and how much; and that nothing leaks."""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from serving import TOKEN

from tuner import api
from tuner.errors import UsageError
from tuner.service import addresses
from tuner.service import security
from tuner.service.addresses import is_loopback
from tuner.service.app import create_app
from tuner.service.limits import MAX_BODY_BYTES
from tuner.service.limits import Rate
from tuner.service.limits import RateLimit
from tuner.service.pages import PAGE_ROUTERS
from tuner.service.routes import API_ROUTERS
from tuner.service.security import Access
from tuner.service.security import READ_METHODS
from tuner.settings import Settings

Maker = Callable[..., TestClient]
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LAUNCH = {"study": "planted", "device": "cpu"}
WRITES = (
    ("/api/v1/studies", LAUNCH),
    ("/api/v1/reproductions", {"record": "1"}),
    ("/api/v1/jobs/1/pause", None),
    ("/api/v1/jobs/2/resume", None),
    ("/api/v1/jobs/1/cancel", None),
    ("/api/v1/studies/planted/pause", None),
    ("/api/v1/studies/planted/resume", None),
    ("/api/v1/studies/planted/cancel", None),
)
# Sent by the forms of pages, with a session's cookie.
FORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/studies", LAUNCH),
    ("/reproductions", {"record": "1", "device": "cpu"}),
    ("/jobs/1/pause", {}),
    ("/jobs/2/resume", {}),
    ("/jobs/1/cancel", {}),
    ("/studies/1/pause", {}),
    ("/studies/1/resume", {}),
    ("/studies/1/cancel", {}),
    ("/logout", {}),
)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
LOGIN = ("/login", {"token": TOKEN})  # the only write that needs no token


def content_hash(settings: Settings) -> str:
    return hashlib.sha256(Path(settings.db).read_bytes()).hexdigest()


@pytest.fixture
def unchanged(filled: Settings) -> Iterator[None]:
    """The database's file is as it was when the test ends."""
    before = content_hash(filled)
    yield
    log = Path(filled.db + "-wal")
    assert not log.exists() or not log.stat().st_size
    assert content_hash(filled) == before


REFUSED: list[tuple[dict[str, str], str, int]] = [
    ({}, "", 401),
    ({"Authorization": "Bearer wrong"}, "", 401),
    ({"Authorization": TOKEN}, "", 401),
    ({"Authorization": f"Basic {TOKEN}"}, "", 401),
    ({}, f"?token={TOKEN}&access_token={TOKEN}", 401),
    ({"Cookie": f"tuner_session={TOKEN}"}, "", 401),
    ({"X-HTTP-Method-Override": "GET"}, "", 401),
    ({**BEARER, "Origin": "https://evil.example"}, "", 403),
    ({**BEARER, "Origin": "null"}, "", 403),
    ({**BEARER, "Origin": "http://127.0.0.1:9"}, "", 403),
    ({**BEARER, "Sec-Fetch-Site": "cross-site"}, "", 403),
    ({**BEARER, "Sec-Fetch-Site": "same-site"}, "", 403),
    ({**BEARER, "Host": "evil.example"}, "", 403),
    ({**BEARER, "Host": "127.0.0.1.evil.example:8765"}, "", 403),
    ({**BEARER, "Host": "127.0.0.1:evil.example"}, "", 403),
    ({**BEARER, "Host": "[::1].evil.example"}, "", 403),
    ({**BEARER, "Host": ""}, "", 403),
]


@pytest.mark.parametrize(("headers", "query", "status"), REFUSED)
def test_a_write_is_refused(
    reader: TestClient, unchanged: None, headers: dict[str, str], query: str, status: int
) -> None:
    for path, body in WRITES:
        answer = reader.post(path + query, json=body, headers={"Authorization": "", **headers})
        assert answer.status_code == status, path
        assert answer.json()["schema"] == "tuner.error/1"
    for path, fields in FORMS:
        answer = reader.post(path + query, data=fields, headers={"Authorization": "", **headers})
        assert answer.status_code == status, path
        assert answer.json()["schema"] == "tuner.error/1"


FOREIGN = [headers for headers, _, status in REFUSED if status == 403]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_form_of_another_site_is_refused_though_the_cookie_is_sent(
    make_client: Maker, filled: Settings, unchanged: None, headers: dict[str, str]
) -> None:
    client = make_client(settings=filled, headers={})
    assert client.post(LOGIN[0], data=LOGIN[1]).status_code == 303
    assert client.post("/jobs/999/pause").status_code == 404, "the session may write"
    cookie = f"{security.SESSION_COOKIE}={client.cookies[security.SESSION_COOKIE]}"
    foreign = {**headers, "Authorization": "", "Cookie": cookie}
    for path, fields in (*FORMS, LOGIN):
        answer = client.post(path, data=fields, headers=foreign)
        assert answer.status_code == 403, path
        assert "set-cookie" not in answer.headers


def test_every_write_route_is_among_those_tried() -> None:
    routes = [
        route
        for router in (*API_ROUTERS, *PAGE_ROUTERS)
        for route in router.routes
        if not getattr(route, "methods", {"POST"}) <= READ_METHODS
    ]
    tried = [path for path, _ in (*WRITES, *FORMS, LOGIN)]

    assert all(isinstance(route, APIRoute) for route in routes), "a router in a router hides some"
    found = {route.path for route in routes if any(map(route.path_regex.match, tried))}
    assert found == {route.path for route in routes}
    assert len(found) == 10


def test_a_preflight_allows_nothing(reader: TestClient) -> None:
    answer = reader.options(
        "/api/v1/studies",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"},
    )

    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_without_a_token_nobody_writes_and_the_answer_says_how_to(
    make_client: Maker, filled: Settings, unchanged: None
) -> None:
    client = make_client(settings=filled, token=None, headers={"Authorization": "Bearer "})

    answer = client.post("/api/v1/studies", json=LAUNCH)

    assert (answer.status_code, answer.json()["error"]) == (403, "no_token")
    assert "--token-file" in answer.json()["hint"]
    assert client.post("/login", data={"token": ""}).status_code == 403
    assert client.get("/api/v1/studies").status_code == 200


def test_other_machines_need_the_token_to_read(make_client: Maker, settings: Settings) -> None:
    with pytest.raises(UsageError, match="without a token"):
        create_app(settings, address="0.0.0.0")
    with pytest.raises(UsageError, match="at least 16"):
        create_app(settings, token="short")
    client = make_client(address="0.0.0.0", allowed_hosts=["gpu.example"], headers={})

    for path in ("/api/v1/studies", "/metrics", "/openapi.json", "/api/v1/exports/trials.csv"):
        answer = client.get(path, headers={"Host": "gpu.example:8765"})
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers=BEARER).status_code == 200, path
    for path in ("/healthz", "/readyz"):
        assert client.get(path).status_code == 200
    assert client.get("/healthz", headers={"Host": "other.example"}).status_code == 403
    page = client.get("/", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is called ``GPU-box``, in the domain ``lab.example``."""
    monkeypatch.setattr(socket, "gethostname", lambda: "GPU-box")
    monkeypatch.setattr(socket, "getfqdn", lambda name: f"{name}.lab.example")


CALLED_BY_OTHERS = [
    ("192.0.2.7:8765", True),
    ("[2001:db8::7]:8765", True),
    ("10.0.0.1", True),
    ("gpu-box:8765", True),
    ("GPU-BOX.lab.example", True),
    ("localhost:8765", True),
    ("tuner.example:443", True),
    ("lab.example", False),
    ("evil.example", False),
    ("gpu-box.evil.example", False),
    ("192.0.2.7.evil.example", False),
    ("[2001:db8::7", True),  # as some write it; no name either
    ("192.0.2", False),
    ("3221225991", False),  # the same address as one number: browsers send it as 192.0.2.7
    ("", False),
]


@pytest.mark.parametrize(("called", "expected"), CALLED_BY_OTHERS)
def test_others_call_it_by_any_address_and_by_the_machines_names(
    make_client: Maker, named: None, called: str, expected: bool
) -> None:
    client = make_client(address="0.0.0.0", allowed_hosts=["tuner.example, other.example"])

    answer = client.get("/api/v1/studies", headers={"Host": called})

    assert answer.status_code == (200 if expected else 403)
    if not expected:
        assert answer.json()["error"] == "host_not_allowed"
        assert called in answer.json()["message"]
        assert "--allowed-host" in answer.json()["hint"]
        assert "0.0.0.0" not in answer.text
        assert "gpu-box" not in answer.json()["hint"]


CALLED = [
    ("127.0.0.1", "localhost, tuner.example, 127.0.0.1, from this machine only"),
    ("::1", "localhost, tuner.example, ::1, from this machine only"),
    ("127.0.0.2", "tuner.example, 127.0.0.2, from this machine only"),
    (
        "0.0.0.0",
        "any of its IPv4 addresses, and to gpu-box, gpu-box.lab.example, localhost, tuner.example "
        "where that leads to one",
    ),
    (
        "::",
        "any of its IPv6 addresses, none of its IPv4 ones, and to gpu-box, gpu-box.lab.example, "
        "localhost, tuner.example where that leads to one",
    ),
    (
        "192.0.2.2",
        "192.0.2.2, and to gpu-box, gpu-box.lab.example, tuner.example where that leads there",
    ),
    (
        "fd00::2",
        "fd00::2, and to gpu-box, gpu-box.lab.example, tuner.example where that leads there",
    ),
]


@pytest.mark.parametrize(("address", "called"), CALLED)
def test_what_is_said_is_true_of_the_address(named: None, address: str, called: str) -> None:
    assert Access(TOKEN, address, ["tuner.example"]).called == called


def test_a_refusal_on_another_loopback_address_names_that(make_client: Maker) -> None:
    client = make_client(address="127.0.0.2")
    answer = client.get("/healthz", headers={"Host": "evil.example"})
    assert answer.json()["hint"].startswith("call it 127.0.0.2;")
    assert client.get("/healthz", headers={"Host": "127.0.0.2:8765"}).status_code == 200


def test_on_loopback_no_other_address_is_answered(reader: TestClient, named: None) -> None:
    for called in ("192.0.2.7:8765", "gpu-box", "gpu-box.lab.example", "[2001:db8::7]"):
        assert reader.get("/healthz", headers={"Host": called}).status_code == 403


def test_a_name_server_that_is_silent_holds_nothing_up(
    make_client: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_LOOK_UP_S", 0.05)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu.lab.example")
    monkeypatch.setattr(socket, "getfqdn", lambda _name: time.sleep(2.0))

    begun = time.monotonic()
    client = make_client(address="::", headers={"Host": "gpu"})

    assert time.monotonic() - begun < 1.5
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("name", ["http://gpu.example", "*", "gpu example", "gpu/x", "", "a,,b"])
def test_a_further_name_is_a_name(settings: Settings, name: str) -> None:
    with pytest.raises(UsageError, match="no host name"):
        create_app(settings, token=TOKEN, allowed_hosts=[name])


def test_a_laptops_browser_logs_in_and_writes(make_client: Maker, named: None) -> None:
    for called in ("192.0.2.7:8765", "gpu-box.lab.example:8765"):
        client = make_client(
            address="0.0.0.0", headers={"Host": called, "Origin": f"http://{called}"}
        )
        answer = client.post("/login", data={"token": TOKEN})
        assert answer.status_code == 303
        assert "Secure" not in answer.headers["set-cookie"], "it would not come back by HTTP"
        session = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        assert client.post("/jobs/1/pause", headers=session).status_code == 303
        foreign = {**session, "Origin": "http://192.0.2.8:8765"}
        assert client.post("/jobs/1/resume", headers=foreign).status_code == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("gpu.example", False),
        ("localhost.evil.example", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8765", "[::1]:8765", "localhost."]
)
def test_names_of_this_machine_are_known(reader: TestClient, host: str) -> None:
    assert reader.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_session_is_a_cookie_that_is_not_the_token(make_client: Maker) -> None:
    client = make_client(headers={})

    wrong = client.post("/login", data={"token": TOKEN[:-1]})
    assert (wrong.status_code, wrong.headers["location"]) == (303, "/login?failed=1")
    assert "set-cookie" not in wrong.headers
    foreign_login = client.post("/login", data={"token": TOKEN}, headers={"Origin": "http://e.x"})
    assert foreign_login.status_code == 403
    assert not client.cookies
    right = client.post("/login", data={"token": TOKEN})

    cookie = right.headers["set-cookie"]
    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    own = {"Origin": "http://127.0.0.1:8765"}
    assert client.post("/api/v1/studies", json=LAUNCH, headers=own).status_code == 202
    foreign = {"Origin": "http://127.0.0.1:1"}
    assert client.post("/api/v1/studies", json=LAUNCH, headers=foreign).status_code == 403
    client.post("/logout")
    assert client.post("/api/v1/studies", json=LAUNCH, headers=own).status_code == 401


def test_a_session_ends_and_can_not_be_made_up() -> None:
    access = Access(TOKEN, "127.0.0.1")
    session = access.new_session(now_s=1000.0)
    end, nonce, signature = session.split(".")

    assert access.is_session(session, now_s=1000.0 + security.SESSION_S - 1)
    assert not access.is_session(session, now_s=1000.0 + security.SESSION_S)
    assert not Access(TOKEN + "2", "127.0.0.1").is_session(session, now_s=1000.0)
    later = f"{int(end) + 10**6}.{nonce}.{signature}"
    for made_up in (later, "", ".", "..", "x.y.z", f"{end}.{nonce}", f"é.{nonce}.ü"):
        assert not access.is_session(made_up, now_s=1000.0)
    assert access.is_session(access.new_session(), now_s=time.time())


BODIES: list[tuple[bytes, dict[str, str], int]] = [
    (b"", {"Content-Type": "application/json"}, 400),
    (b"[", {"Content-Type": "application/json"}, 400),
    (b"[]", {"Content-Type": "application/json"}, 400),
    (b"null", {"Content-Type": "application/json"}, 400),
    (b"{}", {"Content-Type": "application/json"}, 400),
    (b'{"study": NaN}', {"Content-Type": "application/json"}, 400),
    (b'{"study": 1}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted", "source": "int x;"}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted", "operators": "/tmp"}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted", "shapes": []}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted", "shapes": ["x"]}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted", "budget": "-1"}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted", "device": "/dev/sda"}', {"Content-Type": "application/json"}, 400),
    (b"[" * 60_000, {"Content-Type": "application/json"}, 400),
    (b"\xff\xfe{}", {"Content-Type": "application/json"}, 400),
    (b'{"study": "\\ud800"}', {"Content-Type": "application/json"}, 400),
    (b'{"study": "planted"}', {"Content-Type": "text/plain"}, 415),
    (b'{"study": "planted"}', {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    (b'{"study": "planted"}', {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    (b'{"study": "planted"}', {}, 415),
    (b"\x1f\x8b", {"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
    (b" " * (MAX_BODY_BYTES + 1), {"Content-Type": "application/json"}, 413),
]


@pytest.mark.parametrize(("body", "headers", "status"), BODIES)
def test_a_body_that_is_not_as_described_stores_nothing(
    reader: TestClient, unchanged: None, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = reader.post("/api/v1/studies", content=body, headers=headers)

    assert answer.status_code == status, answer.text
    assert answer.json()["schema"] == "tuner.error/1"


def test_a_body_of_unknown_length_is_cut_off(reader: TestClient, unchanged: None) -> None:
    sent: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b" " * 4096

    headers = {"Content-Type": "application/json"}
    answer = reader.post("/api/v1/studies", content=chunks(), headers=headers)

    assert answer.status_code == 413


def test_a_form_with_a_field_twice_starts_nothing(client: TestClient) -> None:
    answer = client.post("/studies", content="study=planted&study=other", headers=FORM)

    assert answer.status_code == 400
    assert len(client.get("/api/v1/jobs").json()["items"]) == 3


def test_an_action_takes_no_fields(client: TestClient) -> None:
    assert client.post("/api/v1/jobs/1/pause", json={"force": True}).status_code == 400
    assert client.post("/api/v1/jobs/1/pause", json={}).status_code == 200


PATHS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "studies/../../canary",
    "planted.toml",
    "planted\x00.toml",
    "C:\\windows\\win.ini",
    "http://169.254.169.254/latest/meta-data",
    "gopher://127.0.0.1:1/",
]


@pytest.mark.parametrize("name", PATHS)
def test_names_lead_to_no_file_and_no_address(
    reader: TestClient, unchanged: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise AssertionError("the service called out")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("studies", {"study": name}),
        ("studies", {"study": "planted", "device": name[:20]}),
        ("studies", {"study": "planted", "shapes": [name]}),
        ("reproductions", {"record": name}),
    ]

    answers = [reader.post(f"/api/v1/{path}", json=body) for path, body in bodies]
    answers += [
        reader.get(path.replace("NAME", name.replace("\x00", "%00")))
        for path in (
            "/api/v1/studies/NAME",
            "/api/v1/studies/NAME/report.html",
            "/api/v1/evidence/NAME",
            "/api/v1/exports/trials.csv?study=NAME",
            "/api/v1/compare?a=NAME&b=NAME",
            "/api/v1/best?operator=NAME&shape=6x40",
            "/static/NAME",
            "/NAME",
        )
    ]

    for answer in answers:
        assert answer.status_code in (400, 404), answer.text
        assert "root:" not in answer.text


def test_too_many_writes_wait(make_client: Maker) -> None:
    client = make_client(writes=Rate(burst=3, per_s=0.5), headers={})

    statuses = [client.post("/api/v1/jobs/1/pause").status_code for _ in range(5)]
    answer = client.post("/api/v1/jobs/1/pause", headers=BEARER)

    assert statuses == [401, 401, 401, 429, 429]
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 2
    assert client.get("/api/v1/jobs/1").status_code == 200


PAGE = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "status", "said"),
    [
        ("GET", "/studies", {"Host": "evil.example"}, None, 403, "is not known as"),
        ("GET", "/studies", {"Host": "[evil"}, None, 403, "is not known as"),
        ("POST", "/studies", {"Origin": "http://evil.example"}, b"", 403, "another site"),
        ("POST", "/studies", {}, b"x" * 70_000, 413, "a body has at most"),
    ],
)
def test_a_browser_gets_a_page_of_what_is_refused_before_any_handler(
    client: TestClient,
    method: str,
    path: str,
    headers: dict[str, str],
    content: bytes | None,
    status: int,
    said: str,
) -> None:
    answer = client.request(method, path, headers={**PAGE, **headers}, content=content)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert said in answer.text
    asked = client.request(method, path, headers=headers, content=content)
    assert (asked.status_code, asked.json()["schema"]) == (status, "tuner.error/1")
    of_api = client.request(method, f"/api/v1{path}", headers={**PAGE, **headers}, content=content)
    assert (of_api.status_code, of_api.json()["schema"]) == (status, "tuner.error/1")


def test_a_browser_that_writes_too_often_gets_a_page(make_client: Maker) -> None:
    client = make_client(writes=Rate(burst=1, per_s=0.5))
    client.post("/jobs/1/pause", headers=PAGE)
    answer = client.post("/jobs/1/pause", headers=PAGE)
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)
    assert "<h1>too many writes from this address</h1>" in answer.text


def test_the_rate_is_counted_for_each_client() -> None:
    now = [0.0]
    limit = RateLimit(Rate(burst=2, per_s=1.0), clock=lambda: now[0])

    assert [limit.wait_s("a") for _ in range(3)] == [0.0, 0.0, 1.0]
    assert limit.wait_s("b") == 0.0
    now[0] = 1.0
    assert [limit.wait_s("a") for _ in range(2)] == [0.0, 1.0]
    now[0] = 100.0
    assert [limit.wait_s("a") for _ in range(3)] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/api/v1/studies",
        "/api/v1/studies.csv",
        "/api/v1/none",
        "/login",
        "/static/none",
    ],
)
def test_every_answer_has_the_headers(reader: TestClient, path: str) -> None:
    headers = reader.get(path).headers

    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert "server" not in headers


def test_a_page_is_isolated_where_the_browser_would_heed_it(reader: TestClient) -> None:
    name = "cross-origin-opener-policy"
    assert reader.get("/", headers={"Sec-Fetch-Site": "none"}).headers[name] == "same-origin"
    assert name not in reader.get("/").headers  # as from a browser elsewhere, without TLS


def test_a_bug_shows_no_trace_to_the_client(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_more: Any) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(api, "page_studies", broken)
    answer = client.get("/api/v1/studies")

    assert answer.status_code == 500
    assert answer.json()["error"] == "internal_error"
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_log_names_no_token_and_has_one_line_a_request(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="tuner.service"):
        client.get(f"/api/v1/studies?token={TOKEN}")
        client.get("/api/v1/studies/x%0aGET%20/forged%20200")

    records = [each for each in caplog.records if each.name == "tuner.service.access"]
    lines = [each.getMessage() for each in records]
    assert len(lines) == 2
    assert lines[0].startswith("GET /api/v1/studies 400 ")
    assert not any(TOKEN in line or "\n" in line for line in lines)
