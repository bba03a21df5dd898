"""How far a study is, in one word and in counts, the same wherever it is shown."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from tuner import api
from tuner.cli.studies import STUDY_COLUMNS
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.study import REPRODUCES
from tuner.settings import Settings
from tuner.store import job_running
from tuner.store import job_wishes
from tuner.store import jobs
from tuner.store import open_store
from tuner.store import Store
from tuner.store.job_devices import register_device
from tuner.store.models import StudyRow
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.store.table import table_of
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

Maker = Callable[..., TestClient]
REQUEST = {"study": "left", "shapes": None, "budget": None, "device": None, "fresh": False,
           "name": "left"}  # fmt: skip


@pytest.fixture
def empty(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of an empty database."""
    found = settings.model_copy(update={"db": str(tmp_path / "states.db")})
    api.prepare_database(found)
    return found


@pytest.fixture
def store(empty: Settings) -> Iterator[Store]:
    """The store of that database, with a device of this process."""
    with open_store(empty.db, create=False, writable=True) as opened:
        with opened.transaction() as connection:
            register_device(connection, this_process(), "cpu", "a CPU", make_environment())
        yield opened


def begin_job(store: Store) -> tuple[int, int]:
    """Return a running job, and the study that it opened and its process then let go of."""
    with store.transaction() as connection:
        job, _ = jobs.add_job(connection, JobKind.STUDY, REQUEST, "cpu")
        job_running.claim_next(connection, this_process(), "cpu")
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition("left"), fresh=False).study_id
    with store.transaction() as connection:
        job_running.set_study(connection, job.id, this_process(), study_id)
    recorder.release()
    return job.id, study_id


def end_as(store: Store, job_id: int, state: str) -> None:
    """End a running job, or have it stopped."""
    me = this_process()
    with store.transaction() as connection:
        if state == "paused":
            job_wishes.pause_job(connection, job_id)
            job_running.stop_job(connection, job_id, me)
        elif state == "cancelled":
            job_wishes.cancel_job(connection, job_id)
            job_running.stop_job(connection, job_id, me)
        elif state == "queued":
            job_running.stop_job(connection, job_id, me)
        elif state == "failed":
            job_running.end_job(connection, job_id, me, JobState.FAILED, message="it is gone")
        else:
            result = {"finished": False, "counts": {"ok": 5}}
            job_running.end_job(connection, job_id, me, JobState.FINISHED, result=result)


def shown_states(client: TestClient, settings: Settings, study_id: int) -> set[str]:
    """Return the words that all pages, answers and lists have for the state of a study."""
    (listed,) = client.get("/api/v1/studies").json()["items"]
    (row,) = csv.DictReader(client.get("/api/v1/studies.csv").text.splitlines())
    (printed,) = api.page_studies(settings).items
    states = [listed["state"], row["state"], printed["state"]]
    states.append(client.get(f"/api/v1/studies/{study_id}").json()["state"])
    for path in ("/", "/studies"):
        text = client.get(path).text.partition(f'href="/studies/{study_id}"')[2]
        states += re.findall(r'class="state [^"]*">([^<]*)<', text)[:1]
    page = client.get(f"/studies/{study_id}").text
    states += re.findall(r'class="state [^"]*">([^<]*)<', page)
    states += re.findall(r"left \(id \d+, (\w+)\)", page)
    assert len(states) == 8
    return set(states)


@pytest.mark.parametrize(
    ("ends", "state", "resumes"),
    [
        ("running", "running", False),
        ("queued", "queued", False),
        ("paused", "paused", True),
        ("cancelled", "cancelled", True),
        ("failed", "failed", True),
        ("its budget is spent", "stopped", True),
    ],
)
def test_a_study_whose_job_does_not_run_is_not_shown_as_running(
    make_client: Maker, store: Store, empty: Settings, ends: str, state: str, resumes: bool
) -> None:
    client = make_client(settings=empty)
    job_id, study_id = begin_job(store)
    if ends == "running":
        recorder = store.recorder()
        recorder.open_study(make_definition("left"), fresh=False)
    else:
        end_as(store, job_id, ends)
    assert shown_states(client, empty, study_id) == {state}
    page = client.get(f"/studies/{study_id}").text
    assert page.count(f'action="/studies/{study_id}/resume"') == int(resumes)


def test_what_waits_to_go_on_with_a_study_shows_at_once(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    client = make_client(settings=empty)
    job_id, study_id = begin_job(store)
    end_as(store, job_id, "its budget is spent")
    with store.transaction() as connection:
        again, _ = jobs.add_job(connection, JobKind.STUDY, REQUEST, "cpu")
        jobs.add_job(connection, JobKind.STUDY, {**REQUEST, "fresh": True}, "cpu")
        jobs.add_job(connection, JobKind.STUDY, {**REQUEST, "name": "other"}, "cpu")
    assert shown_states(client, empty, study_id) == {"queued"}
    page = client.get(f"/studies/{study_id}").text
    assert f'id="job-of-study" href="/jobs/{again.id}"' in page
    assert ">Resume<" not in page
    assert client.post(f"/studies/{study_id}/cancel").status_code == 303
    assert api.show_job(again.id, empty)["state"] == "cancelled"


def test_a_command_that_went_on_with_a_study_counts_for_more_than_an_earlier_job(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    client = make_client(settings=empty)
    job_id, study_id = begin_job(store)
    end_as(store, job_id, "failed")
    recorder = store.recorder()
    recorder.open_study(make_definition("left"), fresh=False)
    assert shown_states(client, empty, study_id) == {"running"}
    recorder.release()
    assert shown_states(client, empty, study_id) == {"stopped"}
    recorder.open_study(make_definition("left"), fresh=False)
    recorder.finish_study(study_id)
    assert shown_states(client, empty, study_id) == {"finished"}


def test_an_interrupted_trial_is_no_failure_of_its_config(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    client = make_client(settings=empty)
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition("left"), fresh=False).study_id
    failing = recorder.start_trial(study_id, make_point(32), GEOMETRY)
    recorder.finish_trial(failing, make_failure(), bytes_moved=1)
    for block in (64, 128):
        recorder.start_trial(study_id, make_point(block), GEOMETRY)
    recorder.release()
    recorder.open_study(make_definition("left"), fresh=False)
    again = recorder.start_trial(study_id, make_point(128), GEOMETRY)
    recorder.finish_trial(again, make_report(), bytes_moved=1)

    (row,) = client.get("/api/v1/studies").json()["items"]
    counts = {name: row[name] for name in ("trials", "ok", "failed", "skipped", "interrupted")}
    assert counts == {"trials": 4, "ok": 1, "failed": 1, "skipped": 0, "interrupted": 2}
    assert {"ok", "failed", "skipped", "interrupted"} <= set(STUDY_COLUMNS)
    (workload,) = api.study_view(study_id, empty).workloads
    assert (workload.failed, workload.counts["interrupted"]) == (1, 2)
    page = client.get(f"/studies/{study_id}").text
    assert (
        '<td class="n">1</td><td class="n">1</td><td class="n">0</td><td class="n">2</td>' in page
    )
    # What was tried again since is not listed as not measured.
    unmeasured = {each.outcome: each.count for each in api.study_view(study_id, empty).failures}
    assert unmeasured == {"compile_error": 1, "interrupted": 1}
    groups = {each["name"]: each for each in api.study_figures(study_id, empty)["groups"]}
    (chart,) = groups["chart-slowdown"]["charts"]
    assert chart["figure"]["data"][1]["text"] == []


def test_what_a_killed_process_left_is_not_shown_as_running(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    client = make_client(settings=empty)
    job_id, study_id = begin_job(store)
    end_as(store, job_id, "failed")
    recorder = store.recorder()
    recorder.open_study(make_definition("left"), fresh=False)
    trial_id = recorder.start_trial(study_id, make_point(64), GEOMETRY)
    killed = str(Owner(this_process().host, 4_000_000, "long-gone-1"))
    with store.transaction() as connection:
        connection.execute(update(table_of(StudyRow)).values(owner=killed))

    progress = api.study_progress(study_id, empty)
    assert (progress["counts"], progress["done"]) == ({"interrupted": 1}, 0)
    (row,) = api.page_studies(empty).items
    assert (row["trials"], row["running"], row["interrupted"]) == (1, 0, 1)
    page = client.get(f"/studies/{study_id}").text
    assert '1 <span class="outcome dim">interrupted</span>' in page
    assert ">running<" not in page
    assert client.get(f"/api/v1/studies/{study_id}").json()["counts"] == {"interrupted": 1}
    for path in (f"/api/v1/studies/{study_id}/trials.csv", "/api/v1/exports/trials.csv"):
        (line,) = csv.DictReader(client.get(path).text.splitlines())
        assert (path, line["outcome"]) == (path, "interrupted")
        assert line["message"] == "process 4000000 ended while the trial ran"
    assert "interrupted" in client.get(f"/trials/{trial_id}").text
    metrics = client.get("/metrics").text
    assert re.search(r'tuner_trials_total{[^}]*outcome="interrupted"[^}]*} 1.0', metrics)
    assert 'outcome="running"' not in metrics


def test_a_study_that_found_nothing_is_not_finished_in_green(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    client = make_client(settings=empty)
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition("left"), fresh=False).study_id
    failing = recorder.start_trial(study_id, make_point(32), GEOMETRY)
    recorder.finish_trial(failing, make_failure(), bytes_moved=1)
    recorder.finish_study(study_id)
    assert shown_states(client, empty, study_id) == {"finished"}
    for path in ("/", "/studies", f"/studies/{study_id}"):
        text = client.get(path).text
        assert '<span class="state finished bad">finished</span>' in text, path
        assert "no valid config" in text, path
    assert ">Reproduce<" not in client.get(f"/studies/{study_id}").text


def test_the_page_of_an_older_jobs_result_says_what_it_has(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    with store.transaction() as connection:
        asked = {"record": "study:1", "device": None, "shape": None}
        job, _ = jobs.add_job(connection, JobKind.REPRODUCE, asked, "cpu")
        job_running.claim_next(connection, this_process(), "cpu")
        result = {"verdict": "not_comparable"}
        job_running.end_job(connection, job.id, this_process(), JobState.FINISHED, result=result)
    page = make_client(settings=empty).get(f"/jobs/{job.id}")
    assert page.status_code == 200
    assert "not comparable" in page.text


def test_the_first_page_lists_no_reruns_and_its_results_follow(
    make_client: Maker, store: Store, empty: Settings
) -> None:
    client = make_client(settings=empty)
    job_id, study_id = begin_job(store)
    recorder = store.recorder()
    recorder.open_study(make_definition("left"), fresh=False)
    for run in "123":
        spec = {"name": "left-rerun", REPRODUCES: {"kind": "study", "id": "1", "run": run}}
        rerun = recorder.open_study(make_definition("left-rerun", spec=spec), fresh=False)
        recorder.finish_study(rerun.study_id)

    def polled(text: str) -> str:
        (address,) = re.findall(r'hx-get="(/now[^"]*)"', text)
        return html.unescape(address)

    page = client.get("/").text
    assert f'href="/studies/{study_id}">left<' in page
    assert "left-rerun" not in page.partition('id="recent"')[2]
    assert "left-rerun" in client.get("/studies").text
    same = client.get(polled(page)).text
    assert 'id="results"' not in same
    confirm(recorder, run_trial(recorder, study_id, 64, 10.0), (10.0,), (10.0,))
    recorder.finish_study(study_id)
    end_as(store, job_id, "finished")
    later = client.get(polled(same)).text
    assert 'id="results" aria-labelledby="recent" hx-swap-oob="true"' in later
    assert "Best config of each shape" in later
    assert 'id="results"' not in client.get(polled(later)).text
