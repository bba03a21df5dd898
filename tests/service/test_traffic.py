"""When the service is quiet."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner.service.gate import Gate
from tuner.service.limits import Rate
from tuner.service.limits import RateLimit
from tuner.service.metrics import Metrics
from tuner.service.pages.rendering import error_page
from tuner.service.security import Access
from tuner.service.traffic import BESIDE_LONG
from tuner.service.traffic import BESIDE_SHORT
from tuner.service.traffic import PROBES
from tuner.service.traffic import Traffic
from tuner.settings import Settings


def test_those_who_are_served_leave_a_share() -> None:
    now_s = 100.0
    traffic = Traffic(lambda: now_s)
    assert traffic.free_share() == 1.0  # nobody has come yet
    with traffic.request("/api/v1/best"):
        assert traffic.free_share() == BESIDE_SHORT
        now_s += 1.0
        with traffic.request("/api/v1/best"):
            assert traffic.free_share() == BESIDE_LONG
        assert traffic.free_share() == BESIDE_LONG
    assert traffic.free_share() == BESIDE_SHORT  # the next one may come at once
    now_s += 1.0
    assert traffic.free_share() == 1.0


@pytest.mark.parametrize("path", sorted(PROBES))
def test_who_looks_how_the_service_is_takes_no_time_from_others(path: str) -> None:
    traffic = Traffic()
    with traffic.request(path):
        assert traffic.free_share() == 1.0
    assert traffic.free_share() == 1.0


def test_a_request_that_fails_is_over_too() -> None:
    now_s = 1.0
    traffic = Traffic(lambda: now_s)
    with contextlib.suppress(OSError), traffic.request("/api/v1/best"):
        raise OSError("gone")
    now_s = 2.0
    assert traffic.free_share() == 1.0


@pytest.mark.parametrize(
    ("media_type", "share"),
    [("text/plain", BESIDE_LONG), ("text/event-stream; charset=utf-8", 1.0)],
)
def test_the_gate_counts_what_is_answered_but_for_streams_of_events(
    tmp_path: Path, media_type: str, share: float
) -> None:
    now_s = 0.0
    traffic = Traffic(lambda: now_s)
    seen = []

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal now_s
        headers = [(b"content-type", media_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        now_s += 10.0
        seen.append(traffic.free_share())
        await send({"type": "http.response.body", "body": b"there"})

    metrics = Metrics(Settings(db=str(tmp_path / "results.db")))
    access = Access(None, "127.0.0.1", ())
    gate = Gate(answer, access, RateLimit(Rate()), metrics, traffic, error_page)
    assert TestClient(gate, base_url="http://127.0.0.1").get("/api/v1/best").text == "there"
    assert seen == [share]
    now_s += 10.0
    assert traffic.free_share() == 1.0
