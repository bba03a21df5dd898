"""HEAD is answered as GET is, without a body and without what would make one."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tuner import api

HEADS = [
    "/",
    "/studies/1",
    "/lookup?operator=planted&shape=6x40&target=arch:x86_64",
    "/login",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/static/pages.css",
    "/static/plotly.min.js",
    "/favicon.ico",
    "/api/v1/studies",
    "/api/v1/studies.csv",
    "/api/v1/studies/planted/trials.csv",
    "/api/v1/exports/samples.csv",
    "/api/v1/best?operator=planted&shape=6x40",
    "/api/v1/studies/planted/report.html",
    "/api/v1/jobs/3/events",
    "/api/v1/studies/none",
    "/api/v1/exports/trials.csv?study=none",
    "/api/v1/studies?colour=red",
    "/studies/999999",
    "/nothing",
]


@pytest.mark.parametrize("path", HEADS)
def test_head_is_get_without_the_body(reader: TestClient, path: str) -> None:
    get = reader.get(path)
    head = reader.head(path)

    assert head.status_code == get.status_code
    assert head.content == b""
    changing = {"content-length"} if path in ("/metrics", "/") else set()
    for name in {*get.headers, *head.headers} - changing:
        assert head.headers.get(name) == get.headers.get(name), name


def test_head_of_an_export_reads_no_rows_and_lets_go_of_the_database(
    reader: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    left: list[bool] = []
    source = api.export_source

    @contextmanager
    def watched(*arguments: Any) -> Iterator[Any]:
        try:
            with source(*arguments) as (rows, columns):
                yield (read.append(row) or row for row in rows), columns
        finally:
            left.append(True)

    monkeypatch.setattr(api, "export_source", watched)
    assert reader.head("/api/v1/exports/trials.csv").status_code == 200
    assert (read, left) == ([], [True])
    assert reader.get("/api/v1/exports/trials.csv").content
    assert read
    assert left == [True, True]


def test_head_of_events_counts_as_no_open_stream(make_client: Callable[..., TestClient]) -> None:
    client = make_client()
    streams = client.app.state.service.streams  # type: ignore[attr-defined]
    for _ in range(streams.limit + 1):
        answer = client.head("/api/v1/events")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")


def test_an_export_is_named_after_its_study(reader: TestClient) -> None:
    for query, name in (("", "best.csv"), ("?study=planted", "best-planted.csv")):
        headers = reader.head(f"/api/v1/exports/best.csv{query}").headers
        assert headers["content-disposition"] == f'attachment; filename="{name}"'


@pytest.mark.parametrize("wanted", ["bytes=9-1", "bytes=99999999-", "lines=1-2", "bytes=0-3"])
def test_a_range_gets_the_whole(reader: TestClient, wanted: str) -> None:
    for path in ("/static/pages.css", "/static/plotly.min.js"):
        answer = reader.get(path, headers={"Range": wanted})
        assert answer.status_code == 200
        assert answer.headers["accept-ranges"] == "none"
        assert answer.content == reader.get(path).content
