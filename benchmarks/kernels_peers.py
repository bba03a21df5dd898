"""The other libraries that benchmarks/kernels.py compares with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import TypeAlias

import torch
from kernels_cell import Cell
from kernels_cell import EPSILON
from kernels_contender import Contender
from kernels_contender import torch_contender

COMPILED = {"torch.compile": None, "torch.compile-max": "max-autotune-no-cudagraphs"}


Call: TypeAlias = Callable[[torch.Tensor, torch.Tensor], Any]


def _liger(weight: torch.Tensor) -> Call:
    from liger_kernel.ops.rms_norm import rms_norm_forward

    return lambda x, _y: rms_norm_forward(x, weight, EPSILON, 0.0, "llama", None)


def _quack(weight: torch.Tensor) -> Call:
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, _y: rmsnorm_fwd(x, weight, eps=EPSILON)


OPTIONAL = {"liger": _liger, "quack": _quack}  # left out where they are not installed


def peers(cell: Cell, launches: int) -> Iterator[Contender]:
    """Yield each that can run the cell; one that fails is left out and said."""
    shape = (cell.cols,)

    def eager(x: torch.Tensor, _y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, shape, cell.weight, EPSILON)

    yield from _unless_it_fails("torch", cell, launches, eager)
    for name, mode in COMPILED.items():
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False, mode=mode)
        yield from _unless_it_fails(name, cell, launches, compiled)
    for name, find in OPTIONAL.items():
        try:
            call = find(cell.weight)
        except ImportError:
            continue
        yield from _unless_it_fails(name, cell, launches, call)


def _unless_it_fails(name: str, cell: Cell, launches: int, call: Call) -> Iterator[Contender]:
    """Yield a peer; say why where it can't run this cell."""
    try:
        contender = torch_contender(name, cell.sets, launches, call)
    except Exception as error:  # each library has its own, and a peer that fails ends nothing
        what = str(error) or type(error).__name__
        print(f"{name}: {cell.rows}x{cell.cols}: {what}".splitlines()[0], file=sys.stderr)
    else:
        yield contender
