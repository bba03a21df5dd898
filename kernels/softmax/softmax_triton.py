"""Row softmax in Triton: one program a row, float32 arithmetic, 64-bit row offsets."""

# ruff: noqa: N803 - constexpr parameters are in capitals, as is the custom in Triton

import triton
import triton.language as tl


@triton.jit
def softmax_row(x, y, cols, x_stride, y_stride, BLOCK_SIZE: tl.constexpr):
    """One program does one row, which it reads once and keeps in registers."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < cols
    # -inf in the padding: it can't be the maximum, and its power is an exact 0 in the sum.
    values = tl.load(x + row * x_stride + column, mask=mask, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * y_stride + column, powers / tl.sum(powers, axis=0), mask=mask)
