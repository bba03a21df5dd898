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
ASSUMED_CACHE_BYTES = 256 * 1024**2  # where the size is unknown: the largest so far (MI300)
CACHE_TURNOVER = 3  # a buffer set comes round after three times the cache's size of other traffic


class BufferSets:
    """Sets of buffers for launches to go round, shared by all kernels that take the same arrays.

    With a hot cache there is one, so that taking turns does not evict anyone's data. With a cold
    one there are as many as it takes, and none is of use to the next kernel: the cache is
    flushed before each sample. To fill them anew for each kernel took longer than to sample it.

    Args:
        device: The device.
        arrays: Those of the problem's arrays that the kernels take: others would make sets look
            larger than what is touched.
        first: Buffers with the timed inputs and for the outputs; not freed here. None makes a
            first set like the others.
        fill: Writes the timed inputs into a set made here.
    """

    def __init__(
        self,
        device: Device,
        arrays: Sequence[ArraySpec],
        first: dict[str, Buffer] | None,
        fill: Callable[[dict[str, Buffer]], None],
    ) -> None:
        self._device = device
        self._sizes_bytes = {array.name: array_bytes(array) for array in arrays}
        self._scratch = [array.name for array in arrays if array.role == "scratch"]
        self._fill = fill
        self._sets = [] if first is None else [first]
        self._given = len(self._sets)

    @property
    def set_bytes(self) -> int:
        """Size of a set, of all its arrays."""
        return max(1, sum(self._sizes_bytes.values()))

    def take(self, count: int) -> list[dict[str, Buffer]]:
        """Return that many sets.

        Raises:
            OutOfDeviceMemory: There is no room for them.
        """
        while len(self._sets) < count:
            self._sets.append(self._new_set())
        return self._sets[:count]

    def clear_scratch(self) -> None:
        """Zero all scratch: the kernel before may not have left it so on every set."""
        for each in self._sets:
            for name in self._scratch:
                self._device.fill(each[name], 0)

    def close(self) -> None:
        """Free what was made here."""
        for own in self._sets[self._given :]:
            for buffer in own.values():
                self._device.free(buffer)
        del self._sets[self._given :]

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
        for name in self._scratch:
            self._device.fill(buffers[name], 0)
        return buffers


class Sampler:
    """One executable, ready to be sampled.

    Args:
        device: The device.
        bind: Makes what is timed as one launch, of one or several steps, on a set of buffers.
        sets: Buffers to launch on; not freed here.
        sampling: How many samples and how.
    """

    def __init__(
        self,
        device: Device,
        bind: Callable[[dict[str, Buffer]], Sequence[Launch]],
        sets: BufferSets,
        sampling: Sampling,
    ) -> None:
        self._device = device
        self._bind = bind
        self._sets = sets
        self._sampling = sampling
        self._prepared: PreparedLaunches | None = None
        self._samples_us: list[float] = []
        self._before = Telemetry()
        self._launches = 1

    def warm_up(self) -> None:
        """Fix the launches per sample, prepare them, and take the untimed samples.

        Raises:
            OutOfDeviceMemory: There is no room for the buffer sets of a cold cache.
            BadTimerValue: The timer gives zero, negative or non-finite values, or launches of
                a cold sample would find their data in the cache.
        """
        self._before = self._device.telemetry()
        self._sets.clear_scratch()
        self._launches = self._sampling.launches_per_sample or self._calibrate()
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
            buffer_sets=self._sets_for(self._launches),
            submission=self._prepared.submission,
            before=self._before,
            after=self._device.telemetry(),
        )

    def close(self) -> None:
        """Give everything back."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None

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
        sets = self._sets.take(self._sets_for(launches))
        if self._sampling.cache == "cold":
            check_rotation(launches, len(sets), self._sets.set_bytes, self._cache_bytes)
        bound = [self._bind(each) for each in sets]
        sequence = [step for index in range(launches) for step in bound[index % len(bound)]]
        return self._device.prepare(sequence, self._sampling.submission)

    def _sets_for(self, launches: int) -> int:
        """Return the buffer sets with which none comes round in a cold sample while cached."""
        if self._sampling.cache == "hot":
            return 1
        turnover = math.ceil(CACHE_TURNOVER * self._cache_bytes / self._sets.set_bytes) + 1
        return min(launches, turnover)

    @property
    def _cache_bytes(self) -> int:
        return self._device.facts.cache_bytes or ASSUMED_CACHE_BYTES


def check_rotation(launches: int, sets: int, set_bytes: int, cache_bytes: int) -> None:
    """Refuse a cold sample whose launches would find what an earlier one of them left cached.

    Args:
        launches: Of the sample; the cache is flushed before the first.
        sets: Buffer sets they go round.
        set_bytes: Size of a set, outputs included: they are cached like inputs.
        cache_bytes: Last-level cache.

    Raises:
        BadTimerValue: A set comes round before enough other bytes have passed.
    """
    if launches > sets and sets * set_bytes < CACHE_TURNOVER * cache_bytes:
        raise BadTimerValue(
            f"{launches} launches go round {sets} buffer set(s) of {set_bytes} bytes: that is less "
            f"than {CACHE_TURNOVER} times the cache of {cache_bytes} bytes, so they are not cold"
        )


def interleaved_order(count: int, rounds: int, rotation: int) -> Iterator[int]:
    """Yield which of ``count`` kernels is sampled next, each once a round.

    Each round starts one kernel later and every other round goes backwards, so that drift hits
    all alike and none always runs on the clocks its neighbour left.
    """
    for round_number in range(rounds):
        order = [(rotation + round_number + step) % count for step in range(count)]
        yield from reversed(order) if round_number % 2 else order
