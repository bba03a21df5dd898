"""One operator whose files are broken: it is named, and the others go on to be served."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from places import OPERATORS
from serving import Serving
from working import PLANTED_STUDY

from tuner.environ import process_environment
from tuner.settings import Settings

Maker = Callable[..., TestClient]
FAULT = "operator.py fails when loaded: ZeroDivisionError: division by zero"


@pytest.fixture
def operators(tmp_path: Path) -> Path:
    """A folder with a sound operator and a broken one."""
    folder = tmp_path / "own"
    shutil.copytree(OPERATORS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "broken").mkdir()
    (folder / "broken" / "operator.py").write_text("1 / 0\n", encoding="utf-8")
    return folder


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """A folder with a study of each."""
    folder = tmp_path / "st"
    folder.mkdir()
    for operator in ("planted", "broken"):
        text = PLANTED_STUDY.format(
            name=operator, shapes='"6x40"', space="[space.good]\nBLOCK = [64]", timeout_s=20.0
        )
        text = text.replace('operator = "planted"', f'operator = "{operator}"')
        (folder / f"{operator}.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def client(make_client: Maker, settings: Settings, operators: Path, studies: Path) -> TestClient:
    """A client of a service with a broken operator."""
    changes = {"operators": (operators,), "studies": (studies,)}
    return make_client(settings=settings.model_copy(update=changes))


def test_the_other_operators_are_served(client: TestClient) -> None:
    listed = client.get("/api/v1/operators").json()["items"]
    assert "planted" in {each["operator"] for each in listed}
    assert "broken" not in {each["operator"] for each in listed}
    assert "planted" in client.get("/api/v1/operators.csv").text
    for path in ("/", "/lookup", "/studies", "/readyz"):
        assert client.get(path).status_code == 200, path
    asked = "operator=planted&shape=6x40&target=device:cpu&match=nearest-shape"
    assert client.get(f"/lookup?{asked}").status_code in (200, 404)
    assert client.post("/api/v1/studies", json={"study": "planted"}).status_code == 202


def test_who_asks_for_the_broken_one_did_no_wrong(
    client: TestClient, operators: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in (
        client.get("/api/v1/best?operator=broken&shape=6x40"),
        client.post("/api/v1/studies", json={"study": "broken"}),
    ):
        assert answer.status_code == 500
        assert answer.json() == {
            "schema": "tuner.error/1",
            "error": "broken_operator",
            "message": "the operator 'broken' can't be loaded",
            "hint": "the service's log says more",
            "status": 500,
        }
    for answer in (
        client.get("/lookup?operator=broken&shape=6x40"),
        client.post("/studies", data={"study": "broken"}),
    ):
        assert answer.status_code == 500
        text = html.unescape(answer.text)
        assert "the operator 'broken' can't be loaded" in text
        assert "ZeroDivisionError" not in text
        assert str(operators) not in text
    assert f"broken/{FAULT}" in caplog.text


def test_a_folder_that_goes_is_no_fault_of_clients(client: TestClient, operators: Path) -> None:
    shutil.rmtree(operators)
    for path in ("/api/v1/best?operator=planted&shape=6x40", "/api/v1/operators"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]) == (500, "broken_operator")
        assert answer.json()["message"] == "the operators can't be loaded"
    assert client.get("/").status_code == 500


def test_a_kernel_that_is_gone_is_as_a_broken_operator(client: TestClient, operators: Path) -> None:
    for path in operators.glob("planted/*.hip"):
        path.unlink()
    answer = client.get("/api/v1/best?operator=planted&shape=6x40")
    assert (answer.status_code, answer.json()["error"]) == (500, "broken_operator")


def test_the_start_names_file_and_fault(tmp_path: Path, cache_dir: Path, operators: Path) -> None:
    words = ("--no-work", "--operators", str(operators))
    with Serving(str(tmp_path / "x.db"), cache_dir, tmp_path, *words) as service:
        first = service.log.splitlines()[0]
        assert f"{operators / 'broken'}/{FAULT}" in first
        assert service.client.get("/").status_code == 200
    work = [sys.executable, "-m", "tuner", "work", "--device", "cpu", *words[1:]]
    process = subprocess.Popen(
        [*work, "--db", str(tmp_path / "x.db")],
        stderr=subprocess.PIPE, text=True, env=process_environment(), cwd=tmp_path,
    )  # fmt: skip
    with suppress(subprocess.TimeoutExpired), process:
        assert process.stderr is not None
        assert f"broken/{FAULT}" in process.stderr.readline()
        process.terminate()


@pytest.mark.parametrize("command", ["serve --no-work --port 0", "work", "operators"])
def test_a_folder_without_an_operator_ends_a_command(tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tuner", *command.split(), "--operators", "empty"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, env=process_environment(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no operator in empty\nhint: ")


def test_the_command_lists_the_others_and_names_the_fault(tmp_path: Path, operators: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "operators", "--operators", operators, "--format", "json"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, env=process_environment(),
    )  # fmt: skip
    assert done.returncode == 2
    assert "planted" in {each["operator"] for each in json.loads(done.stdout)["rows"]}
    assert done.stderr.splitlines() == [f"error: {operators / 'broken'}/{FAULT}"]
