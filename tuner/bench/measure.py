"""Takes the samples of an executable: warm-up, launches per sample, cache state, raw times."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import PreparedLaunches
from tuner.bench.inputs import array_bytes
from tuner.domain.device import Telemetry
from tuner.domain.job import ArraySpec
from tuner.domain.job import Sampling
from tuner.domain.records import ProcessReport
from tuner.errors import BadTimerValue
from tuner.errors import OutOfDeviceMemory

# A sample needs no more launches than this: 1 ms of launches of 1 us, the shortest a GPU does.
MAX_LAUNCHES_PER_SAMPLE = 1024
CACHE_TURNOVER = 3  # a buffer set comes round after three times the cache's size of other traffic


class Sampler:
    """One executable, ready to be sampled.

    With a hot cache all kernels of a problem are sampled on the same buffers, so that taking
    turns does not evict anyone's data. With a cold one each has sets of its own to go round.

    Args:
        device: The device.
        bind: Makes what is timed as one launch, of one or several steps, on a set of buffers.
        arrays: Those of the problem's arrays that the executable takes.
        shared: Buffers with the timed inputs and for the outputs; not freed here.
        fill: Writes the timed inputs into a further set of buffers.
        sampling: How many samples and how.
    """

    def __init__(
        self,
        device: Device,
        bind: Callable[[dict[str, Buffer]], Sequence[Launch]],
        arrays: Sequence[ArraySpec],
        shared: dict[str, Buffer],
        fill: Callable[[dict[str, Buffer]], None],
        sampling: Sampling,
    ) -> None:
        self._device = device
        self._bind = bind
        self._fill = fill
        self._sampling = sampling
        self._sizes_bytes = {array.name: array_bytes(array) for array in arrays}
        self._sets = [shared]
        self._prepared: PreparedLaunches | None = None
        self._samples_us: list[float] = []
        self._before = Telemetry()
        self._launches = 1

    def warm_up(self) -> None:
        """Fix the launches per sample, prepare them, and take the untimed samples.

        Raises:
            OutOfDeviceMemory: There is no room for the buffer sets of a cold cache.
            BadTimerValue: The timer gives zero, negative or non-finite values.
        """
        self._before = self._device.telemetry()
        self._launches = self._sampling.launches_per_sample or self._calibrate()
        self._grow_sets()
        self._prepared = self._prepare(self._launches)
        for _ in range(self._sampling.warmup):
            self._one()

    def take(self) -> None:
        """Take one sample and keep it raw.

        Raises:
            BadTimerValue: The timer gave a zero, negative or non-finite value.
        """
        self._samples_us.append(self._one() / self._launches)

    def report(self) -> ProcessReport:
        """Return everything taken so far."""
        assert self._prepared is not None
        return ProcessReport(
            samples_us=tuple(self._samples_us),
            launches_per_sample=self._launches,
            buffer_sets=len(self._sets),
            submission=self._prepared.submission,
            before=self._before,
            after=self._device.telemetry(),
        )

    def close(self) -> None:
        """Give everything back."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None
        for own in self._sets[1:]:
            for buffer in own.values():
                self._device.free(buffer)
        del self._sets[1:]

    def _one(self) -> float:
        assert self._prepared is not None
        if self._sampling.cache == "cold":
            self._device.flush_cache()
        elapsed_us = self._prepared.elapsed_us()
        if not (math.isfinite(elapsed_us) and elapsed_us > 0):
            raise BadTimerValue(f"the timer gave {elapsed_us!r} us for {self._launches} launches")
        return elapsed_us

    def _calibrate(self) -> int:
        """Return the launches that make a sample last as long as the protocol wants.

        Doubles from one launch; a timer that stays at zero ends it, not an endless loop.
        """
        launches = 1
        while True:
            prepared = self._prepare(launches)
            try:
                prepared.elapsed_us()  # the first run loads code and uploads the graph
                elapsed_us = prepared.elapsed_us()
            finally:
                prepared.close()
            if not math.isfinite(elapsed_us) or elapsed_us < 0:
                raise BadTimerValue(f"the timer gave {elapsed_us!r} us for {launches} launches")
            wanted = math.ceil(launches * self._sampling.target_sample_us / max(elapsed_us, 1e-3))
            if elapsed_us >= self._sampling.target_sample_us / 8 or launches >= 64:
                if elapsed_us == 0:
                    raise BadTimerValue(f"the timer gave 0 us for {launches} launches")
                return max(1, min(wanted, MAX_LAUNCHES_PER_SAMPLE))
            launches = min(max(launches * 8, 1), 64)

    def _prepare(self, launches: int) -> PreparedLaunches:
        bound = [self._bind(each) for each in self._sets]
        sequence = [step for index in range(launches) for step in bound[index % len(bound)]]
        return self._device.prepare(sequence, self._sampling.submission)

    def _new_set(self) -> dict[str, Buffer]:
        buffers: dict[str, Buffer] = {}
        try:
            for name, size in self._sizes_bytes.items():
                buffers[name] = self._device.allocate(size)
        except OutOfDeviceMemory:
            for buffer in buffers.values():
                self._device.free(buffer)
            raise
        self._fill(buffers)
        return buffers

    def _grow_sets(self) -> None:
        """Add buffer sets, for a cold cache, until none comes round while still cached."""
        if self._sampling.cache == "hot":
            return
        set_bytes = max(1, sum(self._sizes_bytes.values()))
        turnover = math.ceil(CACHE_TURNOVER * self._device.facts.cache_bytes / set_bytes) + 1
        wanted = min(self._launches, turnover)
        while len(self._sets) < wanted:
            self._sets.append(self._new_set())


def interleaved_order(count: int, rounds: int, rotation: int) -> Iterator[int]:
    """Yield which of ``count`` kernels is sampled next, each once a round.

    Each round starts one kernel later and every other round goes backwards, so that drift hits
    all alike and none always runs on the clocks its neighbour left.
    """
    for round_number in range(rounds):
        order = [(rotation + round_number + step) % count for step in range(count)]
        yield from reversed(order) if round_number % 2 else order
