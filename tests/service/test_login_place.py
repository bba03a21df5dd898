"""Logging in leads back to the page that was asked for, and never to another site."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from serving import TOKEN

Maker = Callable[..., TestClient]
HTML = {"Accept": "text/html"}
PLACES = [
    "/studies/1/trials?outcome=ok&shape=6x40",
    "/lookup?operator=planted&shape=6x40",
    "/evidence/a%20b",
    "/evidence/none",
    "/metrics",
    "/studies?study=planted",
    "/",
]
ELSEWHERE = [
    "",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n//evil.example",
    " //evil.example",
    "https://evil.example/",
    "https:evil.example",
    "javascript:alert(1)",
    "studies",
    "/é",
    "/login",
    "/login?to=/login",
    "/logout",
    "/logout?x=1",
    "/%6Cogout",
    "/jobs/1/pause",
    "/studies/1/resume",
    "/reproductions",
    "/api/v1/jobs/1/pause",
    "/none",
    "/static/pages.css",
    "/" + "x" * 1500,
]


@pytest.mark.parametrize("place", ELSEWHERE)
def test_another_site_is_not_led_to(make_client: Maker, place: str) -> None:
    client = make_client(headers={})

    done = client.post("/login", data={"token": TOKEN, "to": place})
    assert (done.status_code, done.headers["location"]) == (303, "/")
    page = client.get("/login", params={"to": place})
    assert '<input type="hidden" name="to" value="/">' in page.text


@pytest.mark.parametrize("place", PLACES)
def test_who_must_log_in_first_comes_to_the_page_asked_for(make_client: Maker, place: str) -> None:
    client = make_client(address="0.0.0.0", headers={})

    sent = client.get(place, headers=HTML)
    assert sent.status_code == 303
    address = urlsplit(sent.headers["location"])
    assert address.path == "/login"
    to = parse_qs(address.query).get("to", ["/"])[0]
    assert to == place
    wrong = client.post("/login", data={"token": "wrong", "to": to})
    again = parse_qs(urlsplit(wrong.headers["location"]).query)
    assert again.get("to", ["/"])[0] == place
    done = client.post("/login", data={"token": TOKEN, "to": to})
    assert (done.status_code, done.headers["location"]) == (303, place)


def test_a_part_of_a_page_is_a_place(make_client: Maker) -> None:
    done = make_client(headers={}).post("/login", data={"token": TOKEN, "to": "/studies#launch"})
    assert done.headers["location"] == "/studies#launch"


def test_a_reader_who_logs_in_stays_where_he_was(make_client: Maker) -> None:
    client = make_client(headers={})

    page = client.get("/studies/1/trials?outcome=ok").text
    assert 'href="/login?to=%2Fstudies%2F1%2Ftrials%3Foutcome%3Dok"' in page
    # A part of a page leads to the page that it is of.
    current = {"HX-Current-URL": "http://127.0.0.1:8765/jobs/1"}
    part = client.get("/jobs/1/progress", headers=current).text
    assert 'href="/login?to=%2Fjobs%2F1"' in part
    assert 'href="/login?to=%2Fjobs%2F1"' in client.get("/login?to=/jobs/1").text


def test_a_form_whose_session_has_ended_leads_back_to_its_page(make_client: Maker) -> None:
    client = make_client(headers={})

    for referer, to in (
        ("http://127.0.0.1:8765/jobs/1", "/login?to=%2Fjobs%2F1"),
        ("", "/login"),
        ("http://[", "/login"),
    ):
        sent = client.post("/jobs/1/pause", headers={**HTML, "Referer": referer})
        assert (sent.status_code, sent.headers["location"]) == (303, to)
