"""The pages in headless Chromium: no errors, accessible, and the main flow clicked through."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from filled import STUDY
from places import OPERATORS
from serving import own_addresses
from serving import Serving
from serving import TOKEN

from tuner import api
from tuner.service.addresses import is_loopback
from tuner.service.app import create_app
from tuner.settings import Settings

CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip(f"there is no {CHROMIUM}", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

WAIT_MS = 60_000
PATHS = (
    "/",
    "/studies",
    "/studies/1",
    "/studies/1/trials",
    "/trials/1",
    "/lookup?operator=planted&shape=6x40&target=arch:x86_64",
    "/compare?a=1&b=1",
    "/evidence",
    "/evidence/recorded",
    "/jobs",
    "/jobs/1",
    "/login",
    "/studies/999",
)
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 375, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that must end without an error in its console."""
    context = browser.new_context(viewport=WIDE, accept_downloads=True)
    context.set_default_timeout(WAIT_MS)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on(
        "console",
        lambda said: errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    opened.problems = errors
    yield opened
    context.close()
    assert errors == []


@pytest.fixture(scope="module")
def served(filled: Settings) -> Iterator[str]:
    """Address of a service over the filled database, in this process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(create_app(filled, token=TOKEN), log_level="error", lifespan="off")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=10)


@pytest.fixture(scope="module")
def session(browser: Any, served: str) -> list[Any]:
    """Cookies of who has logged in."""
    context = browser.new_context()
    log_in(context.new_page(), served)
    cookies: list[Any] = context.cookies()
    context.close()
    return cookies


def log_in(page: Any, address: str) -> None:
    page.goto(f"{address}/login")
    page.fill("input[name=token]", TOKEN)
    page.click("main button")
    page.wait_for_url(f"{address}/")


def faults(page: Any) -> list[str]:
    """Return what axe objects to."""
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_accessible_light_and_wide_dark_and_narrow(
    served: str, page: Any, session: list[Any], path: str
) -> None:
    page.context.add_cookies(session)
    page.goto(served + path, wait_until="load")
    if page.locator("[data-figures]").count():
        page.wait_for_selector("[data-shown]")
        page.wait_for_selector(".js-plotly-plot")
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(NARROW)
    assert faults(page) == []
    too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(too_wide) <= 0, "only tables and charts are scrolled sideways"
    if path == "/studies/999":
        page.problems.clear()  # the browser notes the 404


def test_the_keyboard_reaches_the_content_and_shows_where_it_is(served: str, page: Any) -> None:
    page.goto(f"{served}/studies/1")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "document.querySelector('main').contains(document.activeElement)"
    assert page.evaluate(inside)
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"


def test_charts_follow_the_colour_scheme(served: str, page: Any) -> None:
    def ink() -> str:
        layout = "document.querySelector('.js-plotly-plot')._fullLayout"
        return str(page.evaluate(f"{layout}.font.color"))

    page.goto(f"{served}/studies/1")
    page.wait_for_selector(".js-plotly-plot")
    light = ink()
    page.emulate_media(color_scheme="dark")
    end_s = time.monotonic() + 10
    while ink() == light and time.monotonic() < end_s:
        page.wait_for_timeout(50)
    assert ink() != light
    sends = "document.querySelector('.js-plotly-plot')._context"
    assert page.evaluate(f"[{sends}.showSendToCloud, {sends}.plotlyServerURL]") == [False, ""]


def test_a_copied_snippet_is_the_one_shown(served: str, page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{served}/lookup?operator=planted&shape=6x40&target=arch:x86_64")
    page.click("button[data-copy=snippet-1]")
    page.wait_for_selector("text=Copied")
    shown = page.text_content("#snippet-1")
    assert page.evaluate("navigator.clipboard.readText()") == shown


@pytest.fixture
def address_elsewhere(tmp_path: Path, cache_dir: Path) -> Iterator[str]:
    """Address of a service as another machine's browser has it; it outlives the test's page."""
    # Of this machine, but a browser trusts them no more than another machine's.
    addresses = [each for each in own_addresses() if not is_loopback(each)]
    if not addresses:
        pytest.skip("this machine has loopback addresses only")
    words = ("--no-work", "--host", "0.0.0.0")
    with Serving(str(tmp_path / "served.db"), cache_dir, tmp_path, *words) as running:
        yield f"http://{addresses[0]}:{running.client.base_url.port}"


def test_a_browser_elsewhere_logs_in_and_sees_the_pages(address_elsewhere: str, page: Any) -> None:
    log_in(page, address_elsewhere)
    page.goto(f"{address_elsewhere}/studies")
    assert page.is_visible("text=Run a study")


@pytest.fixture
def service(tmp_path: Path, cache_dir: Path) -> Iterator[tuple[str, Settings]]:
    """Address of ``tuner serve`` in a process of its own, taking jobs, and its settings."""
    studies = tmp_path / "studies"
    studies.mkdir()
    (studies / "planted.toml").write_text(STUDY, encoding="utf-8")
    settings = Settings(db=str(tmp_path / "served.db"), cache_dir=cache_dir, operators=(OPERATORS,))
    words = ("--device", "cpu", "--studies", str(studies))
    with Serving(settings.db, cache_dir, tmp_path, *words) as running:
        yield str(running.client.base_url).rstrip("/"), settings
        running.process.terminate()
        assert running.process.wait(30) == 0, running.log


def test_a_study_is_started_watched_and_its_best_looked_up_and_downloaded(
    service: tuple[str, Settings], page: Any
) -> None:
    address, settings = service
    log_in(page, address)
    page.click("text=Run a study")
    page.select_option("select[name=study]", "planted")
    page.click("#launch button.main")
    page.wait_for_url(re.compile(r"/jobs/1$"))
    page.click("#study-of-job")
    # From here on nothing is clicked: the page follows the study to its end by itself.
    page.evaluate("window.stayed = true")
    page.wait_for_selector("#progress .state.finished")
    page.wait_for_selector("#results tbody tr:has-text('6x40')")
    page.wait_for_selector("[data-shown]")
    assert page.evaluate("window.stayed")
    assert "8 of 8" in page.inner_text("#progress")
    assert "wrong result" in page.inner_text("section[aria-labelledby=failures]")
    assert page.is_visible("text=Reproduce")
    best = api.best("planted", "6x40", architecture="x86_64", settings=settings).best
    shown = page.get_attribute("#results tbody tr:has-text('6x40') strong data", "value")
    assert shown == repr(best.median_us)
    with page.expect_download() as download:
        page.click("section[aria-labelledby=files] >> text=best")
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert any(repr(best.median_us) in line for line in lines)
    page.goto(f"{address}/")
    page.fill("input[name=shape]", "6x40")
    page.click("text=Look up")
    assert page.get_attribute("#claim data", "value") == repr(best.median_us)


def test_all_digits_are_shown_by_the_keyboard_alone_also_of_what_comes_in_later(
    served: str, page: Any
) -> None:
    page.goto(f"{served}/studies/1")
    first = page.locator("#results strong data").first
    whole, shown = first.get_attribute("value"), first.inner_text()
    assert whole != shown
    page.focus("#digits")
    page.keyboard.press("Enter")
    assert first.inner_text() == whole
    page.evaluate("window.before = document.querySelector('#results')")
    page.evaluate("htmx.ajax('GET', '/studies/1/results', {target: '#results', swap: 'outerHTML'})")
    page.wait_for_function("!document.contains(window.before)")
    page.wait_for_function(
        "whole => document.querySelector('#results strong data')?.textContent === whole", arg=whole
    )
    page.press("#digits", "Enter")
    assert page.locator("#results strong data").first.inner_text() == shown
    page.goto(f"{served}/login")
    assert page.is_hidden("#digits")


def test_a_caption_stays_in_sight_where_its_table_is_scrolled(served: str, page: Any) -> None:
    page.set_viewport_size(NARROW)
    page.goto(f"{served}/studies")
    caption = page.locator("#stored ~ .wide caption").first
    before = caption.bounding_box()
    scrolled = "each => (each.scrollLeft = 300, each.scrollLeft)"
    assert page.locator("#stored ~ .wide").first.evaluate(scrolled) > 100
    assert caption.bounding_box() == before
    assert before["x"] + before["width"] <= NARROW["width"]


def test_a_narrow_list_of_jobs_shows_their_state_without_scrolling(served: str, page: Any) -> None:
    page.set_viewport_size(NARROW)
    page.goto(f"{served}/jobs")
    for row in page.locator("#jobs-table tbody tr").all():
        shown, whole = row.locator(".came").bounding_box(), row.bounding_box()
        assert shown["x"] + shown["width"] <= NARROW["width"]
        assert whole["height"] < 80
