"""RMSNorm in Triton: one row a program, several rows a program, and a loop over columns.

All accumulate in float32 whatever the element type, take the mean over the true columns (never
over the padded block), and compute row offsets in 64 bits. ``epsilon`` is a run-time float32: as
a compile-time constant it can be folded in another precision, and then a row of zeros gives NaN.
"""

# ruff: noqa: N803 - constexpr parameters are in capitals, as is the custom in Triton

import triton
import triton.language as tl


@triton.jit
def rmsnorm_row(x, w, y, cols, epsilon, BLOCK_SIZE: tl.constexpr):
    """One program normalises one row, which it reads once and keeps in registers."""
    start = tl.program_id(0).to(tl.int64) * cols
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < cols
    values = tl.load(x + start + column, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / cols + epsilon)
    weights = tl.load(w + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + start + column, values * scale * weights, mask=mask)


@triton.jit
def rmsnorm_rows(x, w, y, rows, cols, epsilon, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """One program normalises ROWS rows and reads the weights once for all of them."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_SIZE)
    in_row = column < cols
    mask = (row < rows)[:, None] & in_row[None, :]
    offsets = row[:, None] * cols + column[None, :]
    values = tl.load(x + offsets, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=1) / cols + epsilon)
    weights = tl.load(w + column, mask=in_row, other=0.0).to(tl.float32)
    tl.store(y + offsets, values * scale[:, None] * weights[None, :], mask=mask)


@triton.jit
def rmsnorm_loop(x, w, y, cols, epsilon, BLOCK_SIZE: tl.constexpr):
    """One program walks a row twice in steps of BLOCK_SIZE: sum of squares, then the result.

    The second read of x comes from the cache where it still holds the row. ``cols`` is 64-bit
    here, so that the last step can't overflow.
    """
    row = tl.program_id(0).to(tl.int64) * cols
    column = tl.arange(0, BLOCK_SIZE)
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for start in range(0, cols, BLOCK_SIZE):
        mask = start + column < cols
        values = tl.load(x + row + start + column, mask=mask, other=0.0).to(tl.float32)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares, axis=0) / cols + epsilon)
    for start in range(0, cols, BLOCK_SIZE):
        mask = start + column < cols
        values = tl.load(x + row + start + column, mask=mask, other=0.0).to(tl.float32)
        weights = tl.load(w + start + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + row + start + column, values * scale * weights, mask=mask)
