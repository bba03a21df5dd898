"""What the images run: entry script, health check, and the check of ROCm's parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from dockerfiles import DOCKER
from dockerfiles import DOCKERFILES
from dockerfiles import last
from dockerfiles import tool
from serving import Serving

ENTRYPOINT = DOCKER / "entrypoint.sh"


def enter(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the entry script with a command."""
    return subprocess.run(
        ["sh", str(ENTRYPOINT), *words],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip


def test_the_script_hands_the_password_to_the_command_and_takes_its_exit_code(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "db_password"
    secret.write_text("it's $(a) \\secret\n")
    code = 'import os, sys; print(os.environ["PGPASSWORD"], os.getpid()); sys.exit(7)'

    answer = enter(sys.executable, "-c", code, PGPASSWORD_FILE=str(secret))

    assert answer.returncode == 7
    assert answer.stdout.rpartition(" ")[0] == "it's $(a) \\secret"
    assert answer.stderr == ""


def test_the_script_becomes_the_command_and_sets_nothing_without_a_file() -> None:
    answer = enter("sh", "-c", 'echo "${PGPASSWORD-unset} $PPID $1"', "name", "two words")
    assert answer.stdout.split(maxsplit=2) == ["unset", str(os.getpid()), "two words\n"]


def test_a_secret_that_cannot_be_read_ends_it_with_one_line(tmp_path: Path) -> None:
    answer = enter("echo", "started", PGPASSWORD_FILE=str(tmp_path / "none"))
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr.startswith(f"error: PGPASSWORD_FILE: {tmp_path}/none can't be read")


@pytest.mark.parametrize("script", [ENTRYPOINT, DOCKER.parent / ".ci" / "run"], ids=str)
def test_shellcheck_finds_nothing(script: Path) -> None:
    answer = subprocess.run([tool("shellcheck"), str(script)], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (0, "")


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server that answers ``/healthz`` with a status, and anything else with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def health_check(path: Path, port: int) -> int:
    """Run a Dockerfile's health check against another port and return its exit code."""
    options, _, command = last(path, "HEALTHCHECK").text.partition("CMD ")
    assert "--interval=" in options
    words = [str(word) for word in json.loads(command)]
    assert words[0] == "python3"
    assert "127.0.0.1:8765/healthz" in words[-1]
    words[-1] = words[-1].replace(":8765/", f":{port}/")
    return subprocess.run([sys.executable, *words[1:]], stderr=subprocess.DEVNULL).returncode


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.suffix[1:])
def test_the_health_check_is_that_of_the_port_served(path: Path) -> None:
    assert last(path, "EXPOSE").text == "8765"
    assert "--port" not in last(path, "CMD").words, "the default of tuner serve"
    with answering(200) as port:
        assert health_check(path, port) == 0
    assert health_check(path, port) != 0, "nobody listens any more"
    with answering(503) as port:
        assert health_check(path, port) != 0


def test_the_health_check_passes_on_the_service_itself(tmp_path: Path, cache_dir: Path) -> None:
    # Listening as in a container, where the check comes from a loopback address without a token.
    words = ("--host", "0.0.0.0", "--no-work")
    with Serving(str(tmp_path / "served.db"), cache_dir, tmp_path, *words) as service:
        port = service.client.base_url.port
        assert port is not None
        assert health_check(DOCKERFILES[0], port) == 0


@pytest.mark.parametrize(
    ("rocm", "hip_python", "triton", "found"),
    [
        ("7.2.2\n", "7.2.2.562.43", "3.6.0+rocm7.2.2.gitba5c1517", []),
        ("7.2.0-70", "7.2.0.562.43", "3.10.0", []),
        ("7.2.0", "7.2.2.562.43", "3.6.0", ["hip-python 7.2.0.*, there is 7.2.2.562.43"]),
        ("7.2.2", "", "", ["there is none", "Triton 3.6 or newer is needed, there is none"]),
        ("7.2.2", "7.2.2.562.43", "3.5.1", ["there is 3.5.1"]),
    ],
)
def test_parts_of_rocm_that_do_not_fit_end_the_build(
    monkeypatch: pytest.MonkeyPatch, rocm: str, hip_python: str, triton: str, found: list[str]
) -> None:
    monkeypatch.syspath_prepend(DOCKER)
    import check_rocm

    lines = check_rocm.problems(rocm, hip_python, triton)
    assert len(lines) == len(found)
    assert all(wanted in line for line, wanted in zip(lines, found, strict=True))


def write_module(folder: Path, name: str, text: str) -> None:
    path = folder / f"{name.replace('.', '/')}.py"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("hip", "triton", "found"),
    [
        ("", "__version__ = '3.6.0'", []),
        ("raise ImportError('libhiprtc.so.7: cannot open')", "__version__ = '3.6.0'",
         ["hip.hiprtc can't be loaded: libhiprtc.so.7: cannot open"]),
        ("raise RuntimeError('two\\nlines')", "raise AttributeError",
         ["hip.hiprtc can't be loaded: two lines", "triton can't be loaded: AttributeError"]),
        ("", "import no_such_part",
         ["triton can't be loaded: No module named 'no_such_part'"]),
    ],
)  # fmt: skip
def test_what_is_installed_and_can_t_be_loaded_is_said_so(
    tmp_path: Path, hip: str, triton: str, found: list[str]
) -> None:
    write_module(tmp_path, "hip.__init__", "")
    write_module(tmp_path, "hip.hiprtc", hip)
    write_module(tmp_path, "triton", triton)
    metadata = tmp_path / "hip_python-7.2.2.562.43.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: hip-python\nVersion: 7.2.2.562.43\n")
    rocm = tmp_path / "version"
    rocm.write_text("7.2.2\n")
    code = f"import check_rocm as c; raise SystemExit(c.main(c.Path({str(rocm)!r})))"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{DOCKER}"},
    )
    assert answer.stderr.splitlines() == [f"error: {line}" for line in found]
    assert answer.returncode == bool(found)


def test_the_oldest_triton_is_the_one_our_extra_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCKER)
    import check_rocm

    oldest = ".".join(str(part) for part in check_rocm.OLDEST_TRITON)
    assert f'triton = ["triton>={oldest}"]' in (DOCKER.parent / "pyproject.toml").read_text()


def test_without_rocm_the_check_says_so_in_one_line() -> None:
    if Path("/opt/rocm/.info/version").exists():
        pytest.skip("there is a ROCm here")
    answer = subprocess.run(
        [sys.executable, str(DOCKER / "check_rocm.py")], capture_output=True, text=True
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: no ROCm here")
    assert answer.stderr.count("\n") == 1
