"""Times a whole ``tuner run``, and when it came to each of its steps."""

from __future__ import annotations

import compileall
import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tuner


@dataclass(frozen=True)
class Timed:
    """A whole ``tuner run``: its seconds, what it printed, and when it came to each step."""

    elapsed_s: float
    answer: dict[str, Any]
    marks_s: dict[str, float]


# What is said on stderr with -v, the first or the last time.
STEPS = (
    ("first process", r"process \d+ started", 0),
    ("device open", r"has opened", 0),
    ("study", r"^(starting|going on|already)", 0),
    ("first build", r"built .* in", 0),
    ("worker prepared", r"is prepared", 0),
    ("first trial", r": ok ", 0),
    ("last build", r"built .* in", -1),
    ("last trial", r": ok ", -1),
    ("first confirmation", r"confirming .* process 1 ", 0),
    ("last confirmation", r"confirming ", -1),
    ("processes ended", r"ended in", -1),
    ("result", r"^study .* finished", 0),
)


def compile_package() -> None:
    """Compile the package to bytecode as an installer does: the cold run of a checkout would."""
    compileall.compile_dir(Path(tuner.__file__).parent, quiet=1)


def run_tuner(
    study: Path, device: str, directory: Path, environment: Mapping[str, str], *options: str
) -> Timed:
    """Run ``tuner run`` as a whole, noting when it said what."""
    command = [sys.executable, "-m", "tuner", "run", str(study), "--device", device, "-v"]
    command += ["--db", str(directory / "results.db"), "--format", "json", *options]
    printed = directory / "printed.json"
    lines: list[tuple[float, str]] = []
    with printed.open("w") as output:
        begun = time.perf_counter()
        with subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stderr is not None
            lines += [(time.perf_counter() - begun, line.rstrip()) for line in running.stderr]
        elapsed_s = time.perf_counter() - begun
    if running.returncode:
        print("\n".join(line for _, line in lines[-20:]), file=sys.stderr)
        raise SystemExit(f"{shlex.join(command)} ended with {running.returncode}")
    return Timed(elapsed_s, json.loads(printed.read_text()), marks_of(lines, elapsed_s))


def marks_of(lines: Sequence[tuple[float, str]], elapsed_s: float) -> dict[str, float]:
    """Return after how many seconds each step of a run was first, or last, spoken of."""
    marks: dict[str, float] = {}
    for name, pattern, which in STEPS:
        times = [at_s for at_s, line in lines if re.search(pattern, line)]
        if times:
            marks[name] = round(times[which], 2)
    return {**marks, "exit": round(elapsed_s, 2)}
