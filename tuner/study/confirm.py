"""The second stage: finalists by the full protocol, in fresh processes, interleaved."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Protocol

from tuner.domain.job import ConfirmJob
from tuner.domain.job import Kernel
from tuner.domain.job import Problem
from tuner.domain.job import Sampling
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.protocol import Limits
from tuner.domain.protocol import Protocol as TimingProtocol
from tuner.domain.protocol import QuickStage
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.domain.study import StoredTrial

# A process whose kernel crashed is repeated without it; each repeat loses at least one kernel,
# so this is reached only when the device itself is gone.
MAX_RETRIES = 16


class FreshWorker(Protocol):
    """A worker process started for one confirmation."""

    def prepare(self, job: ConfirmJob, *, screening: bool = False) -> None:
        """Make ready for a confirmation, or a screening; returns at once."""

    def await_prepared(self, limits: Limits) -> None:
        """Wait until that is done."""

    def run_confirmation(self, job: ConfirmJob, limits: Limits) -> list[TrialReport]:
        """Measure several kernels of one problem, interleaved."""

    def begin_close(self) -> None:
        """Let the process end, without waiting for it."""

    def close(self, *, force: bool = False) -> None:
        """End the process."""


class FreshWorkers:
    """Workers for the confirming processes of a round, all ready before the first one measures.

    Opening a device, making inputs and giving a context back takes longer than the samples: they
    do it side by side, before and after all measurements, and are idle while another measures.

    Args:
        start: Opens several at once.
        count: How many will be needed; more are opened one by one.
        job: What they will be asked.
        limits: Deadlines.
    """

    def __init__(
        self,
        start: Callable[[int], Sequence[FreshWorker]],
        count: int,
        job: ConfirmJob,
        limits: Limits,
    ) -> None:
        self._start = start
        self._used: list[FreshWorker] = []
        self._waiting = list(start(count))
        try:
            for worker in self._waiting:
                worker.prepare(job)
            for worker in self._waiting:
                worker.await_prepared(limits)
        except BaseException:  # Ctrl-C: leave no process behind
            self.close()
            raise

    def take(self) -> FreshWorker:
        """Return one that has done nothing yet."""
        self._used.append(self._waiting.pop(0) if self._waiting else self._start(1)[0])
        return self._used[-1]

    def close(self) -> None:
        """End them all; those that were not needed, by force."""
        for worker in self._used:
            worker.begin_close()
        while self._waiting:
            self._waiting.pop().close(force=True)
        while self._used:
            self._used.pop().close()


def finalists(trials: Iterable[StoredTrial], count: int, within: float) -> list[StoredTrial]:
    """Return which trials of one workload are confirmed, fastest first.

    These are the fastest ``count`` of the quick stage, as far as they took no more than
    ``within`` times what the fastest did, and the fastest of each implementation, so that
    ``best --implementation`` has an answer for each. Equal times keep the order in which the
    trials ran.
    """
    ranked = sorted(
        (each for each in trials if each.outcome is Outcome.OK and each.quick_median_us),
        key=lambda each: (each.quick_median_us, each.trial_id),
    )
    chosen: list[StoredTrial] = []
    seen: set[str] = set()
    for position, trial in enumerate(ranked):
        is_near = (trial.quick_median_us or 0) <= within * (ranked[0].quick_median_us or 0)
        if (position < count and is_near) or trial.point.implementation not in seen:
            chosen.append(trial)
        seen.add(trial.point.implementation)
    return chosen


def sampling_of(protocol: TimingProtocol, quick: QuickStage | None = None) -> Sampling:
    """Return how one process samples by a protocol; the quick stage takes fewer, shorter ones."""
    stage = quick or protocol
    return Sampling(
        warmup=stage.warmup,
        samples=stage.samples,
        launches_per_sample=protocol.launches_per_sample,
        target_sample_us=stage.target_sample_us,
        cache=protocol.cache,
        submission=protocol.submission,
        input_case=protocol.input_case,
        input_seed=protocol.input_seed,
    )


def confirm_once(
    start: Callable[[], FreshWorker],
    kernels: Sequence[Kernel],
    problem: Problem,
    sampling: Sampling,
    limits: Limits,
    *,
    process: int,
) -> list[TrialReport]:
    """Measure kernels in one fresh process and return a report for each, in order.

    ``start`` gives the process, and whoever gave it ends it. A kernel that takes the process down
    keeps its failure, and the others are measured again in another process without it.
    """

    def run(positions: Sequence[int]) -> list[TrialReport]:
        chosen = tuple(kernels[position] for position in positions)
        return start().run_confirmation(ConfirmJob(chosen, problem, sampling, process), limits)

    return measure_together(run, len(kernels), Stage.CONFIRM)


def measure_together(
    run: Callable[[Sequence[int]], Sequence[TrialReport]], count: int, stage: Stage
) -> list[TrialReport]:
    """Measure kernels together and return a report for each, in order.

    Args:
        run: Measures the kernels at these positions and answers for each; those that are not at
            fault when one takes the process down come back interrupted.
        count: Kernels there are.
        stage: Told of a kernel that never got its turn.
    """
    reports: dict[int, TrialReport] = {}
    left = list(range(count))
    for _ in range(MAX_RETRIES):
        if not left:
            break
        # One kernel that broke the device leaves the others without result: not their fault.
        for position, answer in zip(left, run(left), strict=True):
            if answer.outcome is not Outcome.INTERRUPTED:
                reports[position] = answer
        left = [position for position in left if position not in reports]
    never = TrialReport(
        Failure(Outcome.INTERRUPTED, stage, "the device was lost each time it was tried")
    )
    return [reports.get(position, never) for position in range(count)]
