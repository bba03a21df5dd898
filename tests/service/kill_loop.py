"""Kills the whole service again and again while clients write, and looks at what is left.

What must hold: every write that was answered with 2xx is in the database, once; the service
answers again soon after its start; studies go on, and end with every planned trial.
"""

from __future__ import annotations

import http.client
import json
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import psutil

from tuner import api
from tuner.settings import Settings

READY_TIMEOUT_S = 60.0
END_TIMEOUT_S = 300.0
BEGIN_TIMEOUT_S = 20.0
CHILDREN_TIMEOUT_S = 5.0
POLL_S = 0.02
RETRY_S = 0.1
MAX_NAP_S = 0.2
CUTS = (OSError, http.client.HTTPException, ValueError)  # what a kill does to a connection


@dataclass(slots=True)
class Findings:
    """What a loop saw.

    Attributes:
        restarts_s: From starting the service to its first answer on ``/readyz``, each time.
        restarts_cpu_s: Processor time of the service until then: what other load leaves alone.
        launched: Job by idempotency key, as answered with 202.
        cancelled: Jobs whose cancellation was answered with 200.
        cut_off: Requests whose connection was cut by a kill.
        reads: Reads answered with 200.
        problems: What must not be: lost or doubled writes, server errors, survivors of a kill.
        finished: Studies that ended with all planned trials.
        interrupted: Trials that a kill cut off, and that were run again.
    """

    restarts_s: list[float] = field(default_factory=list)
    restarts_cpu_s: list[float] = field(default_factory=list)
    launched: dict[str, int] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    cut_off: int = 0
    reads: int = 0
    problems: list[str] = field(default_factory=list)
    finished: int = 0
    interrupted: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """The trials of a job's study.

    Attributes:
        is_finished: Whether the study says so of itself.
        planned: How many it is to have.
        reported: How many are done, as its progress says.
        done: How many are stored that are done.
        points: How many different ones these are.
        interrupted: How many were begun and cut off.
    """

    is_finished: bool
    planned: int
    reported: int
    done: int
    points: int
    interrupted: int

    @property
    def is_whole(self) -> bool:
        """Whether the study is finished, and no planned trial is missing or there twice."""
        counts = (self.planned, self.reported, self.done)
        return self.is_finished and all(each == self.points for each in counts)


def read_account(settings: Settings, job_id: int) -> Account:
    """Return what is stored of the study that a job opened."""
    study = str(api.job_progress(job_id, settings)["study_id"])
    progress = api.study_progress(study, settings)
    trials = api.page_trials(study, settings, limit=None).items
    done = [each for each in trials if each["outcome"] not in ("running", "interrupted")]
    return Account(
        is_finished=progress["state"] == "finished",
        planned=progress["planned"],
        reported=progress["done"],
        done=len(done),
        points=len({(each["shape"], each["implementation"], str(each["config"])) for each in done}),
        interrupted=len(trials) - len(done),
    )


class KillLoop:
    """One service, killed and started again, with clients that write and read.

    Args:
        settings: Of the service: database, operators, studies, cache.
        folder: For the token and the log.
        study: Registered study that must go on through all kills.
        side_study: Registered study that clients launch and cancel all the time.
    """

    def __init__(self, settings: Settings, folder: Path, study: str, side_study: str) -> None:
        self.findings = Findings()
        self._settings = settings
        self._folder = folder
        self._study = study
        self._side_study = side_study
        self._token = secrets.token_hex(16)
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(self._token, encoding="ascii")
        self._port = _free_port()
        self._stopping = threading.Event()
        self._main_jobs: list[int] = []

    def run(self, kills: int, seed: int, longest_s: float = 8.0) -> Findings:
        """Kill the service so many times, each at a random moment: of its start, or of a trial."""
        chance = random.Random(seed)
        service = self._start()
        clients = [threading.Thread(target=work) for work in (self._write, self._read)]
        for each in clients:
            each.start()
        try:
            for number in range(kills):
                self._keep_busy()
                if number % 2:  # in the middle of the study, which takes a while to begin
                    self._wait_for_a_trial()
                    time.sleep(chance.uniform(0.0, 1.0))
                else:
                    time.sleep(chance.uniform(0.0, longest_s))
                self._kill(service)
                service = self._start()
            self._stopping.set()
            for each in clients:
                each.join()
            self._wait_for_the_end()
            service.terminate()
            if service.wait(30) != 0:
                self._complain(f"the service ended with code {service.returncode}")
        finally:
            self._stopping.set()
            service.kill()
            service.wait()
        self._check_database()
        return self.findings

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the service and wait until it is ready."""
        words = [
            *("serve", "--port", str(self._port), "--token-file", str(self._folder / "token")),
            *("--db", self._settings.db, "--device", "cpu", "--quiet"),
        ]
        for folder in self._settings.operators:
            words += ["--operators", str(folder)]
        for folder in self._settings.studies:
            words += ["--studies", str(folder)]
        begun = time.monotonic()
        with (self._folder / "service.log").open("ab") as log:
            service = subprocess.Popen(
                [sys.executable, "-m", "tuner", *words],
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        while self._ask("GET", "/readyz")[0] != 200:
            if service.poll() is not None or time.monotonic() - begun > READY_TIMEOUT_S:
                service.kill()
                raise RuntimeError((self._folder / "service.log").read_text("utf-8")[-2000:])
            time.sleep(POLL_S)
        self.findings.restarts_s.append(time.monotonic() - begun)
        used = psutil.Process(service.pid).cpu_times()
        self.findings.restarts_cpu_s.append(used.user + used.system)
        return service

    def _kill(self, service: subprocess.Popen[bytes]) -> None:
        """Kill the service; its children must end by themselves."""
        family = psutil.Process(service.pid).children(recursive=True)
        service.kill()
        service.wait()
        _, alive = psutil.wait_procs(family, timeout=CHILDREN_TIMEOUT_S)
        if alive:
            self._complain(f"outlived the service: {[each.pid for each in alive]}")

    def _wait_for_a_trial(self) -> None:
        """Wait until a trial of the study runs; not for long where none is left."""
        end = time.monotonic() + BEGIN_TIMEOUT_S
        while time.monotonic() < end:
            if "running" in api.job_progress(self._main_jobs[-1], self._settings)["counts"]:
                return
            time.sleep(POLL_S)

    def _keep_busy(self) -> None:
        """Launch the study afresh once its last job has ended."""
        if self._main_jobs and self._job(self._main_jobs[-1])["state"] != "finished":
            return
        number = len(self._main_jobs)
        key = f"main-{number}"
        body = {"study": self._study, "fresh": number > 0}
        self._main_jobs.append(self._launched(key, body))

    def _write(self) -> None:
        """Launch a job, cancel it, and so on; what was cut off is asked again."""
        number = 0
        while not self._stopping.is_set():
            number += 1
            job_id = self._launched(f"side-{number}", {"study": self._side_study})
            if job_id == 0:
                return
            status = self._insist("POST", f"/api/v1/jobs/{job_id}/cancel", b"{}")[0]
            if status == 200:
                self.findings.cancelled.add(job_id)
            elif status not in (0, 409):  # 409: it was quicker than we
                self._complain(f"cancelling job {job_id} gave {status}")
            time.sleep(random.uniform(0.0, MAX_NAP_S))

    def _read(self) -> None:
        """Read what pages read."""
        while not self._stopping.is_set():
            for path in ("/api/v1/jobs", "/api/v1/devices", "/api/v1/studies"):
                status, _ = self._ask("GET", path)
                self.findings.reads += status == 200
                if status >= 500:
                    self._complain(f"{path} gave {status}")
            time.sleep(MAX_NAP_S)

    def _launched(self, key: str, body: Mapping[str, object]) -> int:
        status, answer = self._insist("POST", "/api/v1/studies", json.dumps(body).encode(), key)
        if status == 0:
            return 0
        if status != 202:
            self._complain(f"launching {key} gave {status}: {answer}")
            return 0
        job_id: int = answer["job_id"]
        if self.findings.launched.setdefault(key, job_id) != job_id:
            self._complain(f"{key} became job {job_id} after {self.findings.launched[key]}")
        return job_id

    def _insist(self, method: str, path: str, body: bytes, key: str = "") -> tuple[int, Any]:
        """Send a request until it is answered; (0, None) where the loop ends first."""
        while True:
            status, answer = self._ask(method, path, body, key)
            if status not in (0, 429):
                return status, answer
            self.findings.cut_off += status == 0
            if status == 0 and self._stopping.is_set():
                return 0, None
            time.sleep(RETRY_S if status == 0 else MAX_NAP_S)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, key: str = ""
    ) -> tuple[int, Any]:
        """Send a request; (0, None) where no whole answer came."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30.0)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        except CUTS:
            return 0, None
        finally:
            connection.close()

    def _job(self, job_id: int) -> dict[str, Any]:
        return api.show_job(job_id, self._settings)

    def _wait_for_the_end(self) -> None:
        self._wait(
            lambda: all(self._job(each)["state"] == "finished" for each in self._main_jobs),
            "the studies to finish",
        )
        open_states = ("queued", "running", "paused")
        self._wait(
            lambda: all(self._job(each)["state"] not in open_states for each in self._all()),
            "the other jobs to end",
        )

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + END_TIMEOUT_S
        while not is_so():
            if time.monotonic() > end:
                states = [self._job(each) for each in self._all()]
                self._complain(f"waited {END_TIMEOUT_S:g} s for {what}: {states[-3:]}")
                return
            time.sleep(0.2)

    def _all(self) -> list[int]:
        return sorted(self.findings.launched.values())

    def _check_database(self) -> None:
        """Compare what was answered with what is stored."""
        for problem in api.check_database(self._settings):
            self._complain(problem)
        stored = {each["job_id"] for each in api.page_jobs(self._settings).items}
        if stored != set(self._all()):
            self._complain(f"jobs stored {sorted(stored)}, answered {self._all()}")
        if len(set(self._all())) != len(self._all()):
            self._complain("two keys became one job")
        for job_id in sorted(self.findings.cancelled):
            job = self._job(job_id)
            # One whose last trial ended before its process saw the wish has finished.
            if job["wish"] != "cancel" or job["state"] not in ("cancelled", "finished"):
                self._complain(f"job {job_id} was cancelled and is {job['state']}")
        for job_id in self._main_jobs:
            self._check_study(job_id)

    def _check_study(self, job_id: int) -> None:
        account = read_account(self._settings, job_id)
        self.findings.interrupted += account.interrupted
        if account.is_whole:
            self.findings.finished += 1
        else:
            self._complain(f"job {job_id}: {account}")

    def _complain(self, problem: str) -> None:
        self.findings.problems.append(problem)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
