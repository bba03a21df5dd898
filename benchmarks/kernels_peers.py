"""The other libraries that benchmarks/kernels.py compares with."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import torch
from kernels_cell import Cell
from kernels_cell import EPSILON
from kernels_contender import Contender
from kernels_contender import torch_contender

COMPILED = {"torch.compile": None, "torch.compile-max": "max-autotune-no-cudagraphs"}


def peers(cell: Cell, launches: int) -> Iterator[Contender]:
    """Yield each that can run the cell; one that fails is left out and said."""
    weight, shape = cell.weight, (cell.cols,)

    def eager(x: torch.Tensor, _y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, shape, weight, EPSILON)

    prepare = functools.partial(torch_contender, sets=cell.sets, launches=launches)
    yield from unless_it_fails(cell, "torch", lambda: prepare("torch", call=eager))
    for name, mode in COMPILED.items():
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False, mode=mode)
        yield from unless_it_fails(cell, name, functools.partial(prepare, name, call=compiled))
    try:
        from liger_kernel.ops.rms_norm import rms_norm_forward
    except ImportError:
        return

    def liger(x: torch.Tensor, _y: torch.Tensor) -> Any:
        return rms_norm_forward(x, weight, EPSILON, 0.0, "llama", None)

    yield from unless_it_fails(cell, "liger", lambda: prepare("liger", call=liger))


def unless_it_fails(cell: Cell, name: str, prepare: Callable[[], Contender]) -> Iterator[Contender]:
    """Yield a peer; say why where it can't run this cell."""
    try:
        contender = prepare()
    except RuntimeError as error:  # also what torch.compile raises
        print(f"{name}: {cell.rows}x{cell.cols}: {error}".splitlines()[0], file=sys.stderr)
    else:
        yield contender
