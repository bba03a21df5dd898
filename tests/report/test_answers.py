"""A kept answer is given as long as it is right, and never after."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from datetime import UTC
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy import text

from tuner import api
from tuner.api import answers as answers_module
from tuner.api import kept_answers
from tuner.domain.controls import ControlPoint
from tuner.domain.controls import ControlRound
from tuner.domain.environment import Environment
from tuner.errors import NotFound
from tuner.errors import SchemaMismatch
from tuner.errors import UsageError
from tuner.operator import load_operator
from tuner.report.best import BestAnswer
from tuner.report.json_text import json_text
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store.controls import add_controls
from tuner.store.job_devices import register_device
from tuner.store.owner import this_process
from tuner.testing.store_steps import confirm
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import make_source

HERE = make_environment()
SHAPE = "4x8"
PLANTED = Path(__file__).resolve().parent.parent / "operators" / "planted"
LONG_AGO_S = 1_600_000_000
ASKED = api.asked("planted", SHAPE, Settings(), device="cpu")


class Machine:
    """Tells what a device is."""

    environment = HERE

    def find(self, _device_id: str, _settings: Settings, _registered: object) -> Environment:
        """Return the environment of any device."""
        return self.environment


@pytest.fixture
def machine() -> Machine:
    """The machine that the service runs on."""
    return Machine()


@pytest.fixture
def operators(tmp_path: Path) -> Path:
    """A folder with an operator whose files were written long ago."""
    folder = tmp_path / "operators" / "planted"
    shutil.copytree(PLANTED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return folder


@pytest.fixture
def settings(tmp_path: Path, operators: Path) -> Settings:
    """Settings of a database with one answer."""
    chosen = Settings(
        db=str(tmp_path / "results.db"), operators=(operators.parent,), cache_dir=tmp_path / "c"
    )
    add_trial(chosen, 10.0)
    return chosen


@pytest.fixture
def answers(settings: Settings, machine: Machine) -> Iterator[api.BestAnswers]:
    """What keeps answers. Files count as settled at once: their change times can't be set."""
    kept = api.BestAnswers(settings, machine.find, settled_ns=0)
    yield kept
    kept.close()


def add_trial(
    settings: Settings, median_us: float, shape: tuple[int, ...] = (4, 8), which: int = 0
) -> None:
    """Store a confirmed trial of the operator as it is today."""
    operator = load_operator(settings.operators[0] / "planted")
    implementation = operator.implementations[which]
    hashes = {each.name: operator.source(each).source_hash for each in operator.implementations}
    name = implementation.name
    source = make_source(name)
    definition = make_definition(
        f"at {median_us}",
        operator=operator.name,
        sources={name: type(source)(hashes[name], "hip", "f", "f.hip", {"f.hip": "f"})},
        languages={name: implementation.language},
    )
    workload = operator.workload(shape)
    with open_store(settings.db, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(definition, fresh=False).study_id
        point = make_point(int(median_us), name, workload)
        trial_id = recorder.start_trial(study_id, point, GEOMETRY)
        recorder.finish_trial(trial_id, make_report((median_us,)), bytes_moved=1)
        confirm(recorder, trial_id, (median_us,) * 3, (median_us,) * 3)


def ask(answers: api.BestAnswers) -> bytes:
    """Ask as the service does: for a kept answer first."""
    return answers.kept_json(ASKED) or answers.best_json(ASKED)


def test_an_answer_is_given_again_as_it_was(answers: api.BestAnswers, settings: Settings) -> None:
    first = ask(answers)
    assert answers.kept_json(ASKED) == first
    assert answers.kept_json(other_question(settings)) is None
    machine = Machine()
    plainly = api.best("planted", SHAPE, find_device=machine.find, settings=settings)
    assert first == json_text(plainly.as_plain()).encode("ascii")


def recalling(settings: Settings, machine: Machine) -> api.BestAnswers:
    """What keeps answers where the device is always known without asking."""
    return api.BestAnswers(
        settings, machine.find, lambda _device_id, _registered: machine.environment, settled_ns=0
    )


def test_an_answer_is_given_at_once_while_it_is_right(settings: Settings, machine: Machine) -> None:
    answers = recalling(settings, machine)
    assert answers.kept_json_at_once(ASKED) is None
    first = ask(answers)
    assert answers.kept_json_at_once(ASKED) == first
    machine.environment = make_environment(driver="2.0")
    assert answers.kept_json_at_once(ASKED) is None
    machine.environment = HERE
    assert answers.kept_json_at_once(ASKED) == first
    add_trial(settings, 5.0)
    assert answers.kept_json_at_once(ASKED) is None
    assert b'"median_us": 5.0' in ask(answers)
    answers.close()


def test_what_a_look_found_is_given_at_once_and_a_commit_before_the_look_ends_it(
    settings: Settings, machine: Machine
) -> None:
    answers = recalling(settings, machine)
    first = ask(answers)
    assert answers.may_be_kept(ASKED)
    assert answers.kept_json_at_once(ASKED, answers.look()) == first
    add_trial(settings, 5.0)
    assert answers.kept_json_at_once(ASKED, answers.look()) is None
    assert not answers.may_be_kept(ASKED)
    answers.close()


def test_a_source_that_changed_ends_what_is_given_at_once(
    settings: Settings, machine: Machine, operators: Path
) -> None:
    answers = recalling(settings, machine)
    ask(answers)
    for path in operators.glob("*.hip"):
        path.write_text(path.read_text("utf-8") + "\n// changed\n", "utf-8")
    assert answers.kept_json_at_once(ASKED) is None
    answers.close()


def test_what_would_have_to_be_asked_is_not_given_at_once(answers: api.BestAnswers) -> None:
    """A device that nobody remembers starts a process; this caller must not wait for one."""
    first = ask(answers)
    assert answers.kept_json_at_once(ASKED) is None
    assert answers.kept_json(ASKED) == first


def test_nothing_is_given_at_once_while_another_thread_reads_the_database(
    settings: Settings, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = recalling(settings, machine)
    first = ask(answers)
    add_trial(settings, 5.0)
    reading, go_on = threading.Event(), threading.Event()
    read = kept_answers._read_changes

    def slowly(opened: kept_answers.OpenDatabase) -> object:
        reading.set()
        assert go_on.wait(30)
        return read(opened)

    monkeypatch.setattr(kept_answers, "_read_changes", slowly)
    with ThreadPoolExecutor(1) as other:
        asked = other.submit(ask, answers)
        assert reading.wait(30)
        assert answers.kept_json_at_once(ASKED) is None  # and the test does not hang
        go_on.set()
        assert asked.result() != first
    answers.close()


def test_a_file_whose_readers_wait_for_writers_is_not_looked_at_at_once(
    settings: Settings, machine: Machine
) -> None:
    """With the rollback journal, as on a network, a writer keeps readers out."""
    with sqlite3.connect(settings.db) as connection:
        assert connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    connection.close()
    answers = recalling(settings, machine)
    first = ask(answers)
    assert answers.kept_json_at_once(ASKED) is None
    assert answers.kept_json(ASKED) == first
    answers.close()


def test_a_commit_of_this_process_ends_it(answers: api.BestAnswers, settings: Settings) -> None:
    first = ask(answers)
    add_trial(settings, 5.0)
    assert answers.kept_json(ASKED) is None
    assert b'"median_us": 5.0' in ask(answers)
    assert ask(answers) != first


def test_a_commit_of_another_process_ends_it(answers: api.BestAnswers, settings: Settings) -> None:
    ask(answers)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        other.submit(add_trial, settings, 5.0).result(60)
    assert answers.kept_json(ASKED) is None
    assert b'"median_us": 5.0' in ask(answers)


def test_what_does_not_decide_it_leaves_it(answers: api.BestAnswers, settings: Settings) -> None:
    """A running study stores all the time: trials that are not confirmed, leases, other shapes."""
    first = ask(answers)
    add_trial(settings, 5.0, shape=(16, 8))
    assert answers.kept_json(ASKED) == first
    register(settings, HERE)
    with open_store(settings.db, create=False, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition("another"), fresh=False).study_id
        assert answers.kept_json(ASKED) == first
        workload = load_operator(settings.operators[0] / "planted").workload((4, 8))
        trial_id = recorder.start_trial(study_id, make_point(1, workload=workload), GEOMETRY)
        recorder.finish_trial(trial_id, make_report((1.0,)), bytes_moved=1)
    assert answers.kept_json(ASKED) == first


def test_any_shape_may_be_nearer_than_the_nearest_one(
    answers: api.BestAnswers, settings: Settings
) -> None:
    asked = api.asked("planted", "5x8", settings, device="cpu", match="nearest-shape")
    first = answers.best_json(asked)
    assert answers.kept_json(asked) == first
    add_trial(settings, 20.0, shape=(5, 8))
    assert answers.kept_json(asked) is None
    assert b'"median_us": 20.0' in answers.best_json(asked)


def test_a_drifting_control_of_its_run_ends_it(
    answers: api.BestAnswers, settings: Settings
) -> None:
    first = ask(answers)
    with (
        open_store(settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        workload = load_operator(settings.operators[0] / "planted").workload((4, 8))
        point = ControlPoint(workload, sentinel_id=1, copy_bytes=1)
        began = datetime(2026, 1, 1, tzinfo=UTC)
        for position, sentinel_us in enumerate((10.0, 10.6)):
            reports = (make_report((1.0,)), make_report((8.0,)), make_report((sentinel_us,)))
            add_controls(connection, 1, ControlRound(began, position, point, reports))
    assert answers.kept_json(ASKED) is None
    noted = b"times of this run compare less surely"
    assert noted in ask(answers)
    assert noted not in first


def test_what_was_read_before_a_change_is_not_kept_after_it(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read, a better trial is confirmed, someone looks: only then it would be kept."""
    read = answers_module.answer_question

    def overtaken(*given: Any) -> BestAnswer:
        answer = read(*given)
        monkeypatch.setattr(answers_module, "answer_question", read)
        add_trial(settings, 5.0)
        answers.look()
        return answer

    monkeypatch.setattr(answers_module, "answer_question", overtaken)
    assert b'"median_us": 10.0' in answers.best_json(ASKED)
    assert answers.kept_json(ASKED) is None
    assert b'"median_us": 5.0' in ask(answers)


def test_what_another_program_changed_is_noticed_in_time(
    settings: Settings, machine: Machine
) -> None:
    now_s = 1000.0
    answers = api.BestAnswers(settings, machine.find, settled_ns=0, clock=lambda: now_s)
    ask(answers)
    with closing(sqlite3.connect(settings.db)) as connection:
        connection.execute("UPDATE tuner_study SET name = 'renamed'")
        connection.commit()
        ask(answers)
        now_s += kept_answers.MAX_AGE_S + 1.0
        connection.execute("UPDATE tuner_study SET name = name || '!'")
        connection.commit()
    assert b'"study": "renamed!"' in ask(answers)
    answers.close()


def test_a_transaction_that_is_not_committed_does_not(
    answers: api.BestAnswers, settings: Settings
) -> None:
    first = ask(answers)
    with open_store(settings.db, create=False, writable=True) as store:
        with pytest.raises(ZeroDivisionError), store.transaction() as connection:
            rename_and_fail(connection, answers)
        assert answers.kept_json(ASKED) == first


def rename_and_fail(connection: Connection, answers: api.BestAnswers) -> None:
    connection.execute(text("UPDATE tuner_study SET name = 'never'"))
    assert answers.kept_json(ASKED)
    raise ZeroDivisionError


def test_another_file_of_that_name_ends_it(
    answers: api.BestAnswers, settings: Settings, tmp_path: Path
) -> None:
    ask(answers)
    other = settings.model_copy(update={"db": str(tmp_path / "other.db")})
    add_trial(other, 7.0)
    Path(other.db).rename(settings.db)
    assert b'"median_us": 7.0' in ask(answers)
    Path(settings.db).unlink()
    with pytest.raises(NotFound, match="no such database"):
        ask(answers)


def test_another_schema_is_refused(answers: api.BestAnswers, settings: Settings) -> None:
    ask(answers)
    with (
        open_store(settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        connection.execute(text("UPDATE tuner_alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaMismatch, match="9999"):
        ask(answers)


def test_a_changed_source_ends_it(answers: api.BestAnswers, operators: Path) -> None:
    ask(answers)
    for path in operators.iterdir():
        if path.suffix in (".hip", ".py") and path.name not in ("operator.py", "reference.py"):
            path.write_text(path.read_text("utf-8") + "\n// changed\n", "utf-8")
    assert answers.kept_json(ASKED) is None
    with pytest.raises(NotFound, match="older source"):
        ask(answers)


def test_a_source_with_the_same_size_and_time_ends_it(
    answers: api.BestAnswers, operators: Path
) -> None:
    """Tools that copy files with their times are noticed by the inode's own time."""
    ask(answers)
    for path in operators.glob("*.hip"):
        status = path.stat()
        path.write_text(path.read_text("utf-8").replace("{", "{ ", 1).rstrip()[: status.st_size])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert answers.kept_json(ASKED) is None


def test_another_driver_ends_it(answers: api.BestAnswers, machine: Machine) -> None:
    ask(answers)
    machine.environment = make_environment(driver="2.0")
    assert answers.kept_json(ASKED) is None
    with pytest.raises(NotFound, match=r"driver: 1\.0 -> 2\.0"):
        ask(answers)


def test_a_device_that_is_registered_anew_ends_it(settings: Settings) -> None:
    answers = api.BestAnswers(settings, api.DeviceMemory().find, settled_ns=0)
    register(settings, HERE)
    first = ask(answers)
    register(settings, HERE)
    assert ask(answers) == first
    register(settings, make_environment(driver="2.0"))
    assert answers.kept_json(ASKED) is None
    with pytest.raises(NotFound, match=r"driver: 1\.0 -> 2\.0"):
        ask(answers)
    answers.close()


def register(settings: Settings, environment: Environment) -> None:
    """Have this process take the jobs of the CPU."""
    with (
        open_store(settings.db, create=False, writable=True) as store,
        store.transaction() as connection,
    ):
        register_device(connection, this_process(), "cpu", "any", environment)


@pytest.mark.parametrize("target", ["nobody@nowhere.1234", ".#operator.py"])
def test_a_link_to_nothing_is_no_fault(
    answers: api.BestAnswers, operators: Path, target: str
) -> None:
    """Emacs leaves one beside a file that it edits."""
    (operators / ".#operator.py").symlink_to(target)
    first = ask(answers)
    assert answers.kept_json(ASKED) == first
    (operators / ".#operator.py").unlink()
    assert answers.kept_json(ASKED) is None


def test_an_operator_whose_folder_is_gone_is_not_found(
    answers: api.BestAnswers, operators: Path
) -> None:
    ask(answers)
    shutil.rmtree(operators)
    with pytest.raises(NotFound, match="no operator in"):
        ask(answers)
    operators.parent.rmdir()
    with pytest.raises(NotFound, match="no operator in"):
        ask(answers)


def test_the_nearest_shape_is_one_of_the_implementation_asked_for(
    settings: Settings, machine: Machine
) -> None:
    add_trial(settings, 20.0, shape=(16, 8), which=1)
    planted = load_operator(settings.operators[0] / "planted")
    for which, shape in enumerate(((4, 8), (16, 8))):
        answer = api.best(
            "planted",
            "5x8",
            implementation=planted.implementations[which].name,
            match="nearest-shape",
            find_device=machine.find,
            settings=settings,
        )
        assert answer.best.workload.shape == shape


def test_a_file_that_was_written_just_now_is_read_again(
    settings: Settings, machine: Machine, operators: Path
) -> None:
    """A second change within the clock's tick would show nowhere."""
    answers = api.BestAnswers(settings, machine.find)
    (operators / "notes.txt").write_text("new", "utf-8")
    ask(answers)
    assert answers.kept_json(ASKED) is None
    answers.close()


def test_no_more_answers_are_kept_than_fit(
    answers: api.BestAnswers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.api.kept_answers.MAX_KEPT", 3)
    shapes = [(4, 8), (5, 8), (6, 8), (7, 8), (8, 8)]
    for shape in shapes[1:]:
        add_trial(settings, 10.0, shape)
    asked = [api.asked("planted", shape, settings, device="cpu") for shape in shapes]
    for each in asked:
        answers.best_json(each)
    assert [answers.kept_json(each) is not None for each in asked] == [False, False, *[True] * 3]


def test_one_question_has_one_form(settings: Settings) -> None:
    plain = api.asked("planted", SHAPE, settings)
    assert plain == api.asked(
        "planted", (4, 8), settings, dtype="float32", scalars={}, device="auto", match="exact"
    )
    assert plain != ASKED
    assert plain != other_question(settings)
    gpu = api.asked("planted", SHAPE, settings, architecture="gfx1201")
    assert gpu == api.asked("planted", "04x8", settings, architecture="gfx1201", match="same-arch")


def test_a_device_or_an_architecture_is_asked_for_and_not_both(settings: Settings) -> None:
    with pytest.raises(UsageError, match="'cpu' and architecture 'gfx1201' are both given"):
        api.asked("planted", SHAPE, settings, architecture="gfx1201", device="cpu")


def other_question(settings: Settings) -> api.Asked:
    """Return a question that nobody asked."""
    return api.asked("planted", "4x9", settings, device="cpu")
