"""Asking for jobs: only what is registered, only what can be done, and each request once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import OPERATORS
from sqlalchemy import insert
from sqlalchemy import select
from working import Workplace

from tuner import api
from tuner.domain.environment import Environment
from tuner.domain.queue import JobKind
from tuner.errors import Conflict
from tuner.errors import DeviceUnavailable
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.operator import load_operator
from tuner.report.provenance import MANIFEST
from tuner.store import job_devices
from tuner.store import open_store
from tuner.store.jobs import JOB
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.study.overrides import with_shapes
from tuner.study.spec import load_study

HERE = this_process()


@pytest.fixture
def place(tmp_path: Path, cache_dir: Path) -> Workplace:
    """A workplace with one study."""
    place = Workplace(tmp_path, cache_dir)
    place.register("planted", "good", shapes=("6x40", "3x13"))
    return place


def register(place: Workplace, *device_ids: str, owner: Owner = HERE) -> None:
    """Have a process take the jobs of devices."""
    with (
        open_store(place.settings.db, create=True, writable=True) as store,
        store.transaction() as connection,
    ):
        for device_id in device_ids:
            environment = Environment({"architecture": "any"}, {})
            job_devices.register_device(connection, owner, device_id, "any", environment)


def test_a_job_s_row_says_what_was_asked(place: Workplace) -> None:
    job, is_new = api.launch_study(
        "planted", shapes=["2x64"], budget="30m", idempotency_key="k", settings=place.settings
    )
    assert is_new
    assert list(job) == [
        *("study", "subject", "shapes", "kind", "request", "device_id", "state", "wish"),
        *("study_id", "result", "message", "created_at", "started_at", "finished_at", "job_id"),
        *("verdict", "ending", "summary"),
    ]
    assert (job["study"], job["device_id"], job["state"]) == ("planted", "cpu", "queued")
    assert job["request"]["shapes"] == ["2x64"]
    assert api.show_job(job["job_id"], place.settings) == job
    assert api.page_jobs(place.settings).items == (job,)
    # An answer that was given stays, even where the study is gone meanwhile.
    (place.studies / "planted.toml").unlink()
    again, is_new = api.launch_study(
        "planted", shapes=["2x64"], budget="30m", idempotency_key="k", settings=place.settings
    )
    assert (again, is_new) == (job, False)
    with pytest.raises(Conflict):
        api.launch_study("planted", idempotency_key="k", settings=place.settings)


@pytest.mark.parametrize(
    ("study", "options", "kind", "message"),
    [
        ("nothing", {}, NotFound, "no registered study 'nothing'"),
        ("studies/planted", {}, NotFound, "no registered study"),
        ("../studies/planted", {}, NotFound, "no registered study"),
        ("planted.toml", {}, NotFound, "no registered study"),
        ("/etc/passwd", {}, NotFound, "no registered study"),
        ("planted\x00", {}, NotFound, "no registered study"),
        ("planted", {"shapes": []}, UsageError, "0 shapes are given"),
        ("planted", {"shapes": ["6"]}, UsageError, "planted takes 2 dimensions"),
        ("planted", {"shapes": ["6x40", "06x40"]}, UsageError, "is given twice"),
        ("planted", {"shapes": ["0x40"]}, UsageError, "."),
        ("planted", {"shapes": ["http://x"]}, UsageError, "is not understood"),
        ("planted", {"budget": "forever"}, UsageError, "budget 'forever' is not understood"),
        ("planted", {"budget": "0"}, UsageError, "budget '0' is not understood"),
        ("planted", {"device": "gpu"}, UsageError, "device 'gpu' is not understood"),
        ("planted", {"device": "cuda:0; ls"}, UsageError, "is not understood"),
        ("planted", {"device": "cuda:0"}, DeviceUnavailable, "no process takes jobs for cuda:0"),
        ("planted", {"idempotency_key": ""}, UsageError, "the idempotency key is not one"),
        ("planted", {"idempotency_key": "a b"}, UsageError, "the idempotency key is not one"),
    ],
)
def test_what_can_t_be_done_is_refused_and_not_stored(
    place: Workplace,
    study: str,
    options: dict[str, object],
    kind: type[TunerError],
    message: str,
) -> None:
    register(place, "cpu")
    with pytest.raises(kind, match=message) as caught:
        api.launch_study(study, settings=place.settings, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert api.page_jobs(place.settings).items == ()


def test_a_shipped_study_is_registered_and_own_ones_win(place: Workplace) -> None:
    listed = {each["name"]: each for each in api.registered_studies(place.settings)}
    assert listed["planted"]["shapes"] == ["6x40", "3x13"]
    assert "quickstart" in listed
    place.register("quickstart", "good")
    listed = {each["name"]: each for each in api.registered_studies(place.settings)}
    assert listed["quickstart"]["operator"] == "planted"
    (place.studies / "broken.toml").write_text("schema = 1", encoding="utf-8")
    assert "broken" not in {each["name"] for each in api.registered_studies(place.settings)}


def test_auto_means_the_best_device_that_somebody_takes_jobs_for(place: Workplace) -> None:
    def asked(device: str) -> str:
        job, _ = api.launch_study("planted", device=device, settings=place.settings)
        return job["device_id"]

    with pytest.raises(DeviceUnavailable, match="no process has taken jobs"):
        asked("auto")
    assert asked("cpu") == "cpu"  # a process may be starting that takes it
    register(place, "cpu", "cuda:1", "cuda:0")
    assert asked("auto") == "cuda:0"
    register(place, "hip:0", owner=Owner(HERE.host, HERE.pid, "gone"))
    assert asked("auto") == "cuda:0"
    assert asked("hip:0") == "hip:0"  # its process may come back


def test_a_study_of_other_shapes_has_its_own_name(place: Workplace) -> None:
    path = place.studies / "planted.toml"
    result = api.run_study(path, shapes=["2x64"], device="cpu", settings=place.settings)
    assert (result.finished, result.name) == (True, "planted-2x64")
    assert [each.asked.shape_text for each in result.best] == ["2x64"]
    spec, operator = load_study(path), load_operator(OPERATORS / "planted")
    assert with_shapes(spec, operator, ["3x13", "6x40"]) is spec  # those of the file
    many = with_shapes(spec, operator, [f"{rows}x1000" for rows in range(1, 30)])
    other = with_shapes(spec, operator, [f"{rows}x1000" for rows in range(2, 31)])
    assert re.fullmatch(r"planted-29-shapes-[0-9a-f]{8}", many.name)
    assert many.name != other.name


def test_a_fresh_job_that_was_stopped_goes_on_and_measures_the_rest(place: Workplace) -> None:
    studies: list[int] = []

    def run(budget: str | None, *, fresh: bool, study_id: int | None) -> dict[str, object]:
        request = {
            "study": "planted", "shapes": None, "budget": budget, "device": None, "fresh": fresh,
        }  # fmt: skip
        return api.run_job(
            JobKind.STUDY, request, "cpu", place.settings, study_id=study_id,
            on_study=studies.append,
        )  # fmt: skip

    place.register("planted", "good", blocks=(32, 64))
    run(None, fresh=False, study_id=None)
    begun = run("1", fresh=True, study_id=None)
    assert not begun["finished"]
    ended = run(None, fresh=True, study_id=2)
    assert ended["finished"]
    assert studies == [1, 2, 2]
    trials = api.page_trials("2", place.settings).items
    assert len(trials) == 2
    details = [api.show_trial(each["trial_id"], place.settings) for each in trials]
    assert [each["summary"]["reused_from_id"] for each in details] == [None, None]


def test_only_stored_records_are_rerun(place: Workplace) -> None:
    for record in ("1", "planted", "evidence:x", "../planted", str(place.folder), "x" * 300):
        with pytest.raises((NotFound, UsageError)):
            api.launch_reproduce(record, settings=place.settings)
    api.run_study(place.studies / "planted.toml", device="cpu", settings=place.settings)
    with pytest.raises(UsageError, match="planted takes 2 dimensions"):
        api.launch_reproduce("1", shape="7", settings=place.settings)
    job, _ = api.launch_reproduce("planted", settings=place.settings)
    assert (job["kind"], job["study"], job["device_id"]) == ("reproduce", "planted", "cpu")
    assert job["subject"] == "study planted"
    again, is_new = api.launch_reproduce("planted", idempotency_key="k", settings=place.settings)
    assert is_new
    same, is_new = api.launch_reproduce("planted", idempotency_key="k", settings=place.settings)
    assert (same, is_new) == (again, False)
    for record, subject in (("1", "trial 1"), ("study:1", "study 1")):
        job, _ = api.launch_reproduce(record, settings=place.settings)
        assert (job["study"], job["subject"]) == (record, subject)


def test_a_study_is_resumed_by_its_job_or_by_a_new_one_like_it(place: Workplace) -> None:
    with pytest.raises(NotFound):
        api.resume_study("planted", place.settings)
    job_id = place.launch("planted", shapes=["2x64"], fresh=True)
    api.pause_job(job_id, place.settings)
    job, is_new = api.resume_study("planted-2x64", place.settings)
    assert (job["job_id"], job["state"], is_new) == (job_id, "queued", False)
    api.cancel_job(job_id, place.settings)
    job, is_new = api.resume_study("planted-2x64", place.settings)
    assert (job["job_id"], is_new) == (job_id + 1, True)
    assert job["request"] == {
        "study": "planted", "shapes": ["2x64"], "budget": None, "device": "cpu", "fresh": False,
        "name": "planted-2x64",
    }  # fmt: skip
    newest = api.newest_job("planted-2x64", place.settings)
    assert newest is not None
    assert newest["job_id"] == job_id + 1


def test_the_newest_job_of_a_study_is_not_one_of_other_shapes(place: Workplace) -> None:
    own = place.launch("planted", shapes=["3x13", "6x40"])  # those of the file
    other = place.launch("planted", shapes=["2x64"])
    place.register("PLANTED", "good")
    for name, job_id in (("planted", own), ("planted-2x64", other), ("PLANTED", None)):
        newest = api.newest_job(name, place.settings)
        assert (newest and newest["job_id"]) == job_id


def test_a_list_without_a_limit_has_all_jobs(place: Workplace) -> None:
    newest = place.launch("planted") + 10_000
    with (
        open_store(place.settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        first = connection.execute(select(JOB)).mappings().one()
        copies = [{**first, "id": number} for number in range(first["id"] + 1, newest + 1)]
        connection.execute(insert(JOB), copies)
    jobs = api.page_jobs(place.settings).items
    assert [each["job_id"] for each in jobs] == list(range(newest, first["id"] - 1, -1))


def test_a_job_takes_no_folder_for_a_record(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.launch("planted")
    folder = place.folder / "12"
    folder.mkdir()
    (folder / MANIFEST).write_text("{}", encoding="utf-8")
    monkeypatch.chdir(place.folder)
    with pytest.raises(UsageError):  # of what the folder says
        api.reproduce("12", settings=place.settings)
    with pytest.raises(NotFound):
        api.run_job(
            JobKind.REPRODUCE, {"record": "12", "device": None, "shape": None}, "cpu",
            place.settings, study_id=None, on_study=lambda _: None,
        )  # fmt: skip


def test_lists_are_checked(place: Workplace) -> None:
    with pytest.raises(NotFound, match="no such database"):
        api.page_jobs(place.settings)
    place.launch("planted")
    with pytest.raises(UsageError, match="no state 'lost'"):
        api.page_jobs(place.settings, state="lost")
    with pytest.raises(NotFound, match="no job 99"):
        api.job_progress(99, place.settings)
    assert api.job_progress(1, place.settings)["planned"] is None
