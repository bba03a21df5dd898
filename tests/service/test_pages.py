"""The pages as they are sent: escaping, forms, what is polled, and figures to the digit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from filled import MARKUP

from tuner import api
from tuner.service.pages import rendering
from tuner.service.pages.snippets import hip_snippet
from tuner.service.pages.snippets import triton_snippet
from tuner.settings import Settings
from tuner.store import open_store
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point

Maker = Callable[..., TestClient]
PATHS = (
    "/",
    "/now",
    "/studies",
    "/studies/1",
    "/studies/1/progress",
    "/studies/1/results",
    "/studies/1/trials",
    "/studies/1/trials?outcome=wrong_result&implementation=wrong&shape=6x40",
    "/studies/2",
    "/studies/2/trials",
    "/trials/1",
    "/lookup",
    "/lookup?operator=planted&shape=6x40&target=arch:x86_64",
    "/compare",
    "/compare?a=1&b=1",
    "/evidence",
    "/evidence/recorded",
    "/jobs",
    "/jobs/rows",
    "/jobs/1",
    "/jobs/1/progress",
    "/login",
)
EMPTY_PATHS = ("/", "/studies", "/lookup", "/compare", "/evidence", "/jobs", "/login")


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def odd(settings: Settings) -> int:
    """A study whose every text is markup, in the copy of the database."""
    with open_store(settings.db, create=False, writable=True) as store:
        recorder = store.recorder()
        definition = make_definition(MARKUP, spec={"description": MARKUP})
        study_id = recorder.open_study(definition, fresh=False).study_id
        trial_id = recorder.start_trial(study_id, make_point(), GEOMETRY)
        recorder.finish_trial(trial_id, make_failure(message=MARKUP), bytes_moved=1)
    return study_id


@pytest.mark.parametrize("path", PATHS)
def test_a_page_has_no_inline_script_and_no_two_equal_ids(reader: TestClient, path: str) -> None:
    answer = reader.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    seen = Seen(answer.text)
    for attributes in seen.all("script"):
        assert (attributes["src"] or "").startswith("/static/")
    for _, attributes in seen.tags:
        assert not [name for name in attributes if name.startswith(("on", "hx-on"))]
    ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = [attributes.get("aria-labelledby") for _, attributes in seen.tags]
    assert {name for name in labelled if name} <= set(ids)


@pytest.mark.parametrize("path", EMPTY_PATHS)
def test_an_empty_database_says_what_to_do_next(
    make_client: Maker, make_settings: Callable[..., Settings], tmp_path: Path, path: str
) -> None:
    settings = make_settings(db=str(tmp_path / "empty.db"))
    api.prepare_database(settings)
    answer = make_client(settings=settings).get(path)
    assert answer.status_code == 200
    expected = {
        "/": "Run a study",
        "/studies": "None yet. Run one above",
        "/lookup": "Nothing was measured yet: run a study",
        "/compare": "Nothing was measured yet: run a study",
        "/evidence": "tuner import FILE",
        "/jobs": "No job was asked for yet",
        "/login": "Token",
    }
    assert expected[path] in Seen(answer.text).text


def test_stored_markup_is_shown_letter_by_letter(odd: int, client: TestClient) -> None:
    for path in (
        "/", "/studies", f"/studies/{odd}", f"/studies/{odd}/trials", "/compare",
        f"/studies/{odd}/results",
    ):  # fmt: skip
        seen = Seen(client.get(path).text)
        assert not seen.all("img"), path
        if path != "/compare":  # lists only what has a valid trial
            assert MARKUP in seen.text, path
    # What was asked for comes back too.
    asked = {"operator": MARKUP, "shape": MARKUP, "target": f"arch:{MARKUP}"}
    seen = Seen(client.get("/lookup", params=asked).text)
    assert not seen.all("img")
    assert MARKUP in {attributes.get("value") for attributes in seen.all("input")}
    refused = client.post("/studies", data={"study": MARKUP, "shapes": MARKUP})
    assert refused.status_code == 404
    assert not Seen(refused.text).all("img")
    # JSON for the charts is not read as a page.
    figures = client.get(f"/studies/{odd}/figures.json")
    assert figures.headers["content-type"] == "application/json"
    assert figures.headers["x-content-type-options"] == "nosniff"


def test_what_is_not_known_is_a_dash(odd: int, client: TestClient) -> None:
    trials = client.get(f"/studies/{odd}/trials").text
    assert trials.count('<td class="n">—</td>') == 3
    trial_id = re.search(r"/trials/(\d+)", trials)
    assert trial_id
    text = Seen(client.get(trial_id.group()).text).text
    assert "Not confirmed, so it makes no claim" in text
    assert "None" not in text.replace("None yet", "").replace("None:", "").replace("None.", "")
    assert rendering._figure(None) == "—"
    assert "nan" in rendering._figure(float("nan"))


def test_a_rounded_figure_holds_the_exact_one() -> None:
    shown = rendering._figure(0.1 + 0.2)
    assert 'value="0.30000000000000004" title="0.30000000000000004">0.3000<' in shown


def test_the_best_is_the_same_everywhere_to_the_digit(reader: TestClient, filled: Settings) -> None:
    asked = {"operator": "planted", "shape": "6x40"}
    answer = api.best(**asked, architecture="x86_64", settings=filled).as_plain()
    exact = json.dumps(answer["best"]["median_us"])
    over_http = reader.get("/api/v1/best", params={**asked, "arch": "x86_64"}).json()
    assert over_http == answer
    lookup = Seen(reader.get("/lookup", params={**asked, "target": "arch:x86_64"}).text)
    figures = [each["value"] for each in lookup.all("data")]
    assert figures[0] == exact
    assert all(each["title"] == each["value"] for each in lookup.all("data"))
    for sample in answer["best"]["process_medians_us"]:
        assert json.dumps(sample) in figures
    study = Seen(reader.get("/studies/1").text)
    assert exact in [each["value"] for each in study.all("data")]
    assert exact in [each["value"] for each in Seen(reader.get("/").text).all("data")]


def test_a_lookup_reaches_down_to_every_raw_sample(reader: TestClient, filled: Settings) -> None:
    asked = {"operator": "planted", "shape": "6x40", "target": "arch:x86_64"}
    text = Seen(reader.get("/lookup", params=asked).text).text
    answer = api.best("planted", "6x40", architecture="x86_64", settings=filled)
    trial_id = answer.best.trial_id
    trial = api.show_trial(trial_id, filled)
    for process in trial["processes"]:
        assert " ".join(map(str, process["report"]["samples_us"])) in text
    assert trial["source"]["source_hash"] in text
    assert next(iter(trial["source"]["files"].values())).splitlines()[0].strip() in text
    for name, value in trial["environment"]["identity"].items():
        assert f"{name.replace('_', ' ')} {' '.join(value.split())}" in text
    assert "comparisons of the whole output passed" in text
    assert "95 % interval of the median" in text
    assert (
        "answer = tuner.best( 'planted', '6x40', dtype='float32', architecture='x86_64' )" in text
    )
    assert "No Triton config is confirmed for this problem there." in text


def test_what_can_be_compared_names_its_toolchain(reader: TestClient, filled: Settings) -> None:
    found = api.page_environments(filled).items
    identity = next(each["identity"] for each in found if "triton" in each["identity"])
    text = Seen(reader.get("/compare").text).text
    for name in ("compiler", "triton"):
        assert f"{name} {identity[name]}" in text


def test_what_was_not_measured_is_not_found_and_nonsense_an_error(reader: TestClient) -> None:
    for target, question in (
        ("arch:x86_64", "arch=x86_64"),
        ("arch:gfx1201", "arch=gfx1201"),
        ("device:cpu", "device=cpu"),
        ("", ""),
    ):
        unknown = reader.get(f"/lookup?operator=planted&shape=7x7&target={target}")
        asked = reader.get(f"/api/v1/best?operator=planted&shape=7x7&{question}")
        assert unknown.status_code == asked.status_code == 404
        assert asked.json()["message"] in Seen(unknown.text).text
        assert "run a study with this shape" in Seen(unknown.text).text
        assert ("Answer from the nearest shape" in unknown.text) == (not target.startswith("arch"))
    # Where nothing was measured at all, no shape is nearest.
    for more in ("operator=nosuch", "operator=planted&dtype=float16", "operator=rmsnorm"):
        nothing = reader.get(f"/lookup?{more}&shape=7x7&target=device:cpu")
        assert nothing.status_code in (400, 404)
        assert "nearest shape that" not in nothing.text
        assert ("run a study" in nothing.text) == (more == "operator=rmsnorm")
    for wrong in ("operator=planted&shape=7", "operator=planted&shape=7x7&target=path:/etc"):
        assert reader.get(f"/lookup?{wrong}").status_code == 400


@pytest.mark.parametrize(
    ("target", "question", "words"),
    [
        ("arch:x86_64", "&arch=x86_64", "any x86_64"),
        ("device:cpu", "&device=cpu", "device cpu, exactly"),
        ("", "", "this machine's device, exactly"),
    ],
)
def test_a_lookup_says_for_what_it_answers_as_the_api_does(
    reader: TestClient, target: str, question: str, words: str
) -> None:
    answer = reader.get(f"/api/v1/best?operator=planted&shape=6x40{question}").json()
    page = reader.get(f"/lookup?operator=planted&shape=6x40&target={target}")
    assert re.findall(r"<option[^>]* selected>([^<]*)</option>", page.text)[-1] == (
        words.replace("'", "&#39;")
    )
    text = Seen(page.text).text
    assert f"for {words} match {answer['match']} " in text
    assert repr(answer["best"]["median_us"]) in page.text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/studies/999", 404, "no study"),
        ("/studies/0", 404, "no page '/studies/0'"),
        ("/studies/99999999999999999999", 404, "no page"),
        ("/studies/none", 404, "no study 'none'"),
        ("/studies/x/trials", 404, "no page"),
        ("/trials/x", 404, "no page '/trials/x'"),
        ("/jobs/x", 404, "no page '/jobs/x'"),
        ("/studies/1/trials?outcome=odd", 400, "no outcome"),
        ("/studies?cursor=odd", 400, "cursor"),
        ("/trials/999", 404, "no trial 999"),
        ("/jobs/999", 404, "no job 999"),
        ("/evidence/none", 404, "none"),
        ("/compare?a=1&b=999", 404, "no study"),
    ],
)
def test_an_error_is_a_page_too(reader: TestClient, path: str, status: int, words: str) -> None:
    answer = reader.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert words in Seen(answer.text).text


def test_a_study_is_found_by_its_name_too(reader: TestClient) -> None:
    stored = reader.get("/studies/planted")
    assert (stored.status_code, stored.headers["location"]) == (303, "/studies/1")
    registered = reader.get("/studies/quickstart")
    address, _, place = registered.headers["location"].partition("#")
    assert (registered.status_code, place) == (303, "launch")
    options = Seen(reader.get(address).text).all("option")
    assert [each["value"] for each in options if "selected" in each] == ["quickstart"]


def test_a_form_starts_a_study_once(client: TestClient, settings: Settings) -> None:
    page = Seen(client.get("/studies").text)
    key = next(each["value"] for each in page.all("input") if each["name"] == "key")
    fields = {"study": "planted", "shapes": "6x40, 3x13", "device": "cpu", "key": key or ""}
    first = client.post("/studies", data=fields)
    assert first.status_code == 303
    again = client.post("/studies", data=fields)
    assert first.headers["location"] == again.headers["location"]
    job = api.show_job(int(first.headers["location"].rpartition("/")[2]), settings)
    assert job["request"]["shapes"] == ["6x40", "3x13"]
    assert job["state"] == "queued"


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"study": "planted", "shapes": "6xx40"}, 400, "6xx40"),
        ({"study": "planted", "budget": "much"}, 400, "much"),
        ({"study": "../../etc/passwd"}, 404, "no registered study"),
        ({"study": "planted", "device": "tpu"}, 400, "tpu"),
        ({}, 404, "no registered study"),
    ],
)
def test_a_wrong_request_is_explained_beside_the_form_and_stores_nothing(
    client: TestClient, settings: Settings, fields: dict[str, str], status: int, words: str
) -> None:
    before = api.page_jobs(settings)
    answer = client.post("/studies", data=fields)
    assert answer.status_code == status
    seen = Seen(answer.text)
    assert words in seen.text
    shown = {each.get("name"): each.get("value") for each in seen.all("input")}
    assert shown["shapes"] == fields.get("shapes", "")
    assert api.page_jobs(settings) == before


def test_a_form_that_is_too_large_is_refused(client: TestClient) -> None:
    assert client.post("/studies", data={"study": "x" * 3000}).status_code == 400
    assert client.post("/studies", data={f"f{n}": "1" for n in range(30)}).status_code == 400


def test_buttons_pause_resume_and_cancel(client: TestClient, settings: Settings) -> None:
    def state() -> str:
        return str(api.show_job(1, settings)["state"])

    for action, expected in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        offered = [each["action"] for each in Seen(client.get("/jobs/1").text).all("form")]
        assert f"/jobs/1/{action}" in offered
        answer = client.post(f"/jobs/1/{action}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/1")
        assert state() == expected
    assert "/jobs/1/resume" not in client.get("/jobs/1").text
    refused = client.post("/jobs/1/pause")
    assert refused.status_code == 409
    assert refused.headers["content-type"].startswith("text/html")
    assert "nothing to pause" in refused.text
    assert client.post("/jobs/1/delete").status_code == 404


def test_a_finished_study_can_be_reproduced(client: TestClient, settings: Settings) -> None:
    answer = client.post("/reproductions", data={"record": "study:1", "device": "cpu"})
    assert answer.status_code == 303
    job = api.show_job(int(answer.headers["location"].rpartition("/")[2]), settings)
    assert (job["kind"], job["request"]["record"]) == ("reproduce", "study:1")
    assert "study:1" in client.get("/studies/1").text


def test_a_reader_without_a_session_is_offered_no_button(make_client: Maker) -> None:
    stranger = make_client(headers={})
    for path in ("/studies", "/studies/1", "/jobs/1", "/trials/1", "/evidence/recorded"):
        seen = Seen(stranger.get(path).text)
        assert "post" not in [each.get("method") for each in seen.all("form")], path
        assert "Log in" in seen.text
    assert stranger.post("/studies", data={"study": "planted"}).status_code == 401
    ended = stranger.post("/jobs/1/pause", headers={"Accept": "text/html"})
    assert (ended.status_code, ended.headers["location"]) == (303, "/login")
    closed = make_client(headers={}, token=None)
    assert "read-only" in closed.get("/").text
    assert "started without a token" in closed.get("/login").text


def test_the_token_opens_a_session_whose_pages_have_buttons(make_client: Maker) -> None:
    client = make_client(headers={})
    assert client.post("/login", data={"token": "wrong"}).headers["location"] == "/login?failed=1"
    assert "That is not the token." in client.get("/login?failed=1").text
    assert client.post("/login", data={"token": "0123456789abcdef-of-the-tests"}).status_code == 303
    assert "Log out" in client.get("/").text
    assert client.post("/studies", data={"study": "planted", "device": "cpu"}).status_code == 303


def polled(text: str) -> str | None:
    return next((each["hx-get"] for _, each in Seen(text).tags if "hx-get" in each), None)


def test_progress_is_polled_while_a_job_waits_or_runs_and_no_longer(
    client: TestClient, settings: Settings
) -> None:
    address = polled(client.get("/jobs/1").text)
    assert address
    same = client.get(address).text
    assert polled(same) == address
    assert 'id="actions"' not in same, "what did not change is not sent"
    api.cancel_job(1, settings)
    ended = client.get(address).text
    assert polled(ended) is None
    assert 'id="actions"' in ended
    assert 'hx-swap-oob="true"' in ended


def test_the_end_of_a_study_brings_its_results(client: TestClient) -> None:
    ended = client.get("/studies/1/progress?seen=running-running-run").text
    assert polled(ended) == "/studies/1/results"
    assert "/studies/1/results" not in client.get("/studies/1").text


def test_the_first_page_asks_more_often_while_something_waits(
    client: TestClient, settings: Settings
) -> None:
    assert 'hx-trigger="every 2s"' in client.get("/").text
    api.cancel_job(1, settings)
    assert api.show_job(2, settings)["state"] == "paused"  # which nobody needs to look at
    assert 'hx-trigger="every 10s"' in client.get("/").text


def test_charts_are_the_figures_of_the_report(reader: TestClient) -> None:
    found = reader.get("/studies/1/figures.json").json()
    names = [each["name"] for each in found["groups"]]
    assert names[0] == "chart-implementations"
    assert "chart-slowdown" in names
    assert {"light", "dark"} == set(found["templates"])
    for group in found["groups"]:
        for chart in group["charts"]:
            assert chart["figure"]["data"]


def test_trials_are_listed_in_parts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.service.pages.studies.TRIALS_OF_A_PAGE", 2)
    found: list[str] = []
    address: str | None = "/studies/1/trials?implementation=good"
    while address:
        page = client.get(address).text
        found += re.findall(r'<td class="n">\s*<a href="/trials/(\d+)"', page)
        following = re.search(r'href="(/studies/1/trials\?[^"]*cursor=[^"]*)"', page)
        address = following.group(1).replace("&amp;", "&") if following else None
    assert len(found) == len(set(found)) == 4


def test_a_study_too_large_for_a_page_says_where_it_can_be_had(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.api.viewing.MAX_TRIALS_OF_A_PAGE", 3)
    answer = client.get("/studies/1")
    assert answer.status_code == 200
    text = Seen(answer.text).text
    assert "too many for one page" in text
    assert "Fastest of each shape" in text
    assert "/api/v1/exports/trials.csv?study=1" in answer.text
    # Its report would be as large, and is neither offered nor made.
    assert "/report." not in answer.text
    for ending in ("html", "md"):
        report = client.get(f"/api/v1/studies/1/report.{ending}")
        assert report.status_code == 400
        assert "too many for one page" in report.json()["message"]
    # Of it, the first page needs the confirmed trials only.
    assert "Best config of each shape" in client.get("/").text


def test_static_files_are_ours_and_plotly_is_kept_long(reader: TestClient) -> None:
    addresses = [each["src"] or "" for each in Seen(reader.get("/studies/1").text).all("script")]
    address = next(each for each in addresses if "plotly" in each)
    assert address == f"/static/plotly.min.js?v={version('plotly')}"
    plotly = reader.get(address)
    assert plotly.headers["cache-control"] == "public, max-age=31536000, immutable"
    for other in ("", "?v=1"):
        found = reader.get(f"/static/plotly.min.js{other}")
        assert found.headers["cache-control"] == "no-cache"
    assert plotly.headers["content-type"].startswith("text/javascript")
    assert len(plotly.content) > 1_000_000
    for name in ("htmx.min.js", "pages.js", "charts.js", "pages.css", "icon.svg"):
        assert reader.get(f"/static/{name}").status_code == 200
    assert reader.get("/static/../app.py").status_code == 404
    htmx = reader.get("/static/htmx.min.js").content
    noted = reader.get("/static/htmx.VERSION.txt").text
    assert hashlib.sha256(htmx).hexdigest() in noted


def launch(**changes: Any) -> api.Launch:
    fields: dict[str, Any] = {
        "trial_id": 7, "implementation": "rows", "language": "triton", "config": {"BLOCK": 64},
        "median_us": 5.3044, "entry": "kernel", "options": ("target=cuda:90:32", "BLOCK=64"),
        "geometry": {"grid": [40, 1, 1], "threads": 64, "shared_bytes": 256},
    }  # fmt: skip
    return api.Launch(**{**fields, **changes})


def test_snippets_launch_the_config() -> None:
    assert triton_snippet(launch()) == (
        "# rows, 5.304 us a launch (trial 7)\n"
        "kernel[(40, 1, 1)](\n    ...,  # its arguments\n    BLOCK=64,\n)"
    )
    options = ("--gpu-architecture=sm_90", "--std=c++17", "--pre-include=x.h", "-DBLOCK=64")
    assert hip_snippet(launch(language="hip", options=options)) == (
        "// rows, 5.304 us a launch (trial 7)\n"
        "// built with --std=c++17 -DBLOCK=64\n"
        "kernel<<<dim3(40, 1, 1), dim3(64), 256>>>(/* its arguments */);"
    )
    assert "kernel[(...,)]" in triton_snippet(launch(geometry=None))
    assert "dim3(...)" in hip_snippet(launch(geometry=None))


@pytest.mark.parametrize(
    ("method", "path", "fields", "said"),
    [
        ("GET", "/jobs?cursor=none", {}, "begin with the first page of the list"),
        ("GET", "/studies/1/trials?cursor=none", {}, "begin with the first page of the list"),
        ("GET", "/trials/999", {}, "the page of a study leads to its trials"),
        ("GET", "/evidence/nosuch", {}, "the page Evidence lists what is stored; whoever runs"),
        ("POST", "/studies", {"study": "planted", "device": "cuda:3"}, "there are cpu; whoever"),
        ("POST", "/studies", {"study": "nosuch"}, "whoever runs the service can add a folder"),
        ("POST", "/reproductions", {"record": "nosuch"}, "no trial, study or evidence &#39;nosuch"),
        ("POST", "/studies/99/pause", {}, "no study &#39;99&#39;"),
    ],
)
def test_errors_speak_of_pages_and_not_of_commands(
    client: TestClient, method: str, path: str, fields: dict[str, str], said: str
) -> None:
    answer = client.request(method, path, data=fields, headers={"Accept": "text/html"})
    assert answer.status_code >= 400
    main = answer.text.partition("<main")[2].partition("</main>")[0]
    problem = main.partition('role="alert"')[2].partition("</div>")[0] or main
    assert said in problem
    assert not re.search(r"`|--[a-z]|folder &#39;", problem)


def test_every_rounded_figure_of_a_study_has_all_its_digits(reader: TestClient) -> None:
    text = reader.get("/studies/1").text
    view = api.study_view(1, reader.app.state.service.settings)  # type: ignore[attr-defined]
    slower = next(each.slower for each in view.workloads if each.slower)
    for value in slower:
        assert f'<data value="{value!r}" title="{value!r}">{value:.3f}</data>' in text
    shown = Seen(text).text
    for row in view.controls.rows:
        cells = dict(zip(view.controls.columns, row, strict=True))
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", cells["run"].text)
        assert cells["run"].text in shown
        for name in ("null kernel µs", "copy µs", "copy GB/s", "sentinel µs", "drift"):
            assert f'<data value="{cells[name].exact}"' in text, name
