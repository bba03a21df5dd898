"""How long a search takes: ours against Kernel Tuner's brute force and ``triton.autotune``.

The same configs on the same shape of RMSNorm, every contender in a process of its own with empty
caches, one after the other on an otherwise idle GPU. Ours is the whole command: start, builds,
checks of every config, measurements, confirmation in fresh processes, database. Of the others only
the search itself counts, not imports nor opening the device, and they check no result. Then the
winners are measured against each other by our full protocol.

    python benchmarks/tuning_wall_clock.py --output docs/results/h200-tuning.md

Needs an NVIDIA GPU and PyTorch, and Kernel Tuner for its part. Nothing here is a dependency of
``tuner``.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime
from datetime import UTC
from pathlib import Path
from typing import Any

from timed_run import compile_package
from timed_run import run_tuner

from tuner.domain.identity import Config
from tuner.domain.identity import config_text
from tuner.domain.job import Kernel
from tuner.domain.protocol import Limits
from tuner.domain.stats import result_median
from tuner.kernel_source import KernelSource
from tuner.operator import Implementation
from tuner.operator import load_operator
from tuner.operator import Operator
from tuner.resources import operator_dirs
from tuner.settings import load_settings
from tuner.study.confirm import confirm_once
from tuner.study.confirm import sampling_of
from tuner.study.plan import make_plan
from tuner.study.spec import parse_study
from tuner.study.spec import StudySpec
from tuner.worker.pool import DeviceWorker

DEVICE = "cuda:0"
PEER_TIMEOUT_S = 300.0
STUDY = """schema = 1
name = "wall-clock"
operator = "rmsnorm"
shapes = ["{shape}"]
[search]
sampler = "exhaustive"
finalists = 6
[protocol]
cache = "{cache}"
[space.{implementation}]
{grid}
"""


@dataclasses.dataclass(frozen=True)
class Contest:
    """A space that we and a peer search."""

    peer: str
    implementation: str
    shape: str
    cache: str  # as the peer times: Kernel Tuner repeats a launch, triton.autotune flushes before
    grid: str


CONTESTS = {
    "kernel-tuner": Contest(
        "kernel-tuner", "hip-vector", "1024x4096", "hot",
        "TURNS = [1]\nLDS = [0]\nSTREAM = [0]\nFLOATS = [8, 16, 32, 64]",
    ),
    "triton-autotune": Contest(
        "triton-autotune", "triton-rows", "8192x256", "cold",
        "ROWS = [1, 2, 4, 8, 16, 32, 64, 128]\nBLOCK_SIZE = [256, 512, 1024, 2048]\n"
        "num_warps = [1, 2, 4, 8, 16, 32]",
    ),
}  # fmt: skip


class Space:
    """The configs of a contest, and their kernels."""

    def __init__(self, contest: Contest) -> None:
        self.text = STUDY.format(**dataclasses.asdict(contest))
        self.spec: StudySpec = parse_study(self.text, "wall-clock")
        self.operator: Operator = load_operator(operator_dirs()["rmsnorm"])
        self.implementation: Implementation = self.operator.implementation(contest.implementation)
        self.source: KernelSource = self.operator.source(self.implementation)
        self.workload = self.spec.workloads(self.operator)[0]
        with DeviceWorker(DEVICE, load_settings()) as worker:
            self.facts, self.name = worker.facts, worker.facts.name
            self.environment = dict(worker.environment.identity)
        (self.searched,) = make_plan(self.spec, self.operator, self.facts).spaces
        self.configs = list(self.searched.allowed())

    def kernel(self, config: Config) -> Kernel:
        """Return the kernel of a config."""
        return self.operator.kernel(self.implementation, self.source, config, self.workload)


def in_one_text(files: Mapping[str, str], main: str) -> str:
    """Return a HIP source with the prelude before it and each header once, where it is named."""
    seen: set[str] = set()

    def text_of(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = files[name].replace("#pragma once", "").replace("#include <hip/hip_runtime.h>", "")
        return re.sub(r'#include "([^"]+)"', lambda found: text_of(found[1]), text)

    return text_of("tuner_hip_prelude.h") + text_of(main)


def search_with_kernel_tuner(space: Space) -> tuple[float, Config]:
    """Return the seconds of a brute-force search and the config it found."""
    import kernel_tuner
    import numpy as np
    from constraint import FunctionConstraint

    from tuner.bench.devices import nvidia
    from tuner.bench.inputs import make_inputs

    first = space.kernel(space.configs[0])
    text = in_one_text({**first.files, **nvidia._HEADERS}, first.main)
    problem = space.operator.problem(space.workload)
    arrays: dict[str, Any] = make_inputs(problem, problem.cases[0], 1)
    for spec in problem.arrays:
        arrays.setdefault(spec.name, np.zeros(spec.shape, spec.dtype))
    kinds: dict[str, Any] = {"int32": np.int32, "int64": np.int64, "float32": np.float32}
    arguments = [
        arrays[each.name] if each.type == "buffer" else kinds[each.type](each.value)
        for each in first.arguments
    ]
    names, is_allowed = list(space.configs[0]), space.searched.is_allowed
    parameters = {name: list(space.searched.grid[name]) for name in names}
    begun = time.perf_counter()
    results, _ = kernel_tuner.tune_kernel(
        first.entry,
        text,
        lambda p: (space.kernel({n: p[n] for n in names}).geometry.grid[0],),
        arguments,
        parameters,
        restrictions=[
            FunctionConstraint(lambda *values: is_allowed(dict(zip(names, values, strict=True))))
        ],
        grid_div_x=[],
        block_size_names=["BLOCK", "block_size_y", "block_size_z"],
        defines={
            macro: lambda p, macro=macro: space.kernel({n: p[n] for n in names}).constants[macro]
            for macro in first.constants
        },
        compiler_options=["--std=c++17"],
        strategy="brute_force",
        lang="NVCUDA",
        quiet=True,
    )
    elapsed_s = time.perf_counter() - begun
    timed = [each for each in results if isinstance(each.get("time"), float | int)]
    print(f"kernel tuner: {len(timed)} of {len(results)} configs have a time", file=sys.stderr)
    best = min(timed, key=lambda each: each["time"])
    return elapsed_s, {name: best[name] for name in names}


def search_with_triton(space: Space) -> tuple[float, Config]:
    """Return the seconds of the first, tuning call of an autotuned kernel, and what it chose."""
    import torch
    import triton

    path = operator_dirs()["rmsnorm"] / space.implementation.source
    spec = importlib.util.spec_from_file_location("wall_clock_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options = [{"num_warps": config["num_warps"]} for config in space.configs]
    metas = [
        {name: value for name, value in config.items() if name != "num_warps"}
        for config in space.configs
    ]
    configs = [triton.Config(meta, **more) for meta, more in zip(metas, options, strict=True)]
    kernel = triton.autotune(configs, key=["cols"])(getattr(module, space.implementation.entry))
    rows, cols = (int(size) for size in space.workload.shape_text.split("x"))
    x = torch.randn(rows, cols, device="cuda")
    tensors = {"x": x, "w": torch.randn(cols, device="cuda"), "y": torch.empty_like(x)}
    arguments = [
        tensors[each.name] if each.type == "buffer" else each.value
        for each in space.kernel(space.configs[0]).arguments
    ]
    torch.cuda.synchronize()
    begun = time.perf_counter()
    kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](*arguments)
    torch.cuda.synchronize()
    elapsed_s = time.perf_counter() - begun
    chosen = kernel.best_config.all_kwargs()
    return elapsed_s, {name: chosen[name] for name in space.configs[0]}


PEERS = {"kernel-tuner": search_with_kernel_tuner, "triton-autotune": search_with_triton}


def empty_caches(directory: Path) -> dict[str, str]:
    """Return the environment of a process that finds nothing compiled."""
    caches = ("TUNER_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
    return {**os.environ, **{name: str(directory / name.lower()) for name in caches}}


def stage_seconds(directory: Path, study_id: int) -> dict[str, float]:
    """Return the seconds of building, checking and measuring, added up over a study's trials."""
    with sqlite3.connect(directory / "results.db") as database:
        row = database.execute(
            "SELECT sum(build_s), sum(validate_s), sum(measure_s), count(*) FROM tuner_trial "
            "WHERE study_id = ? AND outcome = 'ok'",
            (study_id,),
        ).fetchone()
    return dict(zip(("build", "validate", "measure", "trials"), row, strict=True))


def run_peer(contest: Contest, environment: dict[str, str]) -> dict[str, Any]:
    """Run a peer's search in a process of its own."""
    command = [sys.executable, __file__, "--child", contest.peer]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PEER_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    print(done.stderr[-3000:], file=sys.stderr)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def compare_winners(space: Space, configs: Sequence[Config]) -> list[float]:
    """Return the microseconds of configs measured interleaved, by our full protocol."""
    settings = load_settings()
    kernels = [space.kernel(config) for config in configs]
    processes: list[list[tuple[float, ...]]] = [[] for _ in configs]
    for process in range(space.spec.protocol.processes):
        reports = confirm_once(
            lambda: DeviceWorker(DEVICE, settings),
            kernels,
            space.operator.problem(space.workload),
            sampling_of(space.spec.protocol),
            Limits(),
            process=process,
        )
        for taken, report in zip(processes, reports, strict=True):
            assert report.process is not None, report.failure
            taken.append(report.process.samples_us)
    return [result_median(taken) for taken in processes]


def hold(contest: Contest, root: Path, *, with_peer: bool) -> dict[str, Any]:
    """Run one contest and return its figures."""
    directory = root / contest.peer
    directory.mkdir(parents=True)
    compile_package()
    space = Space(contest)
    study = directory / "study.toml"
    study.write_text(space.text, encoding="utf-8")
    environment = empty_caches(directory)
    cold = run_tuner(study, DEVICE, directory, environment)
    fresh = run_tuner(study, DEVICE, directory, environment, "--fresh")
    again = run_tuner(study, DEVICE, directory, environment)
    ours: Config = cold.answer["best"][0]["best"]["config"]
    figures: dict[str, Any] = {
        "configs": len(space.configs), "counts": cold.answer["counts"], "cold_s": cold.elapsed_s,
        "fresh_s": fresh.elapsed_s, "again_s": again.elapsed_s,
        "cold_marks_s": cold.marks_s, "fresh_marks_s": fresh.marks_s,
        "again_marks_s": again.marks_s,
        "cold_stages_s": stage_seconds(directory, cold.answer["study_id"]),
        "fresh_stages_s": stage_seconds(directory, fresh.answer["study_id"]),
        "ours": config_text(ours), "device": space.name, "environment": space.environment,
    }  # fmt: skip
    if not with_peer:
        return figures
    peer = run_peer(contest, empty_caches(directory / "peer"))
    figures["peer"] = peer
    if "error" not in peer:
        figures["times_faster"] = peer["elapsed_s"] / cold.elapsed_s
        ours_us, theirs_us = compare_winners(space, [ours, peer["config"]])
        figures |= {"ours_us": ours_us, "theirs_us": theirs_us}
    return figures


def page(results: dict[str, dict[str, Any]], command: str) -> str:
    """Return the Markdown page of the results."""
    first = next(iter(results.values()))
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("triton", "torch", "kernel-tuner")
        if importlib.util.find_spec(name.replace("-", "_"))
    )
    lines = [
        "# How long a search takes",
        "",
        f"{first['device']}, {len(os.sched_getaffinity(0))} cores, {datetime.now(UTC):%Y-%m-%d}, "
        f"Python {platform.python_version()}, {versions}, {first['environment']['compiler']}. "
        f"`{command}`",
        "",
        *(__doc__ or "").split("\n\n")[1].splitlines(),
        "",
        "| | " + " | ".join(results) + " |",
        "|---|" + "---:|" * len(results),
    ]
    for title, of in ROWS:
        cells = [of(CONTESTS[name], figures) for name, figures in results.items()]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _stages(figures: dict[str, Any], which: str) -> str:
    stages = figures[which]
    return " + ".join(f"{stages[name]:.1f}" for name in ("build", "validate", "measure")) + " s"


def _peer(figures: dict[str, Any], form: str) -> str:
    return form.format(**figures) if "ours_us" in figures else "–"


def _marks(figures: dict[str, Any], which: str) -> str:
    return ", ".join(f"{name} {at_s:.2f}" for name, at_s in figures[which].items())


ROWS: tuple[tuple[str, Callable[[Contest, dict[str, Any]], str]], ...] = (
    ("space", lambda c, f: f"{c.implementation} {c.shape}, {f['configs']} configs"),
    ("ours, cold, the whole command", lambda _, f: f"{f['cold_s']:.1f} s"),
    (
        "of it, summed over trials: build (in parallel) + check + measure",
        lambda _, f: _stages(f, "cold_stages_s"),
    ),
    (
        "`--fresh` with the kernels of the first run cached",
        lambda _, f: f"{f['fresh_s']:.1f} s ({f['fresh_s'] / f['cold_s']:.0%})",
    ),
    ("of it: build + check + measure", lambda _, f: _stages(f, "fresh_stages_s")),
    (
        "the same command again, from the stored results",
        lambda _, f: f"{f['again_s']:.1f} s ({f['again_s'] / f['cold_s']:.0%})",
    ),
    ("seconds after the cold start", lambda _, f: _marks(f, "cold_marks_s")),
    ("seconds after the start with `--fresh`", lambda _, f: _marks(f, "fresh_marks_s")),
    ("seconds after the start again", lambda _, f: _marks(f, "again_marks_s")),
    ("peer, cold, search only", lambda _, f: _peer(f, "{peer[elapsed_s]:.1f} s")),
    ("times faster", lambda _, f: _peer(f, "{times_faster:.1f}")),
    ("our winner", lambda _, f: f"{f['ours']}"),
    ("by our protocol", lambda _, f: _peer(f, "{ours_us:.3f} us")),
    ("the peer's winner", lambda _, f: _peer(f, "{peer[text]}")),
    ("by our protocol", lambda _, f: _peer(f, "{theirs_us:.3f} us")),
)


def main() -> None:
    """Hold the contests and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=CONTESTS, action="append")
    parser.add_argument("--no-peer", action="store_true", help="time ours alone")
    parser.add_argument("--output", type=Path, default=None, help="Markdown page to write")
    parser.add_argument("--child", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        elapsed_s, config = PEERS[options.child](Space(CONTESTS[options.child]))
        print(json.dumps(
            {"elapsed_s": elapsed_s, "config": config, "text": config_text(config)}
        ))  # fmt: skip
        return
    results = {}
    with tempfile.TemporaryDirectory() as name:
        for contest in options.only or CONTESTS:
            figures = hold(CONTESTS[contest], Path(name), with_peer=not options.no_peer)
            print(json.dumps({contest: figures}, indent=1), flush=True)
            results[contest] = figures
    if options.output:
        command = "python " + shlex.join([f"benchmarks/{Path(__file__).name}", *sys.argv[1:]])
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page(results, command), encoding="utf-8")


if __name__ == "__main__":
    main()
