"""Samplers on stored spaces: ours, Optuna's TPE and Kernel Tuner's strategies, on the same data.

The spaces are those of ``benchmarks/data`` (see ``exhaustive_space.py``). Kernel Tuner replays them
in its simulation mode, from cache files as ``tuner export kernel-tuner`` writes them; each
evaluation of a new config counts as one for all contenders. Evaluations until within 5, 3 and 1 %
of the optimum are medians over the repeats; the score is that of ``tuner simulate``.

    python benchmarks/search.py --repeats 25 --output docs/results/search

writes a CSV (a row a space and contender) and a Markdown page beside it. Kernel Tuner and Optuna
are left out where they are not installed. Needs no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.metadata
import importlib.util
import io
import math
import platform
import random
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from typing import TypeAlias

import numpy as np
from search_page import write_page

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.outcome import Outcome
from tuner.operator import Implementation
from tuner.operator import load_operator
from tuner.report.kernel_tuner_export import cache_text
from tuner.report.kernel_tuner_export import ExportedSpace
from tuner.report.kernel_tuner_export import ExportedTrial
from tuner.study.baseline import mean_interval
from tuner.study.searchable import config_key
from tuner.study.simulate import RecordedSpace
from tuner.study.simulate import Replay
from tuner.study.simulate import replay

FRACTIONS = (0.05, 0.03, 0.01)
LEAST_EVALUATIONS = 60
# Of Kernel Tuner 1.5.0: those its papers and documentation name as the best, and two of the
# newest, which were written by language models. Left out: diff_evo, which takes 76 ms an
# evaluation here, and pyatf_strategies, which fails on the restrictions that tune_cache infers.
STRATEGIES = (
    "random_sample",
    "greedy_ils",
    "genetic_algorithm",
    "simulated_annealing",
    "bayes_opt",
    "hybrid_vndx",
    "adaptive_tabu_greywolf",
)
# The H200 on which the data were measured.
FACTS = DeviceFacts(
    device_id="cuda:0",
    kind="cuda",
    architecture="sm_90",
    name="NVIDIA H200",
    compute_units=132,
    wave_size=32,
    max_threads_per_block=1024,
    max_grid=(2**31 - 1, 65535, 65535),
    max_grid_threads=2**63 - 1,
    max_shared_bytes=232_448,
    max_registers_per_thread=255,
    memory_bytes=150_000_000_000,
    cache_bytes=62_914_560,
    timer="device-event",
)
# Seed and evaluations of one search.
Run: TypeAlias = Callable[[int, int], Replay]


@dataclass(frozen=True, slots=True)
class Named:
    """A recorded space and what it is called."""

    name: str
    space: RecordedSpace
    is_large: bool


def load_spaces(folder: Path, operator_folder: Path) -> list[Named]:
    """Read every CSV of a folder; a column of times is a space."""
    operator = load_operator(operator_folder.resolve())
    spaces = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        implementation = operator.implementation("-".join(path.stem.split("-")[:2]))
        names = list(rows[0])[: list(rows[0]).index("registers")]
        for shape in list(rows[0])[len(names) + 2 :]:
            workload = operator.workload(tuple(int(each) for each in shape.split("x")))
            dims = operator.dimensions(workload)
            space = RecordedSpace(
                workload,
                implementation.name,
                [
                    ({n: int(row[n]) for n in names}, float(row[shape]) if row[shape] else None)
                    for row in rows
                ],
                implementation.default(dims, FACTS),
                partial(_prior, implementation, dims),
            )
            is_large = path.stem.count("-") > 2
            spaces.append(Named(f"{shape}{' TURNS' if is_large else ''}", space, is_large))
    return spaces


def _prior(implementation: Implementation, dims: Mapping[str, int], config: Config) -> float:
    return implementation.prior(config, dims, FACTS)


def our_runs(named: Named, spaces: Sequence[Named]) -> Iterator[tuple[str, Run]]:
    """Yield the samplers of this project, with more and less to begin with."""
    space = named.space
    unguided = replace(space, default=None, cost=lambda _config: 0.0)
    others = [
        each.space.as_nearby()
        for each in spaces
        if not each.is_large and each.space.workload != space.workload
    ]
    yield "guided, warm start", lambda seed, n: replay(space, "guided", seed, n, others)
    yield "guided", lambda seed, n: replay(space, "guided", seed, n)
    yield "guided, from nothing", lambda seed, n: replay(unguided, "guided", seed, n)
    if importlib.util.find_spec("optuna"):
        yield "Optuna TPE", lambda seed, n: replay(space, "tpe", seed, n)
        yield "Optuna TPE, from nothing", lambda seed, n: replay(unguided, "tpe", seed, n)
    yield "random, from nothing", lambda seed, n: replay(unguided, "random", seed, n)


def kernel_tuner_runs(
    named: Named, folder: Path, strategies: Sequence[str]
) -> Iterator[tuple[str, Run]]:
    """Yield Kernel Tuner's strategies on a cache file of the space."""
    if not importlib.util.find_spec("kernel_tuner"):
        return
    path = folder / f"{named.name.replace(' ', '-')}.json"
    path.write_text(cache_text(_exported(named.space)), encoding="utf-8")
    for strategy in strategies:
        run = partial(_replay_kernel_tuner, path, named.space, strategy)
        yield f"Kernel Tuner {strategy}", run


def _exported(space: RecordedSpace) -> ExportedSpace:
    trials = [
        ExportedTrial(
            config=config,
            outcome=Outcome.OK if time_us else Outcome.LAUNCH_ERROR,
            samples_us=(time_us,) if time_us else (),
            median_us=time_us,
            build_s=None,
            validate_s=None,
            measure_s=None,
            finished_at="2026-12-02T10:22:00+00:00",
        )
        for config, time_us in space.results
    ]
    return ExportedSpace(space.implementation, FACTS.architecture, space.workload.shape, trials)


def _replay_kernel_tuner(
    path: Path, space: RecordedSpace, strategy: str, seed: int, evaluations: int
) -> Replay:
    """Let a strategy search; what it says on its way is dropped."""
    import kernel_tuner

    random.seed(seed)
    np.random.seed(seed)
    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        results, _ = kernel_tuner.tune_cache(
            str(path),
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            quiet=True,
        )
    elapsed_s = time.perf_counter() - begun
    seen: set[str] = set()
    best_us, so_far_us = math.inf, []
    names = list(space.grid)
    for result in results:
        config = {name: result[name] for name in names}
        key = config_key(config)
        if key in seen:
            continue
        seen.add(key)
        best_us = min(best_us, space.time_us(config) or math.inf)
        so_far_us.append(best_us)
    return Replay(tuple(so_far_us), elapsed_s)


def measure(named: Named, contender: str, run: Run, repeats: int) -> dict[str, Any]:
    """Return the row of a contender on a space."""
    baseline = named.space.baseline
    evaluations = max(LEAST_EVALUATIONS, baseline.budget())
    replays = [run(seed, evaluations) for seed in range(repeats)]
    worst_us = baseline.times_us[-1]
    scores = [
        baseline.score([min(each, worst_us) for each in done.best_so_far_us]) for done in replays
    ]
    row: dict[str, Any] = {
        "space": named.name,
        "configs": named.space.trials,
        "best_us": baseline.optimum_us,
        "contender": contender,
    }
    for fraction in FRACTIONS:
        counts = sorted(done.evaluations_within(fraction, baseline.optimum_us) for done in replays)
        percent = round(100 * fraction)
        row[f"within_{percent}_percent_median"] = statistics.median(counts)
        row[f"within_{percent}_percent_p90"] = counts[math.ceil(0.9 * repeats) - 1]
    row["score"] = statistics.fmean(scores)
    row["score_low"], row["score_high"] = mean_interval(scores)
    tried = sum(len(done.best_so_far_us) for done in replays)
    row["propose_ms"] = 1000.0 * sum(done.propose_s for done in replays) / max(1, tried)
    return row


def measure_space(options: argparse.Namespace, index: int) -> list[dict[str, Any]]:
    """Return the rows of all contenders on one space; runs in a process of its own."""
    spaces = load_spaces(options.data, options.operator)
    named = spaces[index]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        contenders = [
            *our_runs(named, spaces),
            *kernel_tuner_runs(named, Path(folder), options.strategies),
        ]
        for contender, run in contenders:
            rows.append(measure(named, contender, run, options.repeats))
            print(_progress(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Run all contenders on all spaces and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("benchmarks/data"))
    parser.add_argument("--operator", type=Path, default=Path("kernels/rmsnorm"))
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--strategies", nargs="*", default=STRATEGIES)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True, help="without suffix")
    options = parser.parse_args()
    count = len(load_spaces(options.data, options.operator))
    with ProcessPoolExecutor(options.processes) as pool:
        tasks = [pool.submit(measure_space, options, index) for index in range(count)]
        rows = [row for task in tasks for row in task.result()]
    rows.sort(key=lambda row: "TURNS" in row["space"])
    write_page(options.output, rows, options.repeats, _facts())
    print(f"wrote {options.output}.csv and .md")


def _progress(row: Mapping[str, Any]) -> str:
    counts = " ".join(f"{row[f'within_{each}_percent_median']:g}" for each in (5, 3, 1))
    return (
        f"{row['space']} {row['contender']}: {counts}, score {row['score']:.3f}, "
        f"{row['propose_ms']:.2f} ms"
    )


def _facts() -> dict[str, str]:
    facts = {
        "command": shlex.join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    for name in ("numpy", "optuna", "kernel_tuner"):
        try:
            facts[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts[name] = "not installed"
    return facts


if __name__ == "__main__":
    main()
