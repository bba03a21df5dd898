"""RMSNorm in three Triton kernels that pass arrays through memory: what fusion saves is measured
against this.

Each works on tiles of ROWS rows by BLOCK_SIZE columns, in float32, and is as good as a kernel of
its own can be: the loss is in the extra arrays and launches.
"""

# ruff: noqa: N803 - constexpr parameters are in capitals, as is the custom in Triton

import triton
import triton.language as tl


@triton.jit
def tile(rows, COLS: tl.constexpr, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Return the rows and columns of this program's tile: tiles are numbered along the rows."""
    across: tl.constexpr = (COLS + BLOCK_SIZE - 1) // BLOCK_SIZE
    program = tl.program_id(0).to(tl.int64)
    row = program // across * ROWS + tl.arange(0, ROWS)
    column = program % across * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    return row, column, (row < rows)[:, None] & (column < COLS)[None, :]


@triton.jit
def square(
    x,
    squares,
    rows,
    x_stride,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Write the square of each element of x."""
    row, column, mask = tile(rows, COLS, ROWS, BLOCK_SIZE)
    values = tl.load(x + row[:, None] * x_stride + column[None, :], mask=mask, other=0.0)
    values = values.to(tl.float32)
    tl.store(squares + row[:, None] * COLS + column[None, :], values * values, mask=mask)


@triton.jit
def reduce(
    squares,
    scales,
    rows,
    epsilon,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Write what each row is to be multiplied by."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    sums = tl.zeros([ROWS, BLOCK_SIZE], dtype=tl.float32)
    for start in tl.range(0, COLS, BLOCK_SIZE):
        column = start + tl.arange(0, BLOCK_SIZE)
        mask = (row < rows)[:, None] & (column < COLS)[None, :]
        sums += tl.load(squares + row[:, None] * COLS + column[None, :], mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(sums, axis=1) / COLS + epsilon)
    tl.store(scales + row, scale, mask=row < rows)


@triton.jit
def multiply(
    x,
    w,
    y,
    scales,
    rows,
    x_stride,
    y_stride,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Write each element of x times its row's scale and its column's weight."""
    row, column, mask = tile(rows, COLS, ROWS, BLOCK_SIZE)
    values = tl.load(x + row[:, None] * x_stride + column[None, :], mask=mask, other=0.0)
    scale = tl.load(scales + row, mask=row < rows, other=0.0)
    weights = tl.load(w + column, mask=column < COLS, other=0.0).to(tl.float32)
    results = values.to(tl.float32) * scale[:, None] * weights[None, :]
    tl.store(y + row[:, None] * y_stride + column[None, :], results, mask=mask)
