"""``tuner serve`` as a process: how it starts, ends, and what ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import own_addresses
from serving import Serving
from serving import TOKEN
from starlette.datastructures import Headers
from working import wait

from tuner.cli import serve as serve_command
from tuner.cli.serve import read_token
from tuner.errors import UsageError
from tuner.service import server
from tuner.service import supervisor
from tuner.service.app import create_app
from tuner.service.server import ServeOptions
from tuner.settings import Settings

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
OTHERS = "0.0.0.0"


def refused(*words: str) -> tuple[int, str]:
    """Return exit code and message of a service that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "tuner", "serve", "--port", "0", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture
def serving(tmp_path: Path, cache_dir: Path) -> Iterator[Callable[..., Serving]]:
    """Return a starter of services over a database of the test's own."""
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> Serving:
            db = str(tmp_path / "served.db")
            return stack.enter_context(Serving(db, cache_dir, tmp_path, *words))

        yield start


def test_it_makes_the_database_and_ends_well_with_a_stream_open(
    serving: Callable[..., Serving], tmp_path: Path
) -> None:
    service = serving("--no-work")
    assert (tmp_path / "served.db").exists()
    assert service.client.get("/readyz").status_code == 200
    assert service.client.get("/api/v1/studies").json()["items"] == []
    assert not psutil.Process(service.process.pid).children()

    with service.client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry: ")
        begun = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        rest = list(lines)  # to its end: it is closed, not cut off
    code = service.process.wait(20)

    assert any(line.startswith("data: ") for line in rest)
    assert code == 0, service.log
    assert time.monotonic() - begun < 10.0
    assert "Traceback" not in service.log
    assert TOKEN not in service.log
    assert "GET /readyz 200" in service.log


def test_the_process_that_takes_jobs_is_started_again_and_ends_with_the_service(
    serving: Callable[..., Serving],
) -> None:
    service = serving("--device", "cpu")

    def worker() -> psutil.Process | None:
        children = psutil.Process(service.process.pid).children()
        return children[0] if children else None

    wait(lambda: worker() is not None, "a worker")
    first = worker()
    assert first is not None
    first.kill()
    wait(lambda: (now := worker()) is not None and now.pid != first.pid, "another worker")
    second = worker()
    assert second is not None
    wait(lambda: "idle" in [each["state"] for each in devices(service)], "an idle device")
    service.process.kill()
    service.process.wait()

    def has_ended() -> bool:
        return not second.is_running() or second.status() == psutil.STATUS_ZOMBIE

    wait(has_ended, "the worker's end", 5.0)


def devices(service: Serving) -> list[dict[str, str]]:
    found: list[dict[str, str]] = service.client.get("/api/v1/devices").json()["items"]
    return found


def test_others_reach_it_as_the_documentation_says(serving: Callable[..., Serving]) -> None:
    service = serving("--no-work", "--host", OTHERS)
    port = service.client.base_url.port

    for called in own_addresses():
        answer = service.client.get(f"http://{called}:{port}/api/v1/studies")
        assert answer.status_code == 200, called
    by_name = {"Host": f"{socket.gethostname()}:{port}"}
    assert service.client.get("/api/v1/studies", headers=by_name).status_code == 200
    first = service.log.splitlines()[0]
    assert first.startswith("answers to ")
    assert socket.gethostname().lower() in first
    assert "any of its IPv4 addresses" in first


@pytest.mark.parametrize(
    ("host", "said", "url"),
    [
        ("localhost", "answers to localhost, ", "http://"),
        ("127.0.0.2", "answers to 127.0.0.2, from this machine only;", "http://127.0.0.2:"),
        ("[::1]", "answers to localhost, ::1, from this machine only;", "http://[::1]:"),
        ("::", "answers to any of its IPv6 addresses, none of its IPv4 ones, ", "http://[::]:"),
    ],
)
def test_it_says_what_is_true_of_its_address(
    serving: Callable[..., Serving], host: str, said: str, url: str
) -> None:
    service = serving("--no-work", "--host", host)

    first, second = service.log.splitlines()[:2]
    assert first.startswith(said)
    assert second.startswith(f"listening on {url}")


def test_a_name_that_leads_to_this_machine_alone_is_as_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.1.1", 0))])
    made: list[Any] = []

    def make_app(settings: Settings, **options: Any) -> Any:
        made.append(create_app(settings, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "create_app", make_app)
    with pytest.raises(KeyboardInterrupt):
        server.serve(Settings(db=str(tmp_path / "x.db")), ServeOptions(host="vm"), lambda *_: None)
    access = made[0].state.service.access
    assert access.is_loopback, "reading is free, as nobody else comes here"
    assert access.called == "vm, 127.0.1.1, from this machine only"
    assert access.refusal("GET", "/", Headers({"Host": "vm:8765"})) is None


def test_it_does_not_start_where_it_must_not(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    shutil.copy(GOLDEN / "revision_0003.sqlite3", old)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, text = refused("--db", str(tmp_path / "new.db"), "--port", port, "--no-work")
        assert (code, port in text) == (2, True)

    typo = tmp_path / "typo" / "x.db"
    code, text = refused("--db", str(typo), "--no-work")
    assert (code, "there is no folder" in text) == (2, True)
    assert not typo.parent.exists()
    for host in ("no-such-host.invalid", "", "a..b"):
        code, text = refused("--host", host, "--db", str(tmp_path / "other.db"))
        assert (code, f"can't listen on {host!r}" in text) == (2, True)
    code, text = refused("--host", OTHERS, "--db", str(tmp_path / "other.db"))
    assert (code, "without a token" in text) == (2, True)
    assert not (tmp_path / "other.db").exists()
    code, text = refused("--db", str(old))
    assert (code, "tuner db upgrade" in text) == (3, True)


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"caf\xc3\xa9", b"x" * 5000])
def test_a_token_file_that_holds_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_bytes(content)

    with pytest.raises(UsageError, match="holds no token"):
        read_token(path)
    with pytest.raises(UsageError, match="can't be read"):
        read_token(tmp_path / "none")
    path.write_bytes(TOKEN.encode() + b"\n")
    assert read_token(path) == TOKEN


@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        *((0o600, ""), (0o400, ""), (0o640, ""), (0o440, "")),
        *((0o644, "open to every user"), (0o444, "open to every"), (0o602, "open to every user")),
        *((0o660, "written by its group"), (0o620, "written by"), (0o666, "open to every user")),
    ],
)
def test_a_token_file_that_too_many_can_read_or_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, fault: str
) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN, encoding="ascii")
    path.chmod(mode)

    if not fault:
        assert read_token(path) == TOKEN
    else:
        with pytest.raises(UsageError, match=fault) as caught:
            read_token(path)
        assert caught.value.hint == f"chmod 600 {path}"
    monkeypatch.setattr(serve_command, "_MOUNTED", tmp_path)  # as a container's secret
    assert read_token(path) == TOKEN


def test_a_token_comes_from_a_pipe() -> None:
    reading, writing = os.pipe()  # as `--token-file <(pass tuner)` gives it
    os.write(writing, TOKEN.encode())
    os.close(writing)
    assert read_token(Path(f"/dev/fd/{reading}")) == TOKEN
    os.close(reading)


def test_a_process_that_ends_at_once_is_started_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY_S", 0.2)
    starts: list[float] = []

    def start() -> subprocess.Popen[bytes]:
        starts.append(time.monotonic())
        if len(starts) == 2:  # as where there is no memory for another process
            raise BlockingIOError("no more processes")
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])

    async def run() -> None:
        stopping = asyncio.Event()
        task = asyncio.create_task(supervisor.supervise(start, stopping))
        while len(starts) < 4:
            await asyncio.sleep(0.01)
        stopping.set()
        await task

    asyncio.run(run())
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    assert pauses[0] >= 0.2
    assert 0.4 <= pauses[1] < 0.8, "the first delay is the first one; this start took no time"
    assert pauses[2] >= 0.8


def test_a_process_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "GRACE_S", 0.5)
    stubborn = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    async def run() -> None:
        stopping = asyncio.Event()
        task = asyncio.create_task(supervisor.supervise(lambda: process, stopping))
        await asyncio.sleep(0.1)
        stopping.set()
        await task

    asyncio.run(run())
    assert process.returncode == -signal.SIGKILL
    process.stdout.close()


def test_it_makes_answers_before_they_are_asked_for(
    serving: Callable[..., Serving], settings: Settings, tmp_path: Path
) -> None:
    shutil.copy(settings.db, tmp_path / "served.db")
    client = serving("--no-work").client

    def answers(state: str) -> float:
        text = client.get("/metrics").text
        return float(text.partition(f"\ntuner_best_answers_{state} ")[2].split()[0])

    wait(lambda: answers("kept") > 0 and answers("waiting") == 0, "answers made ahead")
    before = answers("kept")
    architecture = client.get("/api/v1/studies/planted").json()["architecture"]
    question = {"operator": "planted", "shape": "6x40", "arch": architecture}
    answer = client.get("/api/v1/best", params=question)
    assert answer.json()["best"]["workload"]["shape"] == [6, 40]
    assert answers("kept") == before
