"""Resuming a rerun, by its job and by its study: it goes on, or is told why it can't."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from working import Workplace

from tuner import api
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.study import REPRODUCES
from tuner.settings import Settings
from tuner.store import job_running
from tuner.store import jobs
from tuner.store import open_store
from tuner.store import Store
from tuner.store.job_devices import register_device
from tuner.store.owner import this_process
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment

NAME = "trial-1-rerun"
REQUEST = {"record": "1", "device": None, "shape": None}
Maker = Callable[..., TestClient]


def open_rerun(store: Store, run: str = "0" * 16) -> int:
    """Return a rerun's study that its process opened and then let go of."""
    recorder = store.recorder()
    spec = {"name": NAME, REPRODUCES: {"kind": "trial", "id": "1", "run": run}}
    study_id = recorder.open_study(make_definition(NAME, spec=spec), fresh=True).study_id
    recorder.release()
    return study_id


def end_rerun(settings: Settings, state: JobState) -> tuple[int, int]:
    """Return a job that reproduced a record and ended so, and the study that it opened."""
    me = this_process()
    with open_store(settings.db, create=False, writable=True) as store:
        study_id = open_rerun(store)
        with store.transaction() as connection:
            register_device(connection, me, "cuda:0", "a GPU", make_environment())
            job, _ = jobs.add_job(connection, JobKind.REPRODUCE, REQUEST, "cuda:0")
            job_running.claim_next(connection, me, "cuda:0")
            job_running.set_study(connection, job.id, me, study_id)
            job_running.end_job(connection, job.id, me, state, message="it is gone")
    return job.id, study_id


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED])
@pytest.mark.parametrize("by", ["page", "id", "name"])
def test_a_rerun_that_was_ended_is_resumed_by_a_new_job_that_knows_its_study(
    make_client: Maker, settings: Settings, state: JobState, by: str
) -> None:
    client = make_client()
    job_id, study_id = end_rerun(settings, state)
    page = client.get(f"/studies/{study_id}").text
    assert page.count(f'action="/studies/{study_id}/resume"') == 1

    if by == "page":
        assert client.post(f"/studies/{study_id}/resume").status_code == 303
    else:
        name = NAME if by == "name" else study_id
        answer = client.post(f"/api/v1/studies/{name}/resume")
        assert (answer.status_code, answer.json()["study_id"]) == (202, study_id)

    new = api.newest_job(str(study_id), settings)
    assert new is not None
    assert new["job_id"] > job_id
    assert (new["kind"], new["state"], new["study_id"]) == ("reproduce", "queued", study_id)
    assert (new["request"], new["device_id"]) == (REQUEST, "cuda:0")
    # What is reproduced and the study that does it are told apart.
    assert new["subject"] == "trial 1"
    for path in ("/jobs", f"/jobs/{new['job_id']}", "/"):
        assert "reproduce trial 1" in re.sub(r"\s+", " ", client.get(path).text), path
    assert f'reproduce trial 1 as <a id="study-of-{new["job_id"]}"' in re.sub(
        r"\s+", " ", client.get("/jobs").text
    )
    (listed,) = (
        row
        for row in csv.DictReader(client.get("/api/v1/jobs.csv").text.splitlines())
        if row["job_id"] == str(new["job_id"])
    )
    assert (listed["study"], listed["subject"]) == ("1", "trial 1")
    page = client.get(f"/studies/{study_id}").text
    assert ">Resume<" not in page
    # Twice is once: the job that waits is the one that is resumed.
    again = client.post(f"/api/v1/studies/{study_id}/resume")
    assert (again.status_code, again.json()["job_id"]) == (200, new["job_id"])
    paused = client.post(f"/api/v1/studies/{NAME}/pause").json()
    assert (paused["job_id"], paused["state"]) == (new["job_id"], "paused")


def test_a_rerun_that_no_job_began_has_no_button_and_is_refused(
    make_client: Maker, settings: Settings
) -> None:
    client = make_client()
    with open_store(settings.db, create=False, writable=True) as store:
        study_id = open_rerun(store)
    assert ">Resume<" not in client.get(f"/studies/{study_id}").text
    assert "begun-since" not in client.get(f"/studies/{study_id}").text
    for name in (study_id, NAME):
        answer = client.post(f"/api/v1/studies/{name}/resume")
        assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
        assert "was begun by no job" in answer.json()["message"]
    with open_store(settings.db, create=False, writable=True) as store:
        since = open_rerun(store, run="1" * 16)
    assert f'id="begun-since" href="/studies/{since}"' in client.get(f"/studies/{study_id}").text


def test_a_rerun_that_is_finished_says_so(make_client: Maker, settings: Settings) -> None:
    client = make_client()
    _, study_id = end_rerun(settings, JobState.FINISHED)
    with open_store(settings.db, create=False, writable=True) as store:
        recorder = store.recorder()
        spec = {"name": NAME, REPRODUCES: {"kind": "trial", "id": "1", "run": "0" * 16}}
        recorder.open_study(make_definition(NAME, spec=spec), fresh=False)
        recorder.finish_study(study_id)
    answer = client.post(f"/api/v1/studies/{study_id}/resume")
    assert answer.status_code == 409
    assert "is finished" in answer.json()["message"]


def test_a_paused_rerun_goes_on_where_it_was(tmp_path: Path, cache_dir: Path) -> None:
    place = Workplace(tmp_path, cache_dir)
    shapes = tuple(f"{rows}x40" for rows in range(1, 7))
    study = place.launch(place.register("many", "good", shapes=shapes))
    with place.working():
        place.wait_for(study, "finished")
        row, _ = api.launch_reproduce("study:1", settings=place.settings)
        job_id = row["job_id"]
        place.wait_for_trials(job_id, 2)
        api.pause_job(job_id, place.settings)
        paused = place.wait_for(job_id, "paused")
        api.resume_job(job_id, place.settings)
        done = place.wait_for(job_id, "finished", "failed")
    assert done["state"] == "finished", done
    assert paused["study_id"] == done["result"]["rerun_study_ids"][0]
    studies = {each["study_id"]: each for each in api.page_studies(place.settings).items}
    assert set(studies) == {1, *done["result"]["rerun_study_ids"]}
    assert {each["state"] for each in studies.values()} == {"finished"}
