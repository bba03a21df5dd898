"""The copies that benchmarks/kernels.py compares with: the driver's, and one of its own.

The driver's is what PyTorch's ``copy_`` comes to for contiguous tensors. It is no measure of the
memory everywhere: 1.5 times too slow where a tensor has several hundred MB (H200, 1024x131072 in
FP32 and beyond), hence the second one.
"""

from __future__ import annotations

import itertools
import statistics

import torch
import triton
import triton.language as tl
from kernels_cell import Cell
from kernels_contender import Contender
from kernels_contender import Tensors
from kernels_contender import torch_contender

WORD_BYTES = 4
# H200: the driver's copy takes 1.5 times as long where the bytes are an odd multiple of 2 KiB.
# Leaving out the rest costs less than 0.1 % of any cell.
COPY_BYTES = 4096
BLOCKS = (1024, 2048, 4096, 8192)
WARPS = (4, 8)


@triton.jit  # type: ignore[untyped-decorator]
def copy_block(x, y, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
    """Copy BLOCK words of 4 bytes, a thread 16 bytes at a time (``count`` is a multiple of 16)."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count), mask=at < count)


def copies(cell: Cell, launches: int) -> list[Contender]:
    """Return a contender for each copy of as many bytes as the cell's rows have."""
    size_bytes = cell.rows * cell.cols * cell.weight.element_size()
    words = size_bytes // COPY_BYTES * COPY_BYTES // WORD_BYTES
    sets = [(_words(x, words), _words(y, words)) for x, y in cell.stored]
    driver = torch_contender("copy", sets, launches, lambda x, y: y.copy_(x))
    return [driver, _fastest([_triton_copy(sets, launches, *each) for each in _choices()])]


def _choices() -> list[tuple[int, int]]:
    return list(itertools.product(BLOCKS, WARPS))


def _words(tensor: torch.Tensor, count: int) -> torch.Tensor:
    elements = count * WORD_BYTES // tensor.element_size()
    return tensor.view(-1)[:elements].view(torch.int32)


def _triton_copy(sets: list[Tensors], launches: int, block: int, warps: int) -> Contender:
    def copy(x: torch.Tensor, y: torch.Tensor) -> None:
        count = x.numel()
        copy_block[(triton.cdiv(count, block),)](x, y, count, BLOCK=block, num_warps=warps)

    return torch_contender("copy-triton", sets, launches, copy)


def _fastest(contenders: list[Contender]) -> Contender:
    for each in contenders:
        each.replay()
    return min(contenders, key=lambda each: statistics.median(each.replay() for _ in range(3)))
