"""The command as users run it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLANTED_STUDY = """
schema = 1
name = "planted"
operator = "planted"
device = "cpu"
shapes = ["6x40"]
[space.good]
BLOCK = [64]
{more}
[search]
finalists = 2
[protocol]
warmup = 1
samples = 5
processes = 2
launches_per_sample = 1
[quick]
warmup = 2
samples = 9
[limits]
run_timeout_s = 3.0
"""


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as strict JSON."""

        def refuse(text: str) -> None:
            raise ValueError(f"{text} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


class Command:
    """The ``tuner`` command with the test's database and cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start the command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "tuner", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "NO_COLOR": "1", **environment},
        )

    def __call__(self, *words: str, **environment: str) -> Answer:
        """Run the command to its end."""
        with self.start(*words, **environment) as process:
            out, err = process.communicate(timeout=110)
        assert "Traceback" not in err or "--debug" in words, err
        return Answer(process.returncode, out, err)

    def write_study(self, name: str, text: str) -> str:
        """Write a study file and return its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def planted_study(self, *faults: str, name: str = "planted.toml") -> str:
        """Write a study over the good kernel and some with faults."""
        more = "".join(f"[space.{fault}]\nBLOCK = [64]\n" for fault in faults)
        return self.write_study(name, PLANTED_STUDY.format(more=more))
