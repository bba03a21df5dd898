"""``/api/v1``: what it answers, page by page, and that it is what the command prints."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from filled import FORMULA
from filled import MARKUP
from places import OPERATORS
from sqlalchemy import text

from tuner import api
from tuner.api import paging
from tuner.service import schemas
from tuner.settings import Settings
from tuner.store import changes
from tuner.store import open_store
from tuner.store import queries

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
LISTS = {
    "operators": schemas.OperatorItem,
    "devices": schemas.DeviceItem,
    "environments": schemas.EnvironmentItem,
    "studies": schemas.StudyItem,
    "studies/planted/trials": schemas.TrialItem,
    "evidence": schemas.EvidenceItem,
    "reproductions": schemas.ReproductionItem,
    "jobs": schemas.JobItem,
}


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read(client: TestClient, path: str, status: int = 200, **parameters: Any) -> Any:
    answer = client.get(f"/api/v1/{path}", params=parameters)
    assert answer.status_code == status, answer.text
    return strict_json(answer.text)


def command(settings: Settings, *words: str) -> bytes:
    """Return what a command prints."""
    environment = {
        **os.environ,
        "TUNER_CACHE_DIR": str(settings.cache_dir),
        "TUNER_OPERATORS": json.dumps([str(OPERATORS)]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tuner", *words, "--db", settings.db],
        capture_output=True,
        env=environment,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_the_keys_that_are_described_as_json_and_as_csv(
    reader: TestClient, name: str
) -> None:
    found = read(reader, name)

    assert list(found) == ["schema", "items", "next"]
    last = name.rpartition("/")[2]
    # `tuner devices` lists another thing: what this machine has.
    assert found["schema"] == f"tuner.{'job_devices' if last == 'devices' else last}/1"
    assert found["items"]
    for item in found["items"]:
        assert set(item) == set(schemas.columns(LISTS[name]))
    answer = reader.get(f"/api/v1/{name}.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert set(rows[0]) == set(schemas.columns(LISTS[name]))
    assert len(rows) == len(found["items"])


def test_pages_of_trials_are_the_whole_list_once(reader: TestClient, filled: Settings) -> None:
    seen: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = read(reader, "studies/planted/trials", limit=3, **cursor)
        assert len(page["items"]) <= 3
        seen += page["items"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}

    assert seen == list(api.page_trials("planted", filled, limit=None).items)
    exported = api.history("planted", settings=filled)
    assert [each["trial_id"] for each in seen] == sorted(exported["trial_id"])


@pytest.mark.parametrize(
    ("filters", "holds"),
    [
        ({"outcome": "wrong_result"}, lambda row: row["outcome"] == "wrong_result"),
        ({"implementation": "good"}, lambda row: row["implementation"] == "good"),
        ({"shape": "6x40"}, lambda row: row["shape"] == "6x40"),
        ({"confirmed": "true"}, lambda row: row["confirmed"]),
        ({"confirmed": "false", "shape": "3x13"}, lambda row: not row["confirmed"]),
        ({"outcome": "ok"}, lambda row: row["outcome"] == "ok"),
    ],
)
def test_filters_keep_what_they_say(
    reader: TestClient, filters: dict[str, str], holds: Callable[[Any], bool]
) -> None:
    found = read(reader, "studies/planted/trials", **filters)["items"]
    everything = read(reader, "studies/planted/trials")["items"]

    assert found
    wanted = [each for each in everything if holds(each)]
    if "shape" in filters:
        wanted = [each for each in wanted if each["shape"] == filters["shape"]]
    assert found == wanted
    assert len(found) < len(everything)
    rows = reader.get("/api/v1/studies/planted/trials.csv", params=filters).text.splitlines()
    assert len(rows) == len(found) + 1


def test_a_cursor_is_for_its_own_list_only(reader: TestClient) -> None:
    cursor = read(reader, "studies/planted/trials", limit=1)["next"]

    assert read(reader, "studies/planted/trials", limit=1, cursor=cursor)["items"]
    assert read(reader, "studies/planted/trials", 400, cursor=cursor, outcome="ok")
    assert read(reader, "studies", 400, cursor=cursor)
    scope = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[: paging._SCOPE_DIGITS]
    too_large = base64.urlsafe_b64encode(scope + str(2**31).encode()).decode().rstrip("=")
    for broken in (too_large, "", "x", "é", cursor[:-2], cursor + "AAAA", "A" * 100, "-1", "MTIz"):
        found = read(reader, "studies/planted/trials", 400, cursor=broken)
        assert found["schema"] == "tuner.error/1"


def test_newest_first_lists_are_paged_too(reader: TestClient) -> None:
    for name, key in (("studies", "study_id"), ("jobs", "job_id"), ("environments", None)):
        whole = read(reader, name)["items"]
        first = read(reader, name, limit=1)
        rest = read(reader, name, limit=1000, cursor=first["next"])
        assert first["items"] + rest["items"] == whole
        if key:
            assert [each[key] for each in whole] == sorted(
                (each[key] for each in whole), reverse=True
            )
    jobs = read(reader, "jobs", state="cancelled")["items"]
    assert [each["state"] for each in jobs] == ["cancelled"]


def test_text_that_would_be_a_formula_is_neutralised_and_numbers_are_not(
    reader: TestClient,
) -> None:
    names = [each["study"] for each in read(reader, "studies")["items"]]
    assert FORMULA in names

    rows = list(csv.DictReader(io.StringIO(reader.get("/api/v1/studies.csv").text, newline="")))
    assert f"'{FORMULA}" in [row["study"] for row in rows]
    odd_id = read(reader, "studies")["items"][0]["study_id"]
    answer = reader.get(f"/api/v1/studies/{odd_id}/trials.csv")
    trials = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    as_json = read(reader, f"studies/{odd_id}/trials")["items"]
    assert trials[0]["message"] == MARKUP
    assert float(trials[1]["quick_median_us"]) == as_json[1]["quick_median_us"]
    assert json.loads(trials[1]["config"]) == as_json[1]["config"]


def test_best_is_what_the_command_prints_to_the_byte(reader: TestClient, filled: Settings) -> None:
    answer = reader.get(
        "/api/v1/best", params={"operator": "planted", "shape": "6x40", "device": "cpu"}
    )

    printed = command(
        filled, "best", "planted", "--shape", "6x40", "--device", "cpu", "--format", "json"
    )
    assert answer.content == printed
    in_python = api.best("planted", "6x40", device="cpu", settings=filled)
    assert answer.json() == in_python.as_plain()


def test_an_answer_for_which_others_must_be_asked_is_kept_until_it_may_differ(
    make_client: Callable[..., TestClient], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As with a server: what tells of changes may not be asked in the event loop.
    monkeypatch.setattr(changes, "journal_mode", lambda _connection: "delete")
    looks: list[object] = []
    look = api.BestAnswers.look

    def counted(answers: api.BestAnswers) -> object:
        looks.append(look(answers))
        return looks[-1]

    monkeypatch.setattr(api.BestAnswers, "look", counted)
    client = make_client()
    question = {"operator": "planted", "shape": "6x40", "device": "cpu"}
    first = client.get("/api/v1/best", params=question)
    assert not looks  # nothing was kept yet
    assert client.get("/api/v1/best", params=question).content == first.content
    assert len(looks) == 1

    with (
        open_store(settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        connection.execute(text("UPDATE tuner_study SET name = 'renamed'"))
        # As by a copy of the database that is put back.
        connection.execute(text("DELETE FROM tuner_control"))

    later = client.get("/api/v1/best", params=question).json()
    assert first.json()["best"]["study"] != later["best"]["study"] == "renamed"


def test_best_takes_what_the_command_takes(reader: TestClient) -> None:
    question = {"operator": "planted", "shape": "6x40"}
    architecture = read(reader, "studies/planted")["architecture"]

    assert read(reader, "best", **question, implementation="good")["best"]["language"] == "hip"
    by_architecture = read(reader, "best", **question, arch=architecture)
    assert by_architecture["match"] == "same-arch"
    nearest = read(reader, "best", operator="planted", shape="7x41", match="nearest-shape")
    assert nearest["best"]["workload"]["shape"] == [6, 40]
    assert "never tuned" in read(reader, "best", 404, operator="planted", shape="9x9")["message"]
    for wrong in (
        {"scalar": "epsilon"},
        {"scalar": "epsilon=x"},
        {"device": "gpu"},
        {"device": "/dev/sda"},
        {"dtype": "float33"},
        {"implementation": "none"},
        {"match": "any"},
        {"shape": "0x1"},
        {"colour": "red"},
        {"arch": architecture, "match": "exact"},
    ):
        assert read(reader, "best", 400, **{**question, **wrong})["schema"] == "tuner.error/1"
    assert read(reader, "best", 404, operator="../planted", shape="6x40")


@pytest.mark.parametrize("what", ["trials", "best", "samples"])
def test_an_export_is_that_of_the_command_to_the_byte(
    reader: TestClient, filled: Settings, what: str
) -> None:
    answer = reader.get(f"/api/v1/exports/{what}.csv", params={"study": "planted"})

    assert answer.status_code == 200
    assert answer.content == command(filled, "export", what, "--study", "planted")
    assert read(reader, f"exports/{what}.csv", 404, study="none")["error"] == "not_found"


def test_one_of_everything_is_shown(reader: TestClient, filled: Settings) -> None:
    study = read(reader, "studies/planted")
    assert study["planned"] == study["trials"] == sum(study["counts"].values())
    trial_id = read(reader, "best", operator="planted", shape="6x40")["best"]["trial_id"]
    assert read(reader, f"trials/{trial_id}") == api.show_trial(trial_id, filled)
    evidence = read(reader, "evidence/recorded")
    assert evidence["rows"][0]["median"] == "0.0584"
    assert set(evidence["rows"][0]) == set(schemas.columns(schemas.RecordItem))
    assert "0.0584" in reader.get("/api/v1/evidence/recorded.csv").text
    compared = read(reader, "compare", a="planted", b="planted")
    assert {each["change"] for each in compared["workloads"]} == {"same"}
    assert set(compared["workloads"][0]) == set(schemas.columns(schemas.ComparisonItem))
    assert reader.get("/api/v1/compare.csv?a=planted&b=planted").text.startswith("shape,")
    assert read(reader, "jobs/2")["state"] == "paused"


def test_a_report_is_that_of_the_command_and_runs_no_script_with_our_rights(
    reader: TestClient, filled: Settings
) -> None:
    markdown = reader.get("/api/v1/studies/planted/report.md")
    page = reader.get("/api/v1/studies/planted/report.html")

    assert markdown.text.startswith("# Tuning report: planted")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in page.headers["content-security-policy"]
    assert "allow-same-origin" not in page.headers["content-security-policy"]
    assert read(reader, "studies/planted/report.pdf", 400)
    assert read(reader, "studies/none/report.md", 404)


def test_a_study_is_launched_once_for_a_key(client: TestClient) -> None:
    body = {"study": "planted", "shapes": ["6x40"], "device": "cpu", "budget": "2"}

    first = client.post("/api/v1/studies", json=body, headers={"Idempotency-Key": "one"})
    second = client.post("/api/v1/studies", json=body, headers={"Idempotency-Key": "one"})
    other = client.post(
        "/api/v1/studies", json={"study": "planted"}, headers={"Idempotency-Key": "one"}
    )

    assert first.status_code == second.status_code == 202
    assert first.json() == second.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert first.headers["location"] == f"/api/v1/jobs/{first.json()['job_id']}"
    assert client.get(first.headers["location"]).json() == first.json()
    assert (other.status_code, other.json()["error"]) == (409, "conflict")


def test_a_rerun_is_asked_for_and_refused_where_there_is_no_record(client: TestClient) -> None:
    trial_id = read(client, "best", operator="planted", shape="6x40")["best"]["trial_id"]

    asked = client.post("/api/v1/reproductions", json={"record": str(trial_id), "device": "cpu"})
    missing = client.post("/api/v1/reproductions", json={"record": "999999"})

    assert (asked.status_code, asked.json()["kind"]) == (202, "reproduce")
    assert missing.status_code == 404


def test_jobs_are_paused_resumed_and_cancelled(client: TestClient) -> None:
    def ask(path: str) -> tuple[int, str]:
        answer = client.post(f"/api/v1/{path}")
        return answer.status_code, answer.json().get("state", answer.json().get("error"))

    assert ask("jobs/1/pause") == (200, "paused")
    assert ask("jobs/1/resume") == (200, "queued")
    assert ask("jobs/1/cancel") == (200, "cancelled")
    assert ask("jobs/1/resume") == (409, "conflict")
    assert ask("jobs/99/pause") == (404, "not_found")
    assert ask("jobs/1/delete") == (400, "invalid_request")
    assert ask("studies/none/pause") == (404, "not_found")


def test_a_study_is_paused_and_resumed_by_its_newest_job(client: TestClient) -> None:
    job = client.post("/api/v1/studies", json={"study": "planted"}).json()

    paused = client.post("/api/v1/studies/planted/pause").json()
    resumed = client.post("/api/v1/studies/planted/resume").json()
    client.post("/api/v1/studies/planted/cancel")
    renewed = client.post("/api/v1/studies/planted/resume")

    assert (paused["job_id"], paused["state"]) == (job["job_id"], "paused")
    assert (resumed["job_id"], resumed["state"]) == (job["job_id"], "queued")
    assert renewed.status_code == 202
    assert renewed.json()["job_id"] > job["job_id"]
    odd = read(client, "studies")["items"][0]["study_id"]
    assert client.post(f"/api/v1/studies/{odd}/pause").status_code == 404


def test_events_of_a_job_that_has_ended_are_one_and_then_none(reader: TestClient) -> None:
    answer = reader.get("/api/v1/jobs/3/events")

    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.splitlines()
    event_id = next(line[4:] for line in lines if line.startswith("id: "))
    data = strict_json(next(line[6:] for line in lines if line.startswith("data: ")))
    assert data["job"]["state"] == "cancelled"
    again = reader.get("/api/v1/jobs/3/events", headers={"Last-Event-ID": event_id})
    assert (again.status_code, again.content) == (204, b"")
    assert reader.get("/api/v1/jobs/99/events").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/studies/none", 404, "not_found"),
        ("GET", "/api/v1/trials/0", 400, "invalid_request"),
        ("GET", "/api/v1/trials/x", 400, "invalid_request"),
        ("GET", "/api/v1/trials/99999999999999999999", 400, "invalid_request"),
        ("GET", "/api/v1/studies?limit=0", 400, "invalid_request"),
        ("GET", "/api/v1/studies?colour=red", 400, "invalid_request"),
        ("GET", "/healthz?x", 400, "invalid_request"),
        ("PUT", "/api/v1/studies", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/jobs/1", 405, "method_not_allowed"),
    ],
)
def test_errors_have_one_shape(
    reader: TestClient, method: str, path: str, status: int, error: str
) -> None:
    answer = reader.request(method, path)

    assert answer.status_code == status
    fields = strict_json(answer.text)
    assert list(fields) == ["schema", "error", "message", "hint", "status"]
    assert (fields["schema"], fields["error"], fields["status"]) == ("tuner.error/1", error, status)
    if status == 405:
        allowed = answer.headers["allow"].split(", ")
        assert allowed == ["GET", "HEAD", *(["POST"] if path.endswith("studies") else [])]


def test_ready_says_why_not(
    make_client: Callable[..., TestClient], settings: Settings, tmp_path: Path
) -> None:
    old = tmp_path / "old.db"
    shutil.copy(GOLDEN / "revision_0003.sqlite3", old)
    missing = settings.model_copy(update={"db": str(tmp_path / "none.db")})

    assert make_client().get("/readyz").status_code == 200
    answer = make_client(settings=missing).get("/readyz")
    assert (answer.status_code, answer.json()["error"]) == (503, "not_ready")
    assert not (tmp_path / "none.db").exists()
    outdated = make_client(settings=settings.model_copy(update={"db": str(old)}))
    assert "tuner db upgrade" in outdated.get("/readyz").json()["hint"]
    assert outdated.get("/api/v1/studies").status_code == 503
    assert outdated.get("/healthz").status_code == 200
    assert "tuner_database_up 0.0" in outdated.get("/metrics").text


def test_it_is_not_ready_while_the_first_answers_are_made(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.AnswersAhead, "is_beginning", True)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["error"]) == (503, "not_ready")
    assert client.get("/healthz").status_code == 200
    assert client.get("/api/v1/studies").status_code == 200


def test_metrics_count_trials_jobs_and_requests(client: TestClient, settings: Settings) -> None:
    read(client, "best", operator="planted", shape="6x40")
    client.get("/api/v1/studies/planted")

    text = client.get("/metrics").text

    with open_store(settings.db, create=False, writable=False) as store, store.session() as session:
        found = queries.list_studies(session)
    wrong = sum(each.counts.get("wrong_result", 0) for each in found)
    assert wrong
    assert f'outcome="wrong_result"}} {float(wrong)}' in text
    assert 'tuner_trial_stage_seconds_total{device="cpu",stage="measure"}' in text
    assert 'tuner_queue_depth{device="cpu"} 1.0' in text
    assert "tuner_best_lookup_seconds_count 1.0" in text
    assert "tuner_best_answers_kept 1.0" in text
    assert "tuner_best_answers_waiting 0.0" in text
    assert 'route="/api/v1/studies/{study}",status="200"} 1.0' in text
    assert "planted" not in text
