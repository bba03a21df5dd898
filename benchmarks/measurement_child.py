"""The parts of benchmarks/measurement.py that launch kernels in a process of their own.

    python benchmarks/measurement_child.py cupti REQUESTS
    python benchmarks/measurement_child.py rotation REQUESTS

REQUESTS holds messages as a worker is sent them: the device to open, then trials. Each trial gives
a line of JSON on stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuner.bench.devices import registry
from tuner.bench.devices.base import Buffer
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.triton import TritonLanguage
from tuner.bench.measure import BufferSets
from tuner.bench.trial import Bench
from tuner.domain.job import TrialJob
from tuner.domain.records import TrialReport
from tuner.domain.stats import median
from tuner.report.profiles import is_kernel
from tuner.worker import messages

PLANTED_SETS = 2


def cupti(bench: Bench, job: TrialJob) -> dict[str, Any]:
    """Run a trial under torch.profiler and return its kernel's durations by CUPTI.

    The durations are those of the very launches that the samples are of: the first launch, which
    checks, those of the warm-up, and the last one, which checks again, are left out.
    """
    import torch

    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        report = _run(bench, job)
        torch.cuda.synchronize()
    if report.process is None:
        return {"error": _why(report)}
    on_device = torch.autograd.DeviceType.CUDA
    found = sorted(
        (each.time_range.start, each.time_range.end - each.time_range.start)
        for each in profiler.events() or ()
        if each.device_type == on_device and is_kernel(each.name, job.kernel.entry)
    )
    a_sample = report.process.launches_per_sample
    before, timed = 1 + job.sampling.warmup * a_sample, job.sampling.samples * a_sample
    if len(found) != before + timed + 1:
        return {"error": f"CUPTI saw {len(found)} launches of {before + timed + 1}"}
    return {
        "median_us": median([duration_us for _, duration_us in found[before:-1]]),
        "launches": timed,
        "own_us": median(report.process.samples_us),
        "version": f"torch {torch.__version__}",
    }


def rotation(bench: Bench, job: TrialJob) -> dict[str, Any]:
    """Run a trial as it is, then with fewer buffer sets than it asks for."""
    sound = _run(bench, job)
    with _too_few_sets():
        planted = _run(bench, job)
    return {
        "sound": str(sound.outcome),
        "sets": sound.process.buffer_sets if sound.process else None,
        "planted_sets": PLANTED_SETS,
        "planted": str(planted.outcome),
        "message": planted.failure.message if planted.failure else "",
    }


@contextmanager
def _too_few_sets() -> Iterator[None]:
    take = BufferSets.take

    def take_few(sets: BufferSets, count: int) -> list[dict[str, Buffer]]:
        return take(sets, min(PLANTED_SETS, count))

    BufferSets.take = take_few  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BufferSets.take = take  # type: ignore[method-assign]


def _run(bench: Bench, job: TrialJob) -> TrialReport:
    return bench.run_trial(job, lambda _stage, _position: None)


def _why(report: TrialReport) -> str:
    assert report.failure is not None
    return f"{report.failure.outcome}: {report.failure.message}"


def main() -> None:
    """Answer the trials of the file named second by the part named first."""
    part = {"cupti": cupti, "rotation": rotation}[sys.argv[1]]
    if part is cupti:
        import torch

        torch.cuda.init()
    opened, *trials = map(messages.decode, Path(sys.argv[2]).read_bytes().splitlines())
    options = opened.options
    device = registry.open_device(
        opened.device_id,
        registry.DeviceOptions(
            cache_dir=Path(options.cache_dir),
            cpu_wave_size=options.cpu_wave_size,
            compiler=options.cpu_compiler or None,
        ),
    )
    bench = Bench(device, {"hip": HipLanguage(), "triton": TritonLanguage()})
    for each in trials:
        print(json.dumps(part(bench, each.job)), flush=True)
    bench.close()


if __name__ == "__main__":
    main()
