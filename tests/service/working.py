"""Processes that take jobs, and a folder of studies that they know, for tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import OPERATORS

from tuner import api
from tuner.settings import Settings

WAIT_S = 60.0
PLANTED_STUDY = """
schema = 1
name = "{name}"
operator = "planted"
device = "cpu"
shapes = [{shapes}]
{space}
[search]
finalists = 1
[protocol]
warmup = 1
samples = 5
processes = 1
launches_per_sample = 1
[quick]
warmup = 1
samples = 3
[limits]
run_timeout_s = {timeout_s}
"""


class Workplace:
    """A database, and study files that may be started by name."""

    def __init__(self, folder: Path, cache_dir: Path) -> None:
        self.folder = folder
        self.studies = folder / "studies"
        self.studies.mkdir()
        self.settings = Settings(
            db=str(folder / "jobs.db"),
            cache_dir=cache_dir,
            operators=(OPERATORS,),
            studies=(self.studies,),
        )

    def register(
        self,
        name: str,
        *implementations: str,
        shapes: tuple[str, ...] = ("6x40",),
        blocks: tuple[int, ...] = (64,),
        timeout_s: float = 20.0,
    ) -> str:
        """Write a study over some of the planted kernels, and return its name."""
        listed = ", ".join(map(str, blocks))
        text = PLANTED_STUDY.format(
            name=name,
            shapes=", ".join(f'"{each}"' for each in shapes),
            space="\n".join(f"[space.{each}]\nBLOCK = [{listed}]" for each in implementations),
            timeout_s=timeout_s,
        )
        (self.studies / f"{name}.toml").write_text(text, encoding="utf-8")
        return name

    def launch(self, study: str, **options: Any) -> int:
        """Ask for a study and return the job."""
        job, is_new = api.launch_study(study, settings=self.settings, **options)
        assert is_new
        job_id: int = job["job_id"]
        return job_id

    def job(self, job_id: int) -> dict[str, Any]:
        """Return a job."""
        return api.show_job(job_id, self.settings)

    def progress(self, job_id: int) -> dict[str, Any]:
        """Return how far a job is."""
        return api.job_progress(job_id, self.settings)

    def wait_for(self, job_id: int, *states: str) -> dict[str, Any]:
        """Wait until a job is in one of some states."""
        wait(lambda: self.job(job_id)["state"] in states, f"{states}, not {self.job(job_id)}")
        return self.job(job_id)

    def wait_for_trials(self, job_id: int, count: int) -> None:
        """Wait until so many trials of a job's study are done."""
        wait(
            lambda: self.progress(job_id)["done"] >= count,
            lambda: f"{count} trials, not {self.progress(job_id)}",
        )

    def start(self) -> subprocess.Popen[str]:
        """Start ``tuner work`` for the CPU."""
        words = ["--device", "cpu", "--db", self.settings.db]
        words += ["--operators", str(OPERATORS), "--studies", str(self.studies)]
        return subprocess.Popen(
            [sys.executable, "-m", "tuner", "work", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def working(self) -> Iterator[subprocess.Popen[str]]:
        """Have jobs taken while the context lasts; then they are let go of, without a word."""
        with self.start() as process:
            try:
                yield process
                process.send_signal(signal.SIGTERM)
                said, _ = process.communicate(timeout=WAIT_S)
                assert process.returncode == 0, said
                assert "Traceback" not in said, said
            finally:
                process.kill()


def wait(
    is_so: Callable[[], bool], what: str | Callable[[], str], timeout_s: float = WAIT_S
) -> None:
    """Wait until something is so."""
    end = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end:
            pytest.fail(f"waited {timeout_s:g} s for {what if isinstance(what, str) else what()}")
        time.sleep(0.05)
