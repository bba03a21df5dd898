"""Jobs as processes run them: watched, paused, cancelled, killed, and gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from kill_loop import read_account
from working import wait
from working import Workplace

from tuner import api
from tuner.service.work.process import settings_message
from tuner.service.work.process import start_child
from tuner.settings import Settings


@pytest.fixture
def place(tmp_path: Path, cache_dir: Path) -> Workplace:
    """A workplace of the test's own."""
    return Workplace(tmp_path, cache_dir)


def test_jobs_are_run_one_after_another_and_say_what_they_gave(place: Workplace) -> None:
    study = place.launch(place.register("both", "good", "wrong"))
    gone = place.launch(place.register("gone", "good"))
    api.pause_job(gone, place.settings)
    with place.working():
        job = place.wait_for(study, "finished", "failed")
        assert job["result"]["finished"]
        assert job["result"]["counts"] == {"ok": 1, "wrong_result": 1}
        assert (job["message"], job["result"]["study_id"]) == ("", job["study_id"])
        assert read_account(place.settings, study).is_whole
        (best,) = place.progress(study)["best"]
        assert (best["implementation"], best["confirmed"]) == ("good", True)

        (place.studies / "gone.toml").unlink()
        api.resume_job(gone, place.settings)
        job = place.wait_for(gone, "finished", "failed")
        assert (job["state"], job["study_id"]) == ("failed", None)
        assert job["message"] == "no registered study 'gone'"

        row, _ = api.launch_reproduce(str(best["trial_id"]), settings=place.settings)
        job = place.wait_for(row["job_id"], "finished", "failed")
        assert job["state"] == "finished", job
        assert job["study_id"] in job["result"]["rerun_study_ids"]
        assert job["result"]["verdict"] in ("same", "slower", "faster", "ambiguous")
        (device,) = api.list_job_devices(place.settings)
        assert (device["device_id"], device["state"], device["job_id"]) == ("cpu", "idle", None)


def test_a_running_job_is_paused_resumed_put_back_and_cancelled(place: Workplace) -> None:
    # Trials that run together are stored together: the good one's is taken over from before.
    before_id = place.launch(place.register("before", "good", timeout_s=600.0))
    job_id = place.launch(place.register("slow", "good", "hang", timeout_s=600.0))

    def trial_runs() -> bool:
        return "running" in place.progress(job_id)["counts"]

    with place.working():
        place.wait_for(before_id, "finished")
        place.wait_for_trials(job_id, 1)
        wait(trial_runs, "the slow trial")
        (device,) = api.list_job_devices(place.settings)
        assert (device["state"], device["job_id"]) == ("busy", job_id)
        assert api.pause_job(job_id, place.settings)["wish"] == "pause"
        place.wait_for(job_id, "paused")
        progress = place.progress(job_id)
        assert progress["counts"] == {"ok": 1, "interrupted": 1}
        api.resume_job(job_id, place.settings)
        wait(trial_runs, "the trial that was cut off")
    # The worker was ended: the job waits for another one, and nothing of it runs.
    job = place.job(job_id)
    assert (job["state"], job["study_id"]) == ("queued", progress["study_id"])
    assert place.progress(job_id)["counts"] == {"ok": 1, "interrupted": 2}
    (device,) = api.list_job_devices(place.settings)
    assert device["state"] == "gone"

    with place.working():
        wait(trial_runs, "the trial that was cut off twice")
        api.cancel_job(job_id, place.settings)
        job = place.wait_for(job_id, "cancelled")
    assert job["study_id"] == progress["study_id"]
    assert place.progress(job_id)["counts"] == {"ok": 1, "interrupted": 3}


def test_a_killed_worker_s_study_is_finished_by_the_next_one(place: Workplace) -> None:
    shapes = ("6x40", "3x13", "1x1", "2x64")
    job_id = place.launch(place.register("long", "good", shapes=shapes, blocks=(32, 64)))
    with place.start() as process:
        place.wait_for_trials(job_id, 2)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 2  # the job's process, and its device's worker
        process.kill()
        process.communicate(timeout=30)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    job = place.job(job_id)
    assert job["state"] == "running"
    assert not read_account(place.settings, job_id).is_whole  # else nothing was tried
    with place.working():
        done = place.wait_for(job_id, "finished", "failed")
    assert done["state"] == "finished", done
    assert done["study_id"] == job["study_id"]
    assert read_account(place.settings, job_id).is_whole


def test_a_child_is_told_all_on_its_stdin_and_no_token() -> None:
    settings = Settings(db="postgresql://me:secret@nowhere/x")
    plain = settings_message(settings)
    assert plain["db"] == settings.db
    assert "token" not in plain
    assert Settings(**json.loads(json.dumps(plain))) == settings
    child = start_child(
        "tuner.service.work.worker", {"settings": plain, "devices": ["cpu"]}, reply=True
    )
    with child:
        words = " ".join(psutil.Process(child.pid).cmdline())
        assert "secret" not in words
        assert child.wait(60) == 3  # there is no such server
