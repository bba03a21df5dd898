"""How far the tool's figures can be trusted: the same config twice, other clocks, a planted fault.

Three parts. First, configs of several implementations, each entered twice among the finalists of a
confirmation as `tuner run` makes it (fresh processes, interleaved, full protocol), and all of it
again when every shape has had its turn: how far do two times of one config lie apart? Second, the
kernel durations that Nsight Compute and CUPTI give for the default configs, beside ours. Third, a
trial is given fewer buffer sets than a cold cache needs, and must be refused.

    python benchmarks/measurement.py --output docs/results/h200-measurement

writes a CSV (a row a pair) and a Markdown page, anew after each step; what was cut off by a time
limit or could not be run is said there. `--device cpu` rehearses it with small shapes. Needs
PyTorch for CUPTI and ncu for Nsight Compute; nothing here is a dependency of ``tuner``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measurement_page as page
from measurement_groups import BRIEF
from measurement_groups import CPU_GROUPS
from measurement_groups import Entry
from measurement_groups import FULL
from measurement_groups import GPU_GROUPS
from measurement_groups import Measured

from tuner.domain.identity import config_text
from tuner.domain.job import ConfirmJob
from tuner.domain.job import TrialJob
from tuner.domain.profile import ProfilerName
from tuner.domain.protocol import Limits
from tuner.domain.stats import result_median
from tuner.environ import worker_environment
from tuner.errors import TunerError
from tuner.operator import load_operator
from tuner.report.profiles import parse_trace
from tuner.report.profiles import profile_of
from tuner.report.profiles import Target
from tuner.resources import operator_dirs
from tuner.settings import load_settings
from tuner.settings import Settings
from tuner.study.confirm import confirm_once
from tuner.study.confirm import FreshWorkers
from tuner.study.confirm import sampling_of
from tuner.worker import messages
from tuner.worker.crew import Crew
from tuner.worker.pool import begin_opening
from tuner.worker.pool import DeviceWorker
from tuner.worker.pool import worker_options
from tuner.worker.profiler import run_profiled

PROFILED_LAUNCHES = 10
CUPTI_SAMPLES = 5
CUPTI_LAUNCHES = 64  # a sample; as many buffer sets do for a cold one as it asks for
CUPTI_TIMEOUT_S = 45.0  # all of them together, as below
NCU_TIMEOUT_S = 60.0  # it has hung before
NCU_KERNELS = 4
ROTATION_TIMEOUT_S = 30.0


class Benchmark:
    """The three parts, which write what they find as they go."""

    def __init__(self, device: str, settings: Settings, target: Path, command: str) -> None:
        self.device, self.settings, self.target = device, settings, target
        with DeviceWorker(device, settings) as worker:
            self.facts, identity = worker.facts, worker.environment.identity
        told = ("driver", "runtime", "compiler", "triton")
        self.results = page.Results(
            {
                "command": command,
                "device": f"{self.facts.name}, {self.facts.architecture}",
                **{name: str(identity[name]) for name in told if name in identity},
            }
        )
        self.operator = load_operator(operator_dirs()["rmsnorm"])
        is_cpu = self.facts.kind == "cpu"
        groups, protocol_text = (CPU_GROUPS, BRIEF) if is_cpu else (GPU_GROUPS, FULL)
        self.groups = [Measured(each, self.operator, self.facts, protocol_text) for each in groups]
        # Of each group and session, the time of each entry and of its second one; None: failed.
        self.times_us: dict[tuple[int, int], list[tuple[float | None, float | None]]] = {}

    def build(self) -> None:
        """Build all kernels on all cores, so that no confirmation waits for a compiler."""
        with Crew(self.device, ("hip", "triton"), self.settings) as crew:
            builders = crew.builders(Limits().build_timeout_s)
            entries = [entry for group in self.groups for entry in group.entries]
            for build in [builders.submit(entry.kernel) for entry in entries]:
                build.result()

    def confirm_all(self, session: int, until: float) -> None:
        """Confirm each group, and set side by side what there is of it by then."""
        for number, measured in enumerate(self.groups):
            begun = time.monotonic()
            if begun > until:
                text = f"not run, for lack of time: {measured.label}, session {session + 1}"
                self.results.note("pairs", text)
                continue
            try:
                self.times_us[number, session] = self._confirm(measured)
            except TunerError as error:
                self.results.note("pairs", f"{measured.label}: {error}")
                continue
            self._add_pairs(measured, number, session)
            page.write(self.target, self.results)
            _tell(f"session {session + 1}: {measured.label}", begun)

    def ncu(self, until: float) -> None:
        """Set Nsight Compute's duration beside some default configs' figures."""
        deadline = min(until, time.monotonic() + NCU_TIMEOUT_S)
        defaults = list(self._defaults())
        step = max(1, len(defaults) // NCU_KERNELS)
        for measured, entry, own_us in defaults[::step][:NCU_KERNELS]:
            begun = time.monotonic()
            try:
                other_us = self._ncu_us(measured, entry, max(1.0, deadline - begun))
            except TunerError as error:
                self.results.note("ncu", f"not run: {error.message} ({error.hint})")
                break
            self.results.pairs.append(measured.pair("ncu", entry, own_us, other_us))
            page.write(self.target, self.results)
            _tell(f"ncu: {measured.label} {entry.implementation}", begun)
        page.write(self.target, self.results)

    def cupti(self) -> None:
        """Set CUPTI's duration beside each default config's figure."""
        defaults = list(self._defaults())
        jobs = [
            measured.trial(
                entry, warmup=1, samples=CUPTI_SAMPLES, launches_per_sample=CUPTI_LAUNCHES
            )
            for measured, entry, _ in defaults
        ]
        for found, (measured, entry, own_us) in zip(
            self._child("cupti", jobs, CUPTI_TIMEOUT_S), defaults, strict=False
        ):
            where = f"{measured.label} {entry.implementation}"
            if "error" in found:
                self.results.note("cupti", f"{where}: {found['error']}")
                continue
            self.results.note("cupti", f"{found['version']}, {found['launches']} launches of each")
            text = f"{where}: the profiled run's own samples gave {found['own_us']:.3f} µs"
            self.results.note("cupti", text)
            self.results.pairs.append(measured.pair("cupti", entry, own_us, found["median_us"]))
        page.write(self.target, self.results)

    def rotation(self) -> None:
        """Plant a rotation that is too small."""
        measured = next(each for each in self.groups if each.group.cache == "cold")
        job = measured.trial(measured.entries[0], warmup=1, samples=3, launches_per_sample=64)
        for found in self._child("rotation", [job], ROTATION_TIMEOUT_S):
            self.results.rotation = found
            if found["sound"] != "ok" or found["planted"] != "timer_error":
                self.results.note("rotation", "not as it should be: ok, then timer_error")
        page.write(self.target, self.results)

    def _confirm(self, measured: Measured) -> list[tuple[float | None, float | None]]:
        once = [entry.kernel for entry in measured.entries]
        kernels, protocol, limits = (*once, *once), measured.protocol, Limits()
        sampling = sampling_of(protocol)
        job = ConfirmJob(kernels, measured.problem, sampling)
        workers = FreshWorkers(self._open_workers, protocol.processes, job, limits)
        samples_us: list[list[tuple[float, ...]]] = [[] for _ in kernels]
        try:
            for process in range(protocol.processes):
                reports = confirm_once(
                    workers.take, kernels, measured.problem, sampling, limits, process=process
                )
                for position, report in enumerate(reports):
                    if report.failure is None and report.process is not None:
                        samples_us[position].append(report.process.samples_us)
                    elif report.failure is not None:
                        entry = measured.entries[position % len(once)]
                        where = f"{measured.label} {entry.implementation}"
                        config, why = config_text(entry.config), report.failure.message
                        self.results.note("pairs", f"{where} `{config}`: {why}")
        finally:
            workers.close()
        times_us = [
            result_median(taken) if len(taken) == protocol.processes else None
            for taken in samples_us
        ]
        return list(zip(times_us[: len(once)], times_us[len(once) :], strict=True))

    def _open_workers(self, count: int) -> list[DeviceWorker]:
        opening = [begin_opening(self.device, self.settings) for _ in range(count)]
        return [DeviceWorker(self.device, self.settings, process) for process in opening]

    def _add_pairs(self, measured: Measured, number: int, session: int) -> None:
        now, before = self.times_us[number, session], self.times_us.get((number, session - 1))
        for position, entry in enumerate(measured.entries):
            found = [(page.SAME_SESSION, *now[position])]
            if before is not None:
                earlier = zip(before[position], now[position], strict=True)
                found += [(page.TWO_SESSIONS, *times_us) for times_us in earlier]
            self.results.pairs += [
                measured.pair(kind, entry, first_us, second_us)
                for kind, first_us, second_us in found
                if first_us is not None and second_us is not None
            ]

    def _defaults(self) -> Iterator[tuple[Measured, Entry, float]]:
        """Yield the default configs of single kernels that have a figure of the first session."""
        for number, measured in enumerate(self.groups):
            times_us = self.times_us.get((number, 0), [])
            for entry, (first_us, _) in zip(measured.entries, times_us, strict=False):
                if entry.is_default and first_us is not None and not entry.kernel.then:
                    yield measured, entry, first_us

    def _ncu_us(self, measured: Measured, entry: Entry, timeout_s: float) -> float:
        job = measured.trial(
            entry, warmup=1, samples=PROFILED_LAUNCHES, launches_per_sample=1, submission="stream"
        )
        run = run_profiled(ProfilerName.NCU, self.device, job, self.settings, timeout_s)
        if run.report.failure is not None:
            raise TunerError(run.report.failure.message, hint=run.last_words)
        target = Target(entry.kernel.entry, entry.kernel.geometry, 2, PROFILED_LAUNCHES, 1)
        traces = [parse_trace(text, name) for name, text in run.outputs.items()]
        median_us = profile_of(traces[0], target, run.version).median_us
        if median_us is None:
            raise TunerError("ncu gave no durations", hint=run.last_words)
        self.results.note("ncu", f"ncu {run.version}, {PROFILED_LAUNCHES} launches of each")
        return median_us

    def _child(
        self, part: str, jobs: Sequence[TrialJob], timeout_s: float
    ) -> Iterator[dict[str, Any]]:
        """Yield what a part gives for each job; what it did not come to is noted."""
        begun = time.monotonic()
        opening = messages.OpenDevice(self.device, worker_options(self.settings))
        asked: list[messages.Request] = [opening, *map(messages.RunTrial, jobs)]
        requests = b"".join(map(messages.encode, asked))
        child = str(Path(__file__).with_name("measurement_child.py"))
        environment = worker_environment(self.device, self.settings.cache_dir)
        with (
            tempfile.NamedTemporaryFile() as file,
            tempfile.TemporaryFile() as answers,
            tempfile.TemporaryFile() as log,
        ):
            file.write(requests)
            file.flush()
            command, why = [sys.executable, child, part, file.name], ""
            try:
                done = subprocess.run(
                    command,
                    stdout=answers,
                    stderr=log,
                    timeout=timeout_s,
                    check=False,
                    env=environment,
                )
            except subprocess.TimeoutExpired:
                why = f"no end within {timeout_s:g} s"
            else:
                log.seek(0)
                last = log.read().decode(errors="replace").strip().splitlines()[-1:]
                why = f"exit code {done.returncode}: {''.join(last)}"
            answers.seek(0)
            lines = [line for line in answers if line.startswith(b"{")]
        yield from map(json.loads, lines)
        if len(lines) < len(jobs):
            self.results.note(part, f"not run: {len(jobs) - len(lines)} of {len(jobs)}; {why}")
        _tell(part, begun)


def _tell(what: str, begun: float) -> None:
    print(f"{what}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--until-s", type=float, default=110.0, help="begin no confirmation after so long"
    )
    parser.add_argument(
        "--limit-s", type=float, default=145.0, help="end Nsight Compute, the last part, by then"
    )
    parser.add_argument("--output", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    begun = time.monotonic()
    command = shlex.join(["python", *sys.argv])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    benchmark = Benchmark(options.device, load_settings(), options.output, command)
    _tell("opened", begun)
    benchmark.build()
    _tell("built", begun)
    benchmark.rotation()
    until = begun + options.until_s
    benchmark.confirm_all(0, until)
    benchmark.cupti()
    benchmark.confirm_all(1, until)
    benchmark.ncu(begun + options.limit_s)
    print(page.page(benchmark.results))
    _tell("all", begun)


if __name__ == "__main__":
    main()
