"""What is timed in turns with others in benchmarks/kernels.py: a CUDA graph of launches."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import TypeAlias

import torch

from tuner.bench.measure import interleaved_order

ROUNDS = 15
HOLD_CYCLES = 1_000_000  # 0.5 ms at 2 GHz: longer than the host takes to submit a graph

Tensors: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # what is read, what may be written


@dataclass(slots=True)
class Contender:
    """Something that normalises rows (or copies), ready to be timed.

    Attributes:
        name: Column of the table.
        replay: Runs all its launches once and returns their device time in microseconds.
        launches: How many there are.
        note: Its config, or "".
    """

    name: str
    replay: Callable[[], float]
    launches: int
    note: str = ""


def torch_contender(
    name: str,
    sets: Sequence[Tensors],
    launches: int,
    call: Callable[[torch.Tensor, torch.Tensor], Any],
) -> Contender:
    """Capture ``launches`` calls of a function on PyTorch's stream, going round the sets."""
    for _ in range(3):
        call(*sets[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Results are kept for a whole turn, or each would be written to where the last one lay, still
    # in the cache.
    results: deque[Any] = deque(maxlen=len(sets))
    with torch.cuda.graph(graph):
        for index in range(launches):
            results.append(call(*sets[index % len(sets)]))
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay() -> float:
        # As ours are held back: the events enclose no time in which the host submits the graph.
        torch.cuda._sleep(HOLD_CYCLES)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1000.0

    return Contender(name, replay, launches)


def measure(contenders: Sequence[Contender]) -> dict[str, float]:
    """Return the median of each contender's microseconds a launch, taken in turns."""
    samples: dict[str, list[float]] = {each.name: [] for each in contenders}
    for each in contenders:
        each.replay()
    for position in interleaved_order(len(contenders), ROUNDS, 0):
        each = contenders[position]
        samples[each.name].append(each.replay() / each.launches)
    return {name: statistics.median(values) for name, values in samples.items()}
