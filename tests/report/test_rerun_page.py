"""The page of a job that runs a record again."""

from __future__ import annotations

from fastapi.testclient import TestClient
from scripted_device import Laboratory
from stored_evidence import record
from stored_evidence import store_evidence

from tuner import api
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.service.app import create_app
from tuner.store import job_running
from tuner.store import jobs
from tuner.store import open_store
from tuner.store.job_devices import register_device
from tuner.store.owner import this_process
from tuner.testing.store_values import make_environment


def test_a_reruns_page_has_each_result_beside_its_rerun_and_links_both_studies(
    laboratory: Laboratory,
) -> None:
    study = laboratory.run("second-good", blocks=(32, 64))
    laboratory.change(factor={"planted_second_good": 1.2})
    job_id = rerun_as_job(laboratory, f"study:{study}")

    view = api.job_view(job_id, laboratory.settings)
    assert [(each["study"], each["part"]) for each in view.studies] == [
        ("scripted-rerun", ""),
        ("scripted-rerun-again", "what was not the same, measured again"),
    ]
    found = {(each.implementation, each.verdict, len(each.looks)) for each in view.reruns}
    assert found == {("good", "same", 1), ("second-good", "slower", 2)}
    assert len(view.reruns) == 3

    client = TestClient(create_app(laboratory.settings), base_url="http://127.0.0.1:8765")
    page = client.get(f"/jobs/{job_id}").text
    for each in view.studies:
        assert f'href="/studies/{each["study_id"]}"' in page
    assert "Fastest" not in page  # of what was measured again alone it would be
    assert "1 of 3 results: slower" in page
    assert 'class="state finished bad"' in page
    row = client.get("/jobs").text
    assert "slower: 1.2" in row
    assert 'class="state finished bad"' in row


def test_the_page_says_which_study_is_of_which_input_case(laboratory: Laboratory) -> None:
    stated = {"warmup": 10, "samples": 50, "processes": 3, "launches_per_sample": 1}
    store_evidence(
        laboratory,
        record(1, "good", "0.05", protocol={**stated, "input_case": "uniform"}),
        record(2, "good", "0.03", protocol={**stated, "input_case": "normal"}),
    )
    job_id = rerun_as_job(laboratory, "table")

    client = TestClient(create_app(laboratory.settings), base_url="http://127.0.0.1:8765")
    page = client.get(f"/jobs/{job_id}").text
    assert "table-rerun-uniform: input case uniform<" in page
    assert "table-rerun-normal: input case normal<" in page
    assert "measured again" not in page


def rerun_as_job(laboratory: Laboratory, record: str) -> int:
    """Have a job reproduce a record, and return it."""
    settings, me = laboratory.settings, this_process()
    request = {"record": record, "device": None, "shape": None}
    opened: list[int] = []
    laboratory.script.rounds = 0
    with (
        open_store(settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        register_device(connection, me, "cuda:0", "a GPU", make_environment())
        job, _ = jobs.add_job(connection, JobKind.REPRODUCE, request, "cuda:0")
        job_running.claim_next(connection, me, "cuda:0")
    result = api.run_job(
        JobKind.REPRODUCE, request, "cuda:0", settings, study_id=None, on_study=opened.append
    )
    with open_store(settings.db, create=False, writable=True) as store:
        with store.transaction() as connection:
            job_running.set_study(connection, job.id, me, opened[-1])
        running = api.job_view(job.id, settings)
        assert [each["study_id"] for each in running.studies] == opened
        assert running.reruns == ()
        with store.transaction() as connection:
            job_running.end_job(connection, job.id, me, JobState.FINISHED, result=result)
    return job.id
