"""Reads Dockerfiles and compose files, as far as the tests of ours need."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the exec form, or those a shell sees."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return shlex.split(self.text)


def instructions(path: Path) -> list[Instruction]:
    """Return the instructions of a Dockerfile in order."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = []
    for line in joined.splitlines():
        name, _, text = line.strip().partition(" ")
        if name:
            found.append(Instruction(name, " ".join(text.split())))
    return found


def last(path: Path, name: str) -> Instruction:
    """Return the last instruction of a kind: the one that counts."""
    return [each for each in instructions(path) if each.name == name][-1]


def shell_commands(path: Path) -> list[list[str]]:
    """Return each command of the RUN instructions as words."""
    found = []
    for each in instructions(path):
        if each.name == "RUN":
            words = shlex.split(each.text)
            start = 0
            for position, word in enumerate([*words, "&&"]):
                if word in ("&&", "|", "||", ";"):
                    found.append(words[start:position])
                    start = position + 1
    return found


def merged(*names: str, **variables: str) -> dict[str, Any]:
    """Return compose files as one, variables filled in, as `docker compose config` would."""
    result: dict[str, Any] = {}
    for name in names:
        text = _interpolated((DOCKER / name).read_text(), variables)
        result = _over(result, yaml.safe_load(text))
    return result


def tool(name: str) -> str:
    """Return the path of a program beside this Python, or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    assert found is not None, f"{name} is not installed: it is in the extra check"
    return found


def _interpolated(text: str, variables: dict[str, str]) -> str:
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))

    def value(match: re.Match[str]) -> str:
        name, kind, default = match["name"], match["kind"], match["default"]
        if name is None:
            return "$"
        if name in variables:
            return variables[name]
        assert kind == ":-", f"{name} must be set: {default}"
        return str(default)

    pattern = r"\$\$|\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<default>(?:[^{}])*))?\}"
    return re.sub(pattern, value, code)


def _over(under: Any, over: Any) -> Any:
    """Lay one file over another: mappings and lists grow, other values are replaced."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {
            name: _over(under[name], over[name])
            if name in under and name in over
            else over.get(name, under.get(name))
            for name in {**under, **over}
        }
    return over
