"""Nothing of a request is passed over: what is doubled, unknown or no JSON is 400 with a remedy."""

from __future__ import annotations

import html

import pytest
from fastapi.testclient import TestClient

from tuner.service.errors import PageRoute
from tuner.service.pages import PAGE_ROUTERS
from tuner.store import paging as stored

TRIALS = "/api/v1/studies/planted/trials"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/api/v1/best?operator=planted&shape=6x40&shape=3x13", "'shape'"),
        ("/api/v1/best?operator=planted&shape=6x40&scalar=epsilon=1&scalar=epsilon=2", "'epsilon'"),
        ("/api/v1/best?operator=planted&shape=6x40&arch=gfx1201&device=cpu", "'gfx1201'"),
        ("/api/v1/studies?limit=1&limit=1000", "'limit'"),
        ("/api/v1/studies/planted/trials?outcome=ok&outcome=crash", "'outcome'"),
        ("/api/v1/studies/planted/trials?implementation=none", "'none'"),
        ("/api/v1/studies/planted/trials.csv?implementation=none", "'none'"),
        ("/api/v1/studies/planted/trials?shape=1x1", "1x1"),
        ("/api/v1/studies/planted/trials.csv?shape=1x1", "1x1"),
        ("/studies/1/trials?shape=1x1", "1x1"),
        ("/api/v1/exports/trials.csv?study=planted&study=1", "'study'"),
        ("/studies/1/trials?implementation=none", "'none'"),
        ("/lookup?shape=6x40&shape=3x13", "'shape'"),
        ("/lookup?operator=planted&shape=6x40&foo=1", "'foo'"),
        ("/login?x=1", "'x'"),
        ("/?x=1", "'x'"),
        ("/openapi.json?x=1", "'x'"),
        ("/openapi.json?x=1&x=1", "'x'"),
        ("/metrics?x=1", "'x'"),
    ],
)
def test_no_parameter_is_passed_over(reader: TestClient, path: str, names: str) -> None:
    is_page = not path.startswith(("/api", "/openapi", "/metrics"))
    answer = reader.get(path)

    assert answer.status_code == 400
    if is_page:
        assert names in html.unescape(answer.text)
    else:
        fields = answer.json()
        assert fields["schema"] == "tuner.error/1"
        assert names in fields["message"]
        assert fields["hint"]


@pytest.mark.parametrize("key", ["a b", "", "x" * 201, "\x7f"])
def test_a_key_that_is_none_is_said_to_be_none_in_words(reader: TestClient, key: str) -> None:
    headers = {"Idempotency-Key": key}
    answer = reader.post("/api/v1/studies", json={"study": "planted"}, headers=headers)
    text = "header 'idempotency-key': use 1 to 200 visible ASCII characters, without spaces"
    assert (answer.status_code, answer.json()["message"]) == (400, text)


def pages(method: str) -> list[str]:
    """Return the paths of all pages that take a method."""
    routes = [each for router in PAGE_ROUTERS for each in router.routes]
    found = [each for each in routes if isinstance(each, PageRoute) and method in each.methods]
    assert len(found) > 5
    names = {"{action}": "pause", "{job_id}": "1", "{name}": "planted", "{trial_id}": "1"}
    paths = [each.path.replace("{study:int}", "1").replace("{study}", "1") for each in found]
    for name, value in names.items():
        paths = [path.replace(name, value) for path in paths]
    assert "{" not in "".join(paths)
    return paths


def test_no_page_passes_over_a_parameter(reader: TestClient) -> None:
    asked = [(reader.get, path) for path in pages("GET")]
    asked += [(reader.post, path) for path in pages("POST")]
    for send, path in asked:
        answer = send(f"{path}?unheard=1", headers={"Accept": "text/html"})
        text = html.unescape(answer.text)
        assert answer.status_code == 400, path
        assert "unknown parameter 'unheard'" in text, path
        assert "known here: " in text or "takes none" in text


def test_no_form_passes_over_a_field(reader: TestClient) -> None:
    for path in pages("POST"):
        for content in ("unheard=1", "unheard=", '{"unheard": 1}'):
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = reader.post(path, content=content, headers=form)
            assert answer.status_code == 400, path
            assert "unknown field" in answer.text, path


def test_files_of_the_pages_take_any_version(reader: TestClient) -> None:
    for name in ("pages.css", "plotly.min.js"):
        assert reader.get(f"/static/{name}?v=0&x=1").status_code == 200


def test_an_implementation_that_has_no_trial_yet_is_one(
    reader: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = reader.get(TRIALS, params={"implementation": "goood"}).json()
    assert refused["hint"] == "one of good, second-good, wrong"
    monkeypatch.setattr(stored, "has_implementation", lambda *_: False)
    monkeypatch.setattr(stored, "implementation_names", lambda *_: [])
    found = reader.get(TRIALS, params={"implementation": "good", "outcome": "timeout"}).json()
    assert found["items"] == []


def test_a_shape_that_has_no_trial_yet_is_one(
    reader: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = reader.get(TRIALS, params={"shape": "40x6"}).json()
    assert refused["hint"] == "one of 6x40, 3x13"
    monkeypatch.setattr(stored, "shape_names", lambda *_: [])
    found = reader.get(TRIALS, params={"shape": "03x13", "outcome": "timeout"}).json()
    assert found["items"] == []


BODIES_NOT_JSON = [
    (b"not json", "not JSON"),
    (b'{"study": "planted",}', "column 21"),
    (b'{"study": "planted"}\xff', "UTF-8"),
    (b'{"study": "planted", "budget": NaN}', "NaN"),
    (b"[" * 60_000, "nested"),
    (b'{"study": "planted", "study": "other"}', "'study' twice"),
    (b'{"study": "planted", "extra": {"a": 1, "a": 1}}', "'a' twice"),
]


@pytest.mark.parametrize(("body", "words"), BODIES_NOT_JSON)
def test_a_body_that_is_no_json_is_said_to_be_none(
    reader: TestClient, body: bytes, words: str
) -> None:
    for path in ("studies", "reproductions", "jobs/1/pause", "studies/planted/cancel"):
        headers = {"Content-Type": "application/json"}
        answer = reader.post(f"/api/v1/{path}", content=body, headers=headers)
        fields = answer.json()
        assert (answer.status_code, fields["error"]) == (400, "invalid_request")
        assert words in fields["message"]
        assert fields["hint"]
