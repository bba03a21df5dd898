"""The queue, on both databases: each job runs once, one at a time on a device, none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from tuner.domain.environment import Environment
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish
from tuner.errors import Conflict
from tuner.errors import EnvironmentProblem
from tuner.errors import NotFound
from tuner.store import job_devices
from tuner.store import job_running
from tuner.store import job_wishes
from tuner.store import jobs
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.job_models import DeviceRow
from tuner.store.job_models import JobRow
from tuner.store.leases import database_time
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.store.paging import environment_rows
from tuner.store.table import table_of
from tuner.store.table import update_row
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment

A_MOMENT_S = 0.3  # for a thread to come to where it must wait
ME = this_process()
ELSEWHERE = Owner("f" * 16, 4711, "boot-1")
DEVICE = table_of(DeviceRow)
REQUEST = {"study": "first", "shapes": None, "budget": None, "device": None, "fresh": False}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """An address of a database that is not there yet, or empty."""
    if request.param == "sqlite":
        return str(folder / "queue.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def queue(url: str) -> Iterator[Store]:
    """A store whose queue is empty, and which takes jobs for this process's CPU."""
    with open_store(url, create=True, writable=True) as store:
        register(store, ME)
        yield store


def register(store: Store, owner: Owner, device_id: str = "cpu", driver: str = "1.0") -> None:
    with store.transaction() as connection:
        environment = make_environment(driver=driver)
        job_devices.register_device(connection, owner, device_id, "a name", environment)


def add(store: Store, key: str | None = None, device_id: str = "cpu", **changes: object) -> int:
    with store.transaction() as connection:
        job, _ = jobs.add_job(connection, JobKind.STUDY, {**REQUEST, **changes}, device_id, key)
    return job.id


def claim(store: Store, owner: Owner = ME, device_id: str = "cpu") -> Job | None:
    expected = has_queued(store, owner, device_id)
    with store.transaction() as connection:
        job = job_running.claim_next(connection, owner, device_id)
    assert job is None or expected  # who sees nothing waiting never asks
    return job


def has_queued(store: Store, owner: Owner = ME, device_id: str = "cpu") -> bool:
    with store.session() as session:
        return job_running.has_queued(session, owner, device_id)


def read(store: Store, job_id: int) -> Job:
    with store.session() as session:
        return jobs.read_job(session, job_id)


def change(store: Store, job_id: int, **values: object) -> None:
    with store.transaction() as connection:
        update_row(connection, JobRow, job_id, values)


def act(store: Store, verb: str, job_id: int) -> Job:
    action = getattr(job_wishes, f"{verb}_job")
    with store.transaction() as connection:
        return action(connection, job_id)


def take_back(store: Store) -> list[int]:
    with store.session() as session:
        expected = job_running.has_orphans(session)
    with store.transaction() as connection:
        taken = job_running.take_back(connection)
    assert bool(taken) == expected
    return taken


def dead_process() -> Owner:
    """Return an owner of this host that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return Owner(ME.host, process.pid, ME.start + "0")


def in_threads(count: int, work: Callable[[int], None]) -> None:
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []


def test_a_key_makes_one_job_however_often_it_is_asked_for(queue: Store, url: str) -> None:
    found: list[tuple[int, bool]] = []

    def ask(_number: int) -> None:
        with (
            open_store(url, create=False, writable=True) as store,
            store.transaction() as connection,
        ):
            job, is_new = jobs.add_job(connection, JobKind.STUDY, REQUEST, "cpu", "same")
        found.append((job.id, is_new))

    in_threads(8, ask)
    assert len({job_id for job_id, _ in found}) == 1
    assert [is_new for _, is_new in found].count(True) == 1
    assert add(queue) != add(queue)  # without a key each request is another one


def test_who_asks_with_a_key_waits_for_another_who_does(queue: Store, url: str) -> None:
    """Where both have looked for the key before either has stored it."""
    found: list[tuple[int, bool]] = []

    def ask() -> None:
        with (
            open_store(url, create=False, writable=True) as store,
            store.transaction() as connection,
        ):
            job, is_new = jobs.add_job(connection, JobKind.STUDY, REQUEST, "cpu", "same")
        found.append((job.id, is_new))

    second = threading.Thread(target=ask)
    with queue.transaction() as connection:
        first, _ = jobs.add_job(connection, JobKind.STUDY, REQUEST, "cpu", "same")
        second.start()
        time.sleep(A_MOMENT_S)
        assert found == []
    second.join()
    assert found == [(first.id, False)]


def test_who_claims_for_a_device_waits_for_another_who_does(queue: Store, url: str) -> None:
    add(queue)
    add(queue)
    found: list[Job | None] = []

    def take() -> None:
        with open_store(url, create=False, writable=True) as store:
            found.append(claim(store))

    second = threading.Thread(target=take)
    with queue.transaction() as connection:
        assert job_running.claim_next(connection, ME, "cpu") is not None
        second.start()
        time.sleep(A_MOMENT_S)
        assert found == []
    second.join()
    assert found == [None]  # the device is busy


def test_a_key_of_another_request_is_refused(queue: Store) -> None:
    job_id = add(queue, "once")
    with pytest.raises(Conflict, match=f"another request \\(job {job_id}\\)"):
        add(queue, "once", fresh=True)
    with pytest.raises(Conflict), queue.transaction() as connection:
        jobs.add_job(connection, JobKind.REPRODUCE, REQUEST, "cpu", "once")
    with queue.session() as session:
        assert [each.id for each in jobs.list_jobs(session)] == [job_id]


def test_the_job_that_waited_longest_is_taken_and_those_of_others_are_left(queue: Store) -> None:
    add(queue, device_id="cuda:0")
    first, second = add(queue), add(queue)
    job = claim(queue)
    assert job is not None
    assert (job.id, job.state, job.owner) == (first, JobState.RUNNING, str(ME))
    assert job == read(queue, first)
    assert claim(queue) is None  # the device is busy
    with queue.transaction() as connection:
        job_running.end_job(connection, first, ME, JobState.FINISHED, result={"a": 0.1})
    ended = read(queue, first)
    assert (ended.state, ended.result, ended.owner) == (JobState.FINISHED, {"a": 0.1}, None)
    assert ended.finished_at is not None
    assert getattr(claim(queue), "id", None) == second


def test_nobody_claims_for_a_device_of_another_process(queue: Store) -> None:
    add(queue)
    assert claim(queue, ELSEWHERE) is None
    assert claim(queue, Owner(ME.host, ME.pid, "another start")) is None


def test_many_claim_at_once_and_each_job_runs_once(queue: Store, url: str) -> None:
    hosts = [Owner(f"{number:016x}", 1, "boot-1") for number in range(6)]
    for host in hosts:
        register(queue, host)
    wanted = sorted(add(queue) for _ in range(4))
    taken: list[tuple[str, int]] = []

    def take(number: int) -> None:
        host = hosts[number // 2]  # two of the same host: its device runs one job only
        with open_store(url, create=False, writable=True) as store:
            job = claim(store, host)
        if job is not None:
            taken.append((host.host, job.id))

    in_threads(12, take)
    assert sorted(job_id for _, job_id in taken) == wanted
    assert len({host for host, _ in taken}) == len(wanted)


@pytest.mark.parametrize(
    ("state", "verb", "after"),
    [
        ("queued", "pause", ("paused", "pause")),
        ("queued", "resume", ("queued", "run")),
        ("queued", "cancel", ("cancelled", "cancel")),
        ("running", "pause", ("running", "pause")),
        ("running", "resume", ("running", "run")),
        ("running", "cancel", ("running", "cancel")),
        ("paused", "pause", ("paused", "pause")),
        ("paused", "resume", ("queued", "run")),
        ("paused", "cancel", ("cancelled", "cancel")),
        ("cancelled", "cancel", ("cancelled", "cancel")),
        ("cancelled", "resume", None),
        ("finished", "pause", None),
        ("finished", "resume", None),
        ("finished", "cancel", None),
        ("failed", "pause", None),
        ("failed", "resume", None),
        ("failed", "cancel", None),
    ],
)
def test_what_can_be_wished(
    store: Store, state: str, verb: str, after: tuple[str, str] | None
) -> None:
    register(store, ME)
    job_id = add(store)
    if state in ("running", "finished", "failed"):
        claim(store)
    if state in ("finished", "failed"):
        with store.transaction() as connection:
            job_running.end_job(connection, job_id, ME, JobState(state))
    if state == "paused":
        act(store, "pause", job_id)
    if state == "cancelled":
        act(store, "cancel", job_id)
    before = read(store, job_id)
    if after is None:
        with pytest.raises(Conflict, match=f"job {job_id} is {state}"):
            act(store, verb, job_id)
        assert read(store, job_id) == before
    else:
        found = act(store, verb, job_id)
        assert found == read(store, job_id)
        assert (found.state, found.wish) == after
        assert (found.finished_at is not None) == (after[0] == "cancelled")


def test_a_job_whose_study_is_finished_is_not_to_be_launched_again(store: Store) -> None:
    register(store, ME)
    job_id = add(store)
    claim(store)
    recorder = store.recorder()
    study_id = recorder.open_study(make_definition(), fresh=False).study_id
    change(store, job_id, study_id=study_id)
    with store.transaction() as connection:
        job_running.end_job(connection, job_id, ME, JobState.FINISHED)  # its budget is spent
    with pytest.raises(Conflict, match="finished") as caught:
        act(store, "resume", job_id)
    assert "launch it again" in caught.value.hint
    recorder.finish_study(study_id)
    with pytest.raises(Conflict, match="finished") as caught:
        act(store, "resume", job_id)
    assert caught.value.hint == "its study is finished too, so there is nothing to go on with"


def test_a_cancelled_job_can_t_be_called_back_while_it_stops(store: Store) -> None:
    register(store, ME)
    job_id = add(store)
    claim(store)
    act(store, "cancel", job_id)
    for verb in ("pause", "resume"):
        with pytest.raises(Conflict, match="being cancelled"):
            act(store, verb, job_id)


@pytest.mark.parametrize(
    ("wish", "after"), [("run", "queued"), ("pause", "paused"), ("cancel", "cancelled")]
)
def test_a_stopped_job_is_what_was_wished_of_it(store: Store, wish: str, after: str) -> None:
    register(store, ME)
    job_id = add(store)
    claim(store)
    if wish != "run":
        act(store, wish, job_id)
    with store.session() as session:
        assert job_running.wishes(session, ME) == {job_id: JobWish(wish)}
    with store.transaction() as connection:
        job_running.stop_job(connection, job_id, ME)
    assert read(store, job_id).state == after
    if wish == "pause":
        act(store, "resume", job_id)
    assert (claim(store) is not None) == (after != "cancelled")


def test_an_unknown_job_is_not_found(queue: Store) -> None:
    for job_id in (0, -1, 77, 2**31, 2**63 - 1, 2**80):
        with pytest.raises(NotFound, match=f"no job {job_id}"):
            read(queue, job_id)
        with pytest.raises(NotFound):
            act(queue, "cancel", job_id)


def test_a_dead_process_s_job_is_taken_back_at_once(queue: Store) -> None:
    gone = dead_process()
    job_id, paused = add(queue), add(queue)
    now = {"state": "running", "started_at": ended_at(queue), "seen_at": ended_at(queue)}
    change(queue, job_id, owner=str(gone), **now)
    change(queue, paused, owner=str(gone), wish="pause", **now)
    assert take_back(queue) == [job_id, paused]
    assert take_back(queue) == []
    found = read(queue, job_id)
    assert (found.state, found.owner, found.seen_at) == (JobState.QUEUED, None, None)
    assert found.message == f"its runner, process {gone.pid}, ended while it ran"
    assert read(queue, paused).state is JobState.PAUSED
    # What the dead one's heirs might still store of it is dropped.
    with queue.transaction() as connection:
        job_running.end_job(connection, job_id, gone, JobState.FAILED, message="late")
        job_running.stop_job(connection, job_id, gone)
        job_running.set_study(connection, job_id, gone, 1)
    assert read(queue, job_id) == found


def ended_at(store: Store) -> object:
    with store.session() as session:
        return database_time(session.connection())


def test_another_machine_s_job_is_taken_back_after_a_long_silence(queue: Store) -> None:
    register(queue, ELSEWHERE)
    job_id = add(queue)
    assert claim(queue, ELSEWHERE) is not None
    assert take_back(queue) == []
    seen_at = read(queue, job_id).seen_at
    assert seen_at is not None
    silence = job_running.RUNNER_SILENCE
    change(queue, job_id, seen_at=seen_at - silence + timedelta(seconds=30))
    assert take_back(queue) == []
    change(queue, job_id, seen_at=seen_at - silence)
    with queue.transaction() as connection:
        job_running.beat(connection, ELSEWHERE)
    assert take_back(queue) == []  # it spoke up in time
    change(queue, job_id, seen_at=seen_at - silence)
    assert take_back(queue) == [job_id]


def test_a_failure_has_a_reason_in_one_column(queue: Store) -> None:
    first, second = add(queue), add(queue)
    claim(queue)
    with queue.transaction() as connection:
        job_running.end_job(connection, first, ME, JobState.FAILED, message="a\x00b")
        job_running.claim_next(connection, ME, "cpu")
        job_running.end_job(connection, second, ME, JobState.FAILED)
    assert read(queue, first).message == "a\N{SYMBOL FOR NULL}b"
    assert read(queue, second).message == "failed (no message)"


def test_a_begun_job_waits_for_the_environment_of_its_study(queue: Store) -> None:
    definition = make_definition(environment=make_environment(driver="2.0"))
    study_id = queue.recorder().open_study(definition, fresh=False).study_id
    job_id = add(queue)
    change(queue, job_id, study_id=study_id)
    assert has_queued(queue)
    register(queue, ELSEWHERE, driver="2.0")
    assert claim(queue) is None  # the device elsewhere is of the study's environment
    assert not has_queued(queue)  # nor is there anything to ask for again and again
    assert has_queued(queue, ELSEWHERE)
    twin = Owner("e" * 16, 1, "boot-1")
    register(queue, twin, driver="2.0")
    assert getattr(claim(queue, twin), "id", None) == job_id  # any such device will do
    with queue.transaction() as connection:
        job_running.stop_job(connection, job_id, twin)
    register(queue, ELSEWHERE, driver="3.0")
    register(queue, twin, driver="3.0")
    assert getattr(claim(queue), "id", None) == job_id  # there is none any more


@pytest.mark.parametrize("how", ["released", "silent"])
def test_a_begun_job_does_not_wait_for_a_device_that_is_gone(queue: Store, how: str) -> None:
    """As after an upgrade, which gives each worker another environment, and often another host."""
    definition = make_definition(environment=make_environment(driver="2.0"))
    study_id = queue.recorder().open_study(definition, fresh=False).study_id
    job_id = add(queue)
    change(queue, job_id, study_id=study_id)
    register(queue, ELSEWHERE, driver="2.0")
    assert not has_queued(queue)
    with queue.transaction() as connection:
        if how == "released":
            job_devices.release_devices(connection, ELSEWHERE)
        else:
            elsewhere = DEVICE.c.owner == str(ELSEWHERE)
            row_id = connection.scalars(select(DEVICE.c.id).where(elsewhere)).one()
            seen_at = database_time(connection) - job_running.RUNNER_SILENCE
            update_row(connection, DeviceRow, row_id, {"seen_at": seen_at})
    assert has_queued(queue)
    assert getattr(claim(queue), "id", None) == job_id


def test_a_process_that_ends_lets_go_of_its_jobs_as_wished(queue: Store) -> None:
    register(queue, ME, "cuda:0")
    register(queue, ELSEWHERE)
    ids = [add(queue), add(queue, device_id="cuda:0"), add(queue)]
    claim(queue)
    claim(queue, device_id="cuda:0")
    claim(queue, ELSEWHERE)
    act(queue, "pause", ids[1])
    with queue.transaction() as connection:
        job_running.stop_all(connection, ME)
    assert [read(queue, each).state for each in ids] == ["queued", "paused", "running"]


def test_a_device_has_one_process_that_takes_its_jobs(queue: Store) -> None:
    other = Owner(ME.host, os.getppid(), "")
    with pytest.raises(EnvironmentProblem, match=f"process {ME.pid} takes the jobs of cpu"):
        register(queue, other)
    gone = dead_process()
    register(queue, gone, "cuda:0")
    register(queue, ELSEWHERE)
    job_id = add(queue)
    claim(queue)
    with queue.session() as session:
        found = job_devices.list_devices(session)
    states = {(each.host, each.device_id): (each.state, each.job_id) for each in found}
    assert states == {
        (ME.host, "cpu"): ("busy", job_id),
        (ME.host, "cuda:0"): ("gone", None),
        (ELSEWHERE.host, "cpu"): ("idle", None),
    }
    register(queue, ME, "cuda:0")  # the dead one's
    with queue.transaction() as connection:
        job_devices.release_devices(connection, ME)
    with queue.session() as session:
        found = job_devices.list_devices(session)
    assert [each.state for each in found if each.host == ME.host] == ["gone", "gone"]


def test_the_load_of_a_moment_makes_no_environment(queue: Store) -> None:
    def registered(load: str, host: str = "a", driver: str = "1.0") -> int:
        identity = make_environment(driver=driver).identity
        environment = Environment(identity, {"host_load_1min": load, "host_hash": host})
        with queue.transaction() as connection:
            job_devices.register_device(connection, ME, "cpu", "a name", environment)
            return connection.scalars(select(DEVICE.c.environment_id)).one()

    first = registered("0.10")
    assert registered("0.20") == first
    assert registered("0.10", host="b") != first
    assert registered("0.10", driver="2.0") != first
    assert registered("0.30") == first
    environment = make_environment(driver="2.0")
    loaded = Environment(environment.identity, {"host_load_1min": "9.00", "host_hash": "a"})
    study = queue.recorder().open_study(make_definition(environment=loaded), fresh=False)
    other = make_definition("other", environment=make_environment(driver="2.0"))
    queue.recorder().open_study(other, fresh=False)
    with queue.session() as session:
        listed = environment_rows(session, limit=None)
        assert queries.find_study(session, study.study_id).environment_key == loaded.key
    assert [each["environment_key"] for each in listed] == [
        environment.key,
        make_environment().key,
    ]
    assert [each["studies"] for each in listed] == [2, 0]
    with queue.session() as session:
        after = environment_rows(session, before=listed[0]["environment_id"], limit=1)
    assert after == listed[1:]


def test_jobs_are_listed_newest_first_by_page_and_state(queue: Store) -> None:
    ids = [add(queue) for _ in range(5)]
    act(queue, "cancel", ids[1])
    with queue.session() as session:
        first = jobs.list_jobs(session, limit=2)
        rest = jobs.list_jobs(session, after=first[-1].id)
        cancelled = jobs.list_jobs(session, state=JobState.CANCELLED)
    assert [each.id for each in (*first, *rest)] == ids[::-1]
    assert [each.id for each in cancelled] == [ids[1]]


def test_the_newest_job_of_a_study_is_found_by_name_or_study(queue: Store) -> None:
    study_id = queue.recorder().open_study(make_definition("of_job"), fresh=False).study_id
    by_name = add(queue, study="x_y")
    add(queue, study="x%y")
    by_study = add(queue, study="another")
    change(queue, by_study, study_id=study_id)

    def newest(name: str, known: int | None) -> int | None:
        with queue.session() as session:
            return getattr(jobs.newest_of_study(session, name, known), "id", None)

    assert newest("x_y", None) == by_name
    assert newest("xzy", None) is None
    assert newest("of_job", study_id) == by_study
    assert newest("x_y", study_id) == by_study


def test_every_row_keeps_its_checksum(url: str, queue: Store) -> None:
    for verb in ("pause", "resume", "cancel"):
        act(queue, verb, add(queue))
    claim(queue)
    with queue.transaction() as connection:
        job_running.beat(connection, ME)
        job_devices.beat_devices(connection, ME)
    queue.close()
    assert migrate.check(url) == []
