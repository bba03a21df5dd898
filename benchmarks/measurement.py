"""Whether a measured time can be trusted: the same kernel twice, and another clock.

A/A: on each workload several configs of RMSNorm are measured by the full protocol of a study's
finalists, each entered twice, interleaved in the same fresh processes. The two medians of a pair
should be equal: within 1 %, or 0.15 us where they are under 10 us.

Other clock: the best config of some workloads, found by ``tuner run``, is run under Nsight Compute
by ``tuner profile``; its duration of the kernel should be ours within 3 % or 0.5 us.

    python benchmarks/measurement.py --device cuda:0 --output docs/results/h200-measurement

writes a CSV (a row a pair) and a Markdown page beside it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import platform
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from pathlib import Path
from typing import Any
from typing import Literal

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import config_text
from tuner.domain.job import Kernel
from tuner.domain.protocol import Limits
from tuner.domain.protocol import Protocol
from tuner.domain.space import first_violation
from tuner.domain.stats import result_median
from tuner.domain.workload import Workload
from tuner.operator import load_operator
from tuner.operator import Operator
from tuner.resources import operator_dirs
from tuner.settings import load_settings
from tuner.study.confirm import confirm_once
from tuner.study.confirm import sampling_of
from tuner.worker.pool import DeviceWorker
from tuner.worker.pool import open_workers

Cache = Literal["hot", "cold"]
SHAPES = ("1x256", "64x1024", "1024x256", "1024x4096", "4096x4096", "1024x16384", "8192x8192")
IMPLEMENTATIONS = ("hip-vector", "triton-rows", "triton-loop", "hip-block")
CACHES: tuple[Cache, ...] = ("hot", "cold")
CONFIGS = 2  # of each implementation: its default and one at random
BAR_RELATIVE, BAR_US, SMALL_US = 0.01, 0.15, 10.0
CLOCK_RELATIVE, CLOCK_US = 0.03, 0.5
PROFILE_TIMEOUT_S = 60.0
STUDY = """schema = 1
name = "clock-{cache}"
operator = "rmsnorm"
shapes = [{shapes}]
[search]
trials = 12
finalists = 1
[protocol]
cache = "{cache}"
[space.hip-vector]
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """One config measured twice."""

    shape: str
    cache: str
    implementation: str
    config: str
    first_us: float
    second_us: float

    @property
    def difference_us(self) -> float:
        """Second minus first."""
        return self.second_us - self.first_us

    @property
    def relative(self) -> float:
        """Difference by the smaller one, without sign."""
        return abs(self.difference_us) / min(self.first_us, self.second_us)

    @property
    def is_within(self) -> bool:
        """Whether the bar is met."""
        if min(self.first_us, self.second_us) < SMALL_US:
            return abs(self.difference_us) <= BAR_US
        return self.relative <= BAR_RELATIVE


def some_kernels(operator: Operator, workload: Workload, facts: DeviceFacts) -> list[Kernel]:
    """Return kernels of several implementations: the default's and one at random of each."""
    dims = operator.dimensions(workload)
    chance = random.Random(workload.key)
    kernels = []
    for name in IMPLEMENTATIONS:
        implementation = operator.implementation(name)
        grid = implementation.parameters(dims)
        at_random = (
            {key: chance.choice(values) for key, values in grid.items()} for _ in range(500)
        )
        legal = (
            each
            for each in itertools.chain([dict(implementation.default(dims, facts))], at_random)
            if first_violation(each, dims, facts, implementation.constraints) is None
        )
        source = operator.source(implementation)
        kernels += [
            operator.kernel(implementation, source, config, workload)
            for config in itertools.islice(legal, CONFIGS)
        ]
    return kernels


def measure_twice(
    kernels: Sequence[Kernel], operator: Operator, workload: Workload, cache: Cache, device: str
) -> Iterator[tuple[int, float, float]]:
    """Yield each kernel's position and its two medians, in microseconds."""
    settings = load_settings()
    protocol = Protocol(cache=cache)
    doubled = [*kernels, *kernels]
    samples: list[list[tuple[float, ...]]] = [[] for _ in doubled]
    waiting = open_workers(device, settings, protocol.processes)

    def start() -> DeviceWorker:
        return waiting.pop() if waiting else DeviceWorker(device, settings)

    try:
        for process in range(protocol.processes):
            reports = confirm_once(
                start, doubled, operator.problem(workload), sampling_of(protocol), Limits(),
                process=process,
            )  # fmt: skip
            for taken, report in zip(samples, reports, strict=True):
                if report.process is None:
                    print(f"left out: {report.failure}", file=sys.stderr)
                else:
                    taken.append(report.process.samples_us)
    finally:
        for worker in waiting:
            worker.close()
    for position in range(len(kernels)):
        first, second = samples[position], samples[position + len(kernels)]
        if len(first) == len(second) == protocol.processes:
            yield position, result_median(first), result_median(second)


def measure_pairs(device: str, shapes: Sequence[str], until: Callable[[], bool]) -> list[Pair]:
    """Measure all pairs; ``until`` ends it early, between two workloads."""
    operator = load_operator(operator_dirs()["rmsnorm"])
    with DeviceWorker(device, load_settings()) as worker:
        facts = worker.facts
    pairs: list[Pair] = []
    for shape, cache in itertools.product(shapes, CACHES):
        if until():
            print(f"stopped before {shape} {cache}", file=sys.stderr)
            break
        rows, cols = (int(size) for size in shape.split("x"))
        workload = operator.workload((rows, cols), "float32")
        kernels = some_kernels(operator, workload, facts)
        begun = time.perf_counter()
        for position, first_us, second_us in measure_twice(
            kernels, operator, workload, cache, device
        ):
            kernel = kernels[position]
            told = {**kernel.constants, **kernel.options}
            pairs.append(Pair(shape, cache, kernel.entry, config_text(told), first_us, second_us))
        print(f"{shape} {cache}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)
    return pairs


def other_clock(device: str, shapes: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Return our time and the profiler's for the best config of some workloads."""
    found: list[dict[str, Any]] = []
    for cache in ("hot", "cold"):
        study = folder / f"{cache}.toml"
        named = ", ".join(f'"{shape}"' for shape in shapes)
        study.write_text(STUDY.format(cache=cache, shapes=named), encoding="utf-8")
        tuner = [sys.executable, "-m", "tuner"]
        common = ["--db", str(folder / "clock.db"), "--format", "json"]
        command = [*tuner, "run", str(study), "--device", device, *common]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            print(done.stderr[-1000:], file=sys.stderr)
            continue
        for answer in json.loads(done.stdout)["best"]:
            best = answer["best"]
            command = [*tuner, "profile", str(best["trial_id"]), "--device", device, *common]
            row = {
                "shape": best["workload"]["shape"],
                "cache": cache,
                "ours_us": best["median_us"],
            }
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=PROFILE_TIMEOUT_S
                )
            except subprocess.TimeoutExpired:
                return [*found, row | {"problem": f"no end within {PROFILE_TIMEOUT_S:g} s"}]
            if done.returncode:
                return [*found, row | {"problem": done.stderr.strip().splitlines()[0]}]
            found.append(row | {"profile": json.loads(done.stdout)["profile"]})
    return found


def page(pairs: Sequence[Pair], clocks: Sequence[dict[str, Any]], facts: Sequence[str]) -> str:
    """Return the Markdown page."""
    ranked = sorted(pairs, key=lambda each: each.relative)
    within = sum(each.is_within for each in pairs)
    lines = [
        "# The same kernel twice, and another clock",
        "",
        *facts,
        "",
        *(__doc__ or "").split("\n\n")[1].splitlines(),
        "",
        f"{within} of {len(pairs)} pairs are within the bar.",
        "",
        "| part of the pairs | differ by at most |",
        "|---|---:|",
    ]
    for part in (0.5, 0.9, 0.99, 1.0):
        position = min(len(ranked) - 1, int(part * len(ranked)))
        lines.append(f"| {part:.0%} | {ranked[position].relative:.2%} |")
    lines += [
        "", "The ten that differ most:", "",
        "| shape | cache | kernel | config | first | second | difference | within |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]  # fmt: skip
    for each in reversed(ranked[-10:]):
        lines.append(
            f"| {each.shape} | {each.cache} | {each.implementation} | `{each.config}` "
            f"| {each.first_us:.3f} | {each.second_us:.3f} | {each.relative:.2%} "
            f"| {'yes' if each.is_within else 'no'} |"
        )
    lines += [
        "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
        "| shape | cache | ours, us | Nsight Compute, us | difference | within |",
        "|---|---|---:|---:|---:|---|",
    ]  # fmt: skip
    lines += [_clock_line(each) for each in clocks]
    return "\n".join([*lines, ""])


def _clock_line(row: dict[str, Any]) -> str:
    shape = "x".join(str(size) for size in row["shape"])
    head = f"| {shape} | {row['cache']} | {row['ours_us']:.3f} |"
    theirs_us = row.get("profile", {}).get("kernel_median_us")
    if theirs_us is None:
        return f"{head} – | {row.get('problem', 'no time')} | – |"
    difference_us = row["ours_us"] - theirs_us
    is_within = abs(difference_us) <= max(CLOCK_RELATIVE * theirs_us, CLOCK_US)
    return f"{head} {theirs_us:.3f} | {difference_us:+.3f} us | {'yes' if is_within else 'no'} |"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--shape", action="append", help="default: seven")
    parser.add_argument("--until-s", type=float, default=1e9, help="begin none after so long")
    parser.add_argument("--output", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    shapes = options.shape or SHAPES
    begun = time.monotonic()
    pairs = measure_pairs(
        options.device, shapes, lambda: time.monotonic() - begun > options.until_s
    )
    with options.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(pairs[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(each) for each in pairs)
    with DeviceWorker(options.device, load_settings()) as worker:
        name, identity = worker.facts.name, worker.environment.identity
    facts = [
        f"{name}, {len(os.sched_getaffinity(0))} cores, {datetime.now(UTC).date()}, Python "
        f"{platform.python_version()}, driver {identity.get('driver', '?')}.",
        f"`{shlex.join(['python', *sys.argv])}`",
    ]
    target = options.output.with_suffix(".md")
    target.write_text(page(pairs, [], facts), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        clocks = other_clock(options.device, shapes[1::2], Path(folder))
    target.write_text(page(pairs, clocks, facts), encoding="utf-8")
    print(f"{sum(each.is_within for each in pairs)} of {len(pairs)} pairs within the bar; {clocks}")


if __name__ == "__main__":
    main()
