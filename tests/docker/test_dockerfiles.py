"""The Dockerfiles, without an engine: linted, and each command's parts looked up."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from dockerfiles import DOCKERFILES
from dockerfiles import instructions
from dockerfiles import last
from dockerfiles import ROOT
from dockerfiles import shell_commands
from dockerfiles import tool

SECRET = re.compile(r"token|password|passwd|secret|api_?key", re.IGNORECASE)
every_file = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.suffix[1:])


def test_there_is_one_for_each_kind_of_device() -> None:
    assert [path.suffix for path in DOCKERFILES] == [".cpu", ".cuda", ".rocm"]


@every_file
def test_hadolint_finds_nothing(path: Path) -> None:
    answer = subprocess.run(
        [tool("hadolint"), "--no-color", str(path)], capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout == ""


@every_file
def test_it_runs_as_a_numeric_user_and_holds_no_secret(path: Path) -> None:
    assert last(path, "USER").text == "10001:10001"
    assert any(
        words[:5] == ["useradd", "--uid", "10001", "--gid", "10001"]
        for words in shell_commands(path)
    )
    for each in instructions(path):
        if each.name in ("ARG", "ENV"):
            assert not SECRET.search(each.text), each
        assert each.name != "ADD", "it fetches from anywhere, and unpacks"
        if each.name == "COPY" and "--from=build" not in each.text:
            assert each.words[0].startswith("--chmod") or each.words == [".", "."]


@every_file
def test_what_pip_installs_are_extras_of_ours(path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installs = [words for words in shell_commands(path) if "install" in words and "pip" in words[0]]
    installs += [words for words in shell_commands(path) if words[1:4] == ["-m", "pip", "install"]]
    installs += [words for words in shell_commands(path) if words[2:5] == ["-m", "pip", "install"]]
    assert len(installs) == 1, "one install, so that one set of versions is chosen"
    (target,) = [word for word in installs[0] if word.startswith(".[")]
    extras = set(target[2:-1].split(","))
    assert extras <= set(project["optional-dependencies"])
    assert {"service", "postgres"} <= extras
    assert "-c" in installs[0], "the versions that were tested"
    others = {"cpu": {"triton"}, "cuda": {"triton", "nvidia"}, "rocm": {"amd"}}
    assert extras - {"service", "postgres"} == others[path.suffix[1:]]


def test_one_argument_gives_rocm_and_hip_python() -> None:
    (path,) = [each for each in DOCKERFILES if each.suffix == ".rocm"]
    assert "rocm${ROCM_VERSION}_" in last(path, "FROM").text
    (run,) = [each.text for each in instructions(path) if "hip-python==" in each.text]
    assert '"hip-python==${rocm}.*"' in run
    # The shell part that makes a pin of the argument, for a release with and without a patch.
    pin = run.partition("&&")[0]
    for given, wanted in (("7.2.2", "7.2.2"), ("7.2", "7.2.0")):
        answer = subprocess.run(
            ["bash", "-c", f'ROCM_VERSION={given}; {pin}; echo "$rocm"'],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert answer.stdout.strip() == wanted
    left = subprocess.run(
        ["grep", "-v", "-i", "-E", "^(hip-python|triton)==", "constraints.txt"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert "grep -v -i -E '^(hip-python|triton)==' constraints.txt" in run
    assert "hip-python" not in left
    assert "triton" not in left.lower()
    assert "SQLAlchemy==" in left


@every_file
def test_the_build_finds_the_files_it_copies(path: Path) -> None:
    kept = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in kept:
        assert (ROOT / name).exists(), name
    needed = {"pyproject.toml", "hatch_build.py", "constraints.txt", "tuner"}
    needed |= {project["readme"], *project["license-files"]}
    for words in shell_commands(path):  # scripts of ours that a RUN calls
        needed |= {word.removeprefix("/src/") for word in words if word.startswith("/src/docker/")}
    for each in instructions(path):
        if each.name == "COPY" and each.words[0].startswith("--chmod"):
            needed.add(each.words[1])
    (bundled,) = re.findall(r"^BUNDLED = (\(.*\))$", (ROOT / "hatch_build.py").read_text(), re.M)
    assert needed | set(ast.literal_eval(bundled)) <= kept


@every_file
def test_the_packages_of_debian_exist(path: Path) -> None:
    names = {
        word
        for words in shell_commands(path)
        if words[:2] == ["apt-get", "install"]
        for word in words[2:]
        if not word.startswith("-")
    }
    if path.suffix == ".rocm":
        assert not names, "all comes with the base image"
        return
    assert "g++" in names, "the CPU device compiles kernels"
    if not shutil.which("apt-cache"):
        pytest.skip("there is no apt here")
    answer = subprocess.run(
        ["apt-cache", "show", "--no-all-versions", *sorted(names)],
        capture_output=True,
        text=True,
    )
    if not answer.stdout:
        pytest.skip("apt has no lists of packages here")
    shown = set(re.findall(r"^Package: (\S+)$", answer.stdout, re.MULTILINE))
    assert names <= shown


@every_file
def test_build_and_final_stage_are_of_one_base(path: Path) -> None:
    bases = {each.text.split(" AS ")[0] for each in instructions(path) if each.name == "FROM"}
    assert len(bases) == 1, "the virtual environment points to the Python of its stage"


@every_file
def test_its_user_can_write_where_the_settings_point(path: Path) -> None:
    made = [words for words in shell_commands(path) if words[:2] == ["install", "-d"]]
    assert made == [
        ["install", "-d", "-o", "10001", "-g", "10001", "/var/lib/tuner", "/var/cache/tuner"]
    ]
    settings = dict(
        word.split("=", 1)
        for each in instructions(path)
        if each.name == "ENV"
        for word in each.words
    )
    assert Path(settings["TUNER_DB"]).parent == Path("/var/lib/tuner")
    assert settings["TUNER_CACHE_DIR"] == "/var/cache/tuner"
    known = {"TUNER_DB", "TUNER_CACHE_DIR"}
    assert {name for name in settings if name.startswith("TUNER_")} == known


def test_the_constraints_are_read_as_the_python_of_the_image_would() -> None:
    (path,) = [each for each in DOCKERFILES if each.suffix == ".cpu"]
    (version,) = [
        each.text.partition("=")[2]
        for each in instructions(path)
        if each.text.startswith("PYTHON_VERSION=")
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={version}", "the version that CI tests"
    assert sys.version_info >= tuple(int(part) for part in version.split("."))
