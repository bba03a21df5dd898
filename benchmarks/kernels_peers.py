"""What our kernels are compared with: a copy of the same size and the other libraries."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import torch
from kernels_cell import Cell
from kernels_cell import Contender
from kernels_cell import EPSILON

COMPILED = {"torch.compile": None, "torch.compile-max": "max-autotune-no-cudagraphs"}
# torch hands a copy to the driver's memcpy, which is slower for sizes that are no multiple of this
# many elements; leaving out the rest costs less than 0.1 % of any cell.
COPY_ELEMENTS = 1024


def torch_contender(
    name: str, cell: Cell, launches: int, call: Callable[[torch.Tensor, torch.Tensor], Any]
) -> Contender:
    """Capture ``launches`` calls of a torch function in a CUDA graph."""
    for _ in range(3):
        call(cell.inputs[0], cell.outputs[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    sets = len(cell.inputs)
    # Results are kept for a whole turn, or each would be written to where the last one lay, still
    # in the cache.
    results: deque[Any] = deque(maxlen=sets)
    with torch.cuda.graph(graph):
        for index in range(launches):
            results.append(call(cell.inputs[index % sets], cell.outputs[index % sets]))
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay() -> float:
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1000.0

    return Contender(name, replay, launches)


def peers(cell: Cell, launches: int) -> Iterator[Contender]:
    """Yield the copy and the other libraries; one that fails is left out and said."""
    weight, shape = cell.weight, (cell.cols,)

    def eager(x: torch.Tensor, _y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, shape, weight, EPSILON)

    count = cell.rows * cell.cols // COPY_ELEMENTS * COPY_ELEMENTS

    def copy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y.view(-1)[:count].copy_(x.view(-1)[:count])

    yield torch_contender("copy", cell, launches, copy)
    yield from unless_it_fails(
        cell, "torch", lambda: torch_contender("torch", cell, launches, eager)
    )
    for name, mode in COMPILED.items():
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False, mode=mode)
        prepare = functools.partial(torch_contender, name, cell, launches, compiled)
        yield from unless_it_fails(cell, name, prepare)
    try:
        from liger_kernel.ops.rms_norm import rms_norm_forward
    except ImportError:
        return

    def liger(x: torch.Tensor, _y: torch.Tensor) -> Any:
        return rms_norm_forward(x, weight, EPSILON, 0.0, "llama", None)

    prepare = functools.partial(torch_contender, "liger", cell, launches, liger)
    yield from unless_it_fails(cell, "liger", prepare)


def unless_it_fails(cell: Cell, name: str, prepare: Callable[[], Contender]) -> Iterator[Contender]:
    """Yield a peer; say why where it can't run this cell."""
    try:
        contender = prepare()
    except RuntimeError as error:  # also what torch.compile raises
        print(f"{name}: {cell.rows}x{cell.cols}: {error}".splitlines()[0], file=sys.stderr)
    else:
        yield contender
