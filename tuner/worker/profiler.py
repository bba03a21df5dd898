"""Runs one trial once under a vendor's profiler and returns what the profiler wrote, as text."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tuner.domain.job import TrialJob
from tuner.domain.profile import NcuMetric
from tuner.domain.profile import ProfilerName
from tuner.domain.records import TrialReport
from tuner.environ import process_environment
from tuner.environ import worker_environment
from tuner.errors import BudgetExhausted
from tuner.errors import EnvironmentProblem
from tuner.errors import MissingDependency
from tuner.settings import Settings
from tuner.worker import messages
from tuner.worker.pool import worker_options

VERSION_TIMEOUT_S = 60.0
PROFILE_TIMEOUT_S = 540.0
MAX_OUTPUT_BYTES = 64_000_000
_LOG_CHARACTERS = 500
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")

_Command = Callable[[Path, bool], list[str]]  # folder for its files, cold cache: options


@dataclass(frozen=True, slots=True)
class Tool:
    """How a profiler is called.

    Attributes:
        name: Its name, also of its program.
        folders: Where it is installed when it is not on PATH; patterns below ``/``.
        output: Pattern of the files it writes into its folder.
        command: Gives the options that stand before the profiled command.
        remedy: What to do where it is missing.
    """

    name: ProfilerName
    folders: tuple[str, ...]
    output: str
    command: _Command
    remedy: str


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """What a run under a profiler gave.

    Attributes:
        report: How the trial went.
        outputs: Text of each file the profiler wrote, by name.
        version: Of the profiler, as it prints it; None where it does not.
        last_words: What the profiler complained of, or the end of what was printed; one line.
    """

    report: TrialReport
    outputs: Mapping[str, str]
    version: str | None
    last_words: str


def _ncu_options(folder: Path, is_cold: bool) -> list[str]:
    return [
        "--csv",
        *("--page", "raw"),
        *("--print-units", "base"),  # exact bytes and nanoseconds
        *("--config-file", "off"),  # a user's defaults must not change what is measured
        *("--target-processes", "all"),
        *("--clock-control", "none"),  # as the trial was timed
        *("--cache-control", "all" if is_cold else "none"),
        *("--metrics", ",".join(NcuMetric)),
        *("--log-file", str(folder / "ncu.csv")),
    ]


def _rocprofv3_options(folder: Path, _is_cold: bool) -> list[str]:
    # A cold cache is the profiled program's own work: it flushes before each launch.
    return ["--kernel-trace", "--output-format", "csv", "-d", str(folder), "-o", "tuner", "--"]


TOOLS: Mapping[ProfilerName, Tool] = {
    ProfilerName.NCU: Tool(
        ProfilerName.NCU,
        ("usr/local/cuda*/bin", "opt/nvidia/nsight-compute/*"),
        "ncu.csv",
        _ncu_options,
        "install Nsight Compute (it comes with the CUDA toolkit) and put ncu on PATH",
    ),
    ProfilerName.ROCPROFV3: Tool(
        ProfilerName.ROCPROFV3,
        ("opt/rocm*/bin",),
        "**/*kernel_trace.csv",
        _rocprofv3_options,
        "install rocprofiler-sdk (it comes with ROCm) and put rocprofv3 on PATH",
    ),
}


def find_tool(name: ProfilerName) -> str:
    """Return the path of a profiler's program, from PATH or where vendors install it.

    Raises:
        MissingDependency: It is not installed, with the remedy.
    """
    tool = TOOLS[name]
    found = shutil.which(name.value, path=process_environment().get("PATH", ""))
    if found is not None:
        return found
    for pattern in tool.folders:
        for folder in sorted(Path("/").glob(pattern), reverse=True):  # newest version first
            installed = shutil.which(name.value, path=str(folder))
            if installed is not None:
                return installed
    raise MissingDependency(f"the profiler {name} is not installed here", hint=tool.remedy)


def run_profiled(
    name: ProfilerName,
    device_id: str,
    job: TrialJob,
    settings: Settings,
    timeout_s: float | None = None,
) -> ProfiledRun:
    """Build, check and launch a trial's kernel under a profiler, in a process of its own.

    Args:
        name: The profiler.
        device_id: Where the kernel runs.
        job: The trial.
        settings: Name the cache.
        timeout_s: How long it may take; None for ``PROFILE_TIMEOUT_S``.

    Raises:
        MissingDependency: The profiler is not installed.
        EnvironmentProblem: The profiler or the device failed, with their last words.
        BudgetExhausted: It did not end in time; all its processes have been killed.
    """
    program, tool = find_tool(name), TOOLS[name]
    environment = worker_environment(device_id, settings.cache_dir)
    with tempfile.TemporaryDirectory(prefix="tuner-profile-") as scratch:
        folder = Path(scratch)
        requests, replies, traces = folder / "requests", folder / "replies", folder / "traces"
        traces.mkdir()
        options = worker_options(settings)
        asked = (messages.OpenDevice(device_id, options), messages.RunTrial(job))
        requests.write_bytes(b"".join(messages.encode(each) for each in asked))
        child = [sys.executable, "-P", "-m", "tuner.worker.profile_child"]
        child += [str(requests), str(replies)]
        flags = tool.command(traces, job.sampling.cache == "cold")
        log = _run([program, *flags, *child], environment, timeout_s or PROFILE_TIMEOUT_S)
        outputs = {
            path.relative_to(traces).as_posix(): _read(path)
            for path in sorted(traces.glob(tool.output))
        }
        answers = replies.read_bytes() if replies.exists() else b""
    said = "\n".join([*outputs.values(), log])
    # The program runs on without being profiled, or its launches fail: ask for this first.
    if "ERR_NVGPUCTRPERM" in said:
        raise EnvironmentProblem(
            f"{name} may not read the device's performance counters (ERR_NVGPUCTRPERM)",
            hint="run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        )
    last_words = _tail(said) or "none"
    report = _report(name, answers, last_words)
    if not outputs:
        raise EnvironmentProblem(f"{name} wrote no profile", hint=f"its last output: {last_words}")
    return ProfiledRun(report, outputs, _version(program, environment), last_words)


def _report(name: ProfilerName, answers: bytes, last_words: str) -> TrialReport:
    """Return the trial's report out of the child's answers, of which the last one decides."""
    lines = answers.splitlines()
    last = messages.decode(lines[-1]) if lines else None
    if isinstance(last, messages.Done):
        return last.reports[0]
    if isinstance(last, messages.WorkerError):
        raise EnvironmentProblem(f"under {name}: {last.message}", hint=last.hint)
    raise EnvironmentProblem(
        f"the process under {name} ended before the kernel had run",
        hint=f"its last output: {last_words}",
    )


def _run(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> str:
    """Run a command to its end and return what it printed; its exit code decides nothing.

    Raises:
        EnvironmentProblem: It can't be started.
        BudgetExhausted: It did not end in time.
    """
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
                env=environment,
            )
        except OSError as error:
            raise EnvironmentProblem(f"{command[0]} can't be started: {error.strerror}") from error
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise BudgetExhausted(
                f"{command[0]} did not end within {timeout_s:g} s",
                hint="profile with fewer --launches, or on an idle device",
            ) from error
        finally:
            _kill_tree(process)
        log.seek(0)
        return log.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a profiler with all it started; nothing is left where it ended by itself."""
    gone = contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess)
    family: list[psutil.Process] = []
    with gone:
        family = psutil.Process(process.pid).children(recursive=True)
    for each in family:
        with gone:
            each.kill()
    with gone:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_OUTPUT_BYTES:
        raise EnvironmentProblem(f"{path.name} of the profiler is over {MAX_OUTPUT_BYTES} bytes")
    return path.read_text(encoding="utf-8", errors="replace")


def _version(program: str, environment: Mapping[str, str]) -> str | None:
    found = _VERSION.search(_run([program, "--version"], environment, VERSION_TIMEOUT_S))
    return found[0] if found else None


def _tail(log: str) -> str:
    """Return the end of an output as one line; of ncu, its own errors."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    return " | ".join(errors or lines[-3:])[-_LOG_CHARACTERS:]
