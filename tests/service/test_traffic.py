"""When the service is quiet."""

from __future__ import annotations

import math
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner.service.gate import Gate
from tuner.service.limits import Rate
from tuner.service.limits import RateLimit
from tuner.service.metrics import Metrics
from tuner.service.security import Access
from tuner.service.traffic import Traffic
from tuner.settings import Settings


def test_it_is_quiet_from_the_end_of_the_last_request() -> None:
    now_s = 100.0
    traffic = Traffic(lambda: now_s)
    assert traffic.quiet_s() == math.inf  # nobody has come yet
    with traffic.request():
        with traffic.request():
            now_s = 110.0
        assert traffic.quiet_s() == 0.0  # the other one, say an export, still runs
        now_s = 120.0
    assert traffic.quiet_s() == 0.0
    now_s = 123.0
    assert traffic.quiet_s() == 3.0


def test_a_request_that_fails_is_over_too() -> None:
    now_s = 1.0
    traffic = Traffic(lambda: now_s)
    try:
        with traffic.request():
            raise OSError("gone")
    except OSError:
        now_s = 2.0
    assert traffic.quiet_s() == 1.0


def test_the_gate_counts_what_it_lets_through(tmp_path: Path) -> None:
    traffic = Traffic()
    seen_s = []

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        seen_s.append(traffic.quiet_s())
        await PlainTextResponse("there")(scope, receive, send)

    metrics = Metrics(Settings(db=str(tmp_path / "results.db")))
    gate = Gate(answer, Access(None, "127.0.0.1", ()), RateLimit(Rate()), metrics, traffic)
    client = TestClient(gate, base_url="http://127.0.0.1")
    assert client.get("/healthz").text == "there"
    assert seen_s == [0.0]
    assert 0.0 < traffic.quiet_s() < math.inf
