"""What pages say of what goes on: studies, the queue, errors; and that they hold nobody up."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving import TOKEN
from sqlalchemy import update

from tuner import api
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store.models import StudyRow
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.store.table import table_of
from tuner.testing.store_values import make_definition

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def shown_state(text: str) -> str:
    """Return what the first state on a page is."""
    found = re.search(r'<span class="state [^"]*">([^<]*)</span>', text)
    assert found
    return found.group(1)


@pytest.fixture
def between_trials(settings: Settings) -> Iterator[int]:
    """A study that this process drives, of which no trial runs at the moment."""
    with open_store(settings.db, create=False, writable=True) as store:
        yield store.recorder().open_study(make_definition("driven"), fresh=False).study_id


def test_a_driven_study_is_shown_as_running_between_its_trials(
    client: TestClient, settings: Settings, between_trials: int
) -> None:
    address = f"/studies/{between_trials}"
    page = client.get(address).text
    assert shown_state(page) == "running"
    assert f'hx-get="{address}/progress' in page
    assert f"{address}/resume" not in page
    for listed in ("/studies", "/"):
        row = client.get(listed).text.partition(f'href="{address}"')[2]
        assert shown_state(row) == "running", listed
    items = client.get("/api/v1/studies").json()["items"]
    assert {each["study_id"]: each["is_driven"] for each in items}[between_trials]

    gone = Owner(this_process().host, 4_000_000, "long-gone-1")
    table = table_of(StudyRow)
    with (
        open_store(settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        connection.execute(
            update(table).where(table.c.id == between_trials).values(owner=str(gone))
        )
    page = client.get(address).text
    assert shown_state(page) == "stopped"
    assert f'hx-get="{address}/progress' not in page
    assert f"{address}/resume" in page
    row = client.get("/studies").text.partition(f'href="{address}"')[2]
    assert shown_state(row) == "stopped"


@pytest.mark.parametrize(
    ("path", "verb", "fields"),
    [
        ("/studies", "launch_study", {"study": "planted", "device": "cpu"}),
        ("/reproductions", "launch_reproduce", {"record": "1", "device": "cpu"}),
    ],
)
def test_a_form_that_waits_for_the_database_holds_up_nobody(
    client: TestClient,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    verb: str,
    fields: dict[str, str],
) -> None:
    launch, begun = getattr(api, verb), threading.Event()

    def noted(*words: Any, **options: Any) -> Any:
        begun.set()
        return launch(*words, **options)

    monkeypatch.setattr(api, verb, noted)
    statuses: list[int] = []
    sender = threading.Thread(
        target=lambda: statuses.append(client.post(path, data=fields).status_code)
    )
    with open_store(settings.db, create=False, writable=True) as store, store.transaction():
        sender.start()
        assert begun.wait(10)
        asked_s = time.monotonic()
        healthy = threading.Thread(target=client.get, args=("/healthz",))
        healthy.start()
        healthy.join(2)
        assert not healthy.is_alive(), f"waits since {time.monotonic() - asked_s:g} s"
        assert statuses == []
    sender.join(30)
    healthy.join(30)
    assert statuses == [303]


def test_the_first_page_counts_what_waits_and_shows_the_oldest_first(
    client: TestClient, settings: Settings
) -> None:
    for _ in range(30):
        api.launch_study("planted", device="cpu", settings=settings)
    page = client.get("/now").text
    assert "31 queued, 1 paused" in page
    listed = [int(each) for each in re.findall(r'id="waiting-(\d+)"', page)]
    assert listed == [1, *range(4, 23)]
    assert "12 more" in page


def test_an_unknown_path_is_a_page_to_a_browser_and_json_to_a_program(reader: TestClient) -> None:
    for path, status in (("/nothing", 404), ("/static/none", 404), ("/metrics?x=1", 400)):
        page = reader.get(path, headers=HTML)
        assert page.status_code == status
        assert page.headers["content-type"].startswith("text/html"), path
        assert "back to the first page" in page.text
        assert reader.get(path).json()["schema"] == "tuner.error/1"
    page = reader.request("PUT", "/studies", headers=HTML)
    assert (page.status_code, page.headers["allow"]) == (405, "GET, HEAD, POST")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/api/v1/nothing", "/api/v1/studies/none", "/api/v1/studies?limit=0"):
        assert reader.get(path, headers=HTML).json()["schema"] == "tuner.error/1", path


def test_a_bug_is_a_page_to_a_browser_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_more: Any) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(api, "page_studies", broken)
    page = client.get("/studies", headers=HTML)
    assert page.status_code == 500
    assert page.headers["content-type"].startswith("text/html")
    assert "internal error" in page.text
    assert "secret" not in page.text
    assert page.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(("scheme", "is_secure"), [("http", False), ("https", True)])
def test_the_cookie_is_for_https_alone_where_the_browser_came_by_it(
    make_client: Callable[..., TestClient], scheme: str, is_secure: bool
) -> None:
    origin = {"Origin": f"{scheme}://127.0.0.1:8765"}  # a proxy ends TLS: we are asked by http
    answer = make_client(headers={}).post("/login", data={"token": TOKEN}, headers=origin)
    parts = {part.strip() for part in answer.headers["set-cookie"].split(";")}
    assert ("Secure" in parts) is is_secure
