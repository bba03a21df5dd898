"""``tuner dashboard``: our trials as Optuna studies, shown by optuna-dashboard on loopback."""

from __future__ import annotations

import json
import math
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from datetime import UTC
from pathlib import Path

import optuna
import pytest
from command import Command
from places import OPERATORS

from tuner.api import optuna_copies
from tuner.domain.outcome import Outcome
from tuner.domain.study import SkippedPoint
from tuner.domain.workload import make_workload
from tuner.errors import UsageError
from tuner.service.dashboard import check_dashboard
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store import Store
from tuner.study.optuna_copy import copy_to_optuna
from tuner.study.optuna_copy import IMPLEMENTATION
from tuner.study.optuna_copy import StudyCopy
from tuner.study.optuna_copy import TrialCopy
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
COMPLETE, FAIL, RUNNING = (
    optuna.trial.TrialState.COMPLETE,
    optuna.trial.TrialState.FAIL,
    optuna.trial.TrialState.RUNNING,
)


def store_study(store: Store) -> None:
    """Store six trials of one workload and one of another; the quick stage misjudged one."""
    recorder = store.recorder()
    space = {"block": {"BLOCK": [64, 128, 256, 512, 1024]}, "serial": {"UNROLL": ["no", "yes"]}}
    study = recorder.open_study(
        make_definition(spec={"space": space}, planned=7), fresh=False
    ).study_id

    def start(*point: int | str, **more: int | str) -> int:
        return recorder.start_trial(study, make_point(*point, **more), GEOMETRY)  # type: ignore[arg-type]

    confirmed = start(64)
    recorder.finish_trial(confirmed, make_report([12.0] * 3), bytes_moved=1)
    for position in range(2):
        report = make_report([8.25 + position] * 3)
        recorder.record_confirmation(position, [(confirmed, report)], required=2)
    recorder.finish_trial(start(128), make_report([10.0] * 3), bytes_moved=1)
    recorder.finish_trial(start(256), make_failure(), bytes_moved=1)
    recorder.finish_trial(
        start(64, "serial", UNROLL="yes"), make_report([500.0] * 3), bytes_moved=1
    )
    recorder.skip_points(study, [SkippedPoint(make_point(2048), "threads_per_block: too many")])
    other = make_workload("vector_add", (3, 13), "float32", {"scale": 0.1})
    recorder.finish_trial(start(64, workload=other), make_report([1.0] * 3), bytes_moved=1)  # type: ignore[arg-type]
    start(512)  # still runs


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Iterator[Settings]:
    """Settings of a database with one study, which is being driven."""
    found = make_settings()
    with open_store(found.db, create=True, writable=True) as store:
        store_study(store)
        yield found


def test_a_workload_is_an_optuna_study_with_the_same_best(settings: Settings) -> None:
    copies = optuna_copies(["nightly"], settings)

    assert copies.names == ("nightly #1 1024x4096 float32", "nightly #1 3x13 float32")
    study = optuna.load_study(study_name=copies.names[0], storage=copies.storage)
    assert study.best_value == 8.75, "the confirmed median, not the one of the quick stage"
    assert study.best_params == {IMPLEMENTATION: "block", "BLOCK": 64}
    assert study.best_trial.user_attrs["confirmed"] is True
    assert [each.state for each in study.trials] == [
        COMPLETE, COMPLETE, FAIL, COMPLETE, FAIL, RUNNING,
    ]  # fmt: skip
    assert [each.user_attrs["outcome"] for each in study.trials] == [
        "ok", "ok", "compile_error", "ok", "skipped", "running",
    ]  # fmt: skip
    assert [each.value for each in study.trials if each.state is not COMPLETE] == [None] * 3
    assert study.trials[2].user_attrs["message"] == "error: no such thing"
    assert study.user_attrs["operator"] == "vector_add"
    quick = optuna.load_study(study_name=copies.names[1], storage=copies.storage)
    assert quick.best_value == 1.0


def test_distributions_are_those_of_the_space_with_what_was_tried(settings: Settings) -> None:
    copies = optuna_copies([], settings)

    study = optuna.load_study(study_name=copies.names[0], storage=copies.storage)
    first = study.trials[0].distributions
    assert first["BLOCK"] == optuna.distributions.IntDistribution(64, 2048, log=True)
    serial = study.trials[3].distributions
    assert serial["UNROLL"] == optuna.distributions.CategoricalDistribution(["no", "yes"])
    assert first[IMPLEMENTATION] == optuna.distributions.CategoricalDistribution(
        ["block", "serial"]
    )


def test_the_operators_own_values_count_where_the_study_gives_none(
    make_settings: Callable[..., Settings],
) -> None:
    settings = make_settings(operators=(OPERATORS,))
    workload = make_workload("planted", (6, 40), "float32", {})
    with open_store(settings.db, create=True, writable=True) as store:
        recorder = store.recorder()
        definition = make_definition(operator="planted", spec={"space": None})
        study_id = recorder.open_study(definition, fresh=False).study_id
        recorder.start_trial(study_id, make_point(64, "block", workload), GEOMETRY)

    copies = optuna_copies([], settings)

    study = optuna.load_study(study_name=copies.names[0], storage=copies.storage)
    choices = study.trials[0].distributions[IMPLEMENTATION].choices  # type: ignore[attr-defined]
    assert {"good", "wrong", "block"} <= set(choices)


@pytest.mark.parametrize("value", [None, 0.0, -1.0, math.nan, math.inf])
def test_a_value_that_is_no_time_never_becomes_best(value: float | None) -> None:
    trials = [
        TrialCopy("a", {"X": 1}, Outcome.OK, each, NOW, NOW, {}) for each in (value, 5.0, value)
    ]

    storage = copy_to_optuna([StudyCopy("one", {}, {}, trials)])

    study = optuna.load_study(study_name="one", storage=storage)
    assert (study.best_value, study.best_trial.number) == (5.0, 1)
    assert [each.state for each in study.trials] == [FAIL, COMPLETE, FAIL]


def test_values_of_several_kinds_become_categories() -> None:
    values = (1, 1.0, True, "1x")
    trials = [TrialCopy("a", {"X": each}, Outcome.OK, 2.0, NOW, NOW, {}) for each in values]

    storage = copy_to_optuna([StudyCopy("one", {}, {"a": {"Y": [0.5, 1.5], "Z": []}}, trials)])

    study = optuna.load_study(study_name="one", storage=storage)
    assert [each.params["X"] for each in study.trials] == ["1", "1.0", "True", "1x"]


@contextmanager
def dashboard(tuner: Command, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command and give its address and process once it answers."""
    process = tuner.start("dashboard", *words, "--port", "0")
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://\S+/", line):
                yield found[0], process
                break
        else:
            pytest.fail("no address was printed")
    finally:
        process.kill()
        process.communicate(timeout=10)


def ask(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_command_serves_them_to_this_machine_only(tuner: Command, settings: Settings) -> None:
    with dashboard(tuner, "nightly", "--db", settings.db) as (address, process):
        assert ask(f"{address}dashboard")[0] == 200
        _, body = ask(f"{address}api/studies")
        studies = json.loads(body)["study_summaries"]
        assert [each["study_name"] for each in studies] == [
            "nightly #1 1024x4096 float32", "nightly #1 3x13 float32",
        ]  # fmt: skip
        status, body = ask(f"{address}api/studies/{studies[0]['study_id']}")
        assert status == 200
        assert json.loads(body)["best_trials"][0]["values"] == [8.75]
        assert ask(f"{address}api/studies", Host="rebound.example")[0] == 403

        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org", ""])
def test_an_address_that_others_reach_is_refused(host: str) -> None:
    for port, shown in ((9000, "9000"), (0, "PORT")):
        with pytest.raises(UsageError, match="it has no login") as caught:
            check_dashboard(host, port)
        assert f"ssh -L {shown}:localhost:{shown} " in caught.value.hint
    for mine in ("localhost", "127.0.0.1", "127.9.9.9", "::1"):
        check_dashboard(mine, 8766)


def test_what_it_refuses(tuner: Command, settings: Settings, tmp_path: Path) -> None:
    def refused(code: int, *words: str, **environment: str) -> str:
        answer = tuner("dashboard", *words, **environment)
        assert answer.code == code, answer.err
        assert answer.out == ""
        return answer.err

    assert "it has no login" in refused(2, "--host", "0.0.0.0")
    assert "no study 'weekly'" in refused(4, "weekly")

    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "optuna_dashboard.py").write_text(
        "raise ModuleNotFoundError('', name='optuna_dashboard')"
    )
    text = refused(3, PYTHONPATH=str(absent))
    assert text.splitlines() == [
        "error: the dashboard needs the package optuna-dashboard",
        "hint: install it with: pip install 'tuner[dashboard]'",
    ]

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port} of 127.0.0.1 can't be used" in refused(3, "--port", port)
