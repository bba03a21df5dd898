"""RMSNorm in Triton: one row a program, several rows a program, and loops over columns.

All accumulate in float32 whatever the element type, take the mean over the true columns (never
over the padded block), and compute row offsets in 64 bits. Strides are elements from the start of
a row to the start of the next one. ``epsilon`` is a run-time float32: as a compile-time constant
it can be folded in another precision, and then a row of zeros gives NaN.

Where COLS is a compile-time constant, masks vanish from rows that fill their blocks. ``EVICT``
tells NVIDIA's caches what will be read again; ``STREAM`` writes results past them.
"""

# ruff: noqa: N803, N806, SIM108 - constants are in capitals, as is the custom in Triton, and
# `if` on one compiles one branch only

import triton
import triton.language as tl


@triton.jit
def load(pointers, mask, WHOLE: tl.constexpr, POLICY: tl.constexpr):
    """Load in float32; where WHOLE, without the mask."""
    if WHOLE:
        values = tl.load(pointers, eviction_policy=POLICY)
    else:
        values = tl.load(pointers, mask=mask, other=0.0, eviction_policy=POLICY)
    return values.to(tl.float32)


@triton.jit
def store(pointers, values, mask, WHOLE: tl.constexpr, STREAM: tl.constexpr):
    """Store in the element type of the pointers; where WHOLE, without the mask."""
    modifier: tl.constexpr = ".cs" if STREAM else ""
    if WHOLE:
        tl.store(pointers, values, cache_modifier=modifier)
    else:
        tl.store(pointers, values, mask=mask, cache_modifier=modifier)


@triton.jit
def rmsnorm_row(x, w, y, cols, x_stride, y_stride, epsilon, BLOCK_SIZE: tl.constexpr):
    """One program normalises one row, which it reads once and keeps in registers."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    mask = column < cols
    values = tl.load(x + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / cols + epsilon)
    weights = tl.load(w + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * y_stride + column, values * scale * weights, mask=mask)


@triton.jit
def rmsnorm_rows(
    x, w, y, rows, cols, x_stride, y_stride, epsilon, ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    """One program normalises ROWS rows and reads the weights once for all of them."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK_SIZE)
    in_row = column < cols
    mask = (row < rows)[:, None] & in_row[None, :]
    inputs = x + row[:, None] * x_stride + column[None, :]
    values = tl.load(inputs, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=1) / cols + epsilon)
    weights = tl.load(w + column, mask=in_row, other=0.0).to(tl.float32)
    outputs = y + row[:, None] * y_stride + column[None, :]
    tl.store(outputs, values * scale[:, None] * weights[None, :], mask=mask)


@triton.jit
def rmsnorm_turns(
    x,
    w,
    y,
    rows,
    x_stride,
    y_stride,
    epsilon,
    COLS: tl.constexpr,
    ROWS: tl.constexpr,
    TURNS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    EVICT: tl.constexpr,
    STREAM: tl.constexpr,
):
    """One program normalises ROWS rows at a time, TURNS times, and reads the weights once.

    The rows of its next turn lie a whole grid further on. With num_stages they are loaded while
    those of this turn are worked on.
    """
    once: tl.constexpr = "evict_first" if EVICT else ""
    again: tl.constexpr = "evict_last" if EVICT else ""
    WHOLE: tl.constexpr = COLS == BLOCK_SIZE
    column = tl.arange(0, BLOCK_SIZE)
    weights = load(w + column, column < COLS, WHOLE, again)
    program, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    for turn in tl.range(0, TURNS):
        row = (program + turn * programs) * ROWS + tl.arange(0, ROWS)
        if WHOLE:  # then the mask is constant along a row, and asks for no narrower loads
            mask = (row < rows)[:, None]
        else:
            mask = (row < rows)[:, None] & (column < COLS)[None, :]
        values = load(x + row[:, None] * x_stride + column[None, :], mask, False, once)
        scale = tl.rsqrt(tl.sum(values * values, axis=1) / COLS + epsilon)
        results = values * scale[:, None] * weights[None, :]
        store(y + row[:, None] * y_stride + column[None, :], results, mask, False, STREAM)


@triton.jit
def rmsnorm_loop(
    x,
    w,
    y,
    x_stride,
    y_stride,
    epsilon,
    COLS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    EVICT: tl.constexpr,
    STREAM: tl.constexpr,
):
    """One program walks a row twice in steps of BLOCK_SIZE: sum of squares, then the result.

    The second read of x comes from the cache where it still holds the row.
    """
    again: tl.constexpr = "evict_last" if EVICT else ""
    last: tl.constexpr = "evict_first" if EVICT else ""
    WHOLE: tl.constexpr = COLS % BLOCK_SIZE == 0
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK_SIZE)
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for start in tl.range(0, COLS, BLOCK_SIZE):
        at = start + column
        values = load(x + row * x_stride + at, at < COLS, WHOLE, again)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares, axis=0) / COLS + epsilon)
    for start in tl.range(0, COLS, BLOCK_SIZE):
        at = start + column
        values = load(x + row * x_stride + at, at < COLS, WHOLE, last)
        weights = load(w + at, at < COLS, WHOLE, again)
        store(y + row * y_stride + at, values * scale * weights, at < COLS, WHOLE, STREAM)


@triton.jit
def rmsnorm_part_sums(
    x, sums, x_stride, COLS: tl.constexpr, PARTS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    """One program sums the squares of one of the PARTS of a row."""
    WIDTH: tl.constexpr = (COLS + PARTS * BLOCK_SIZE - 1) // (PARTS * BLOCK_SIZE) * BLOCK_SIZE
    WHOLE: tl.constexpr = WIDTH * PARTS == COLS
    program = tl.program_id(0).to(tl.int64)
    row, part = program // PARTS, (program % PARTS).to(tl.int32)
    column = part * WIDTH + tl.arange(0, BLOCK_SIZE)
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for start in tl.range(0, WIDTH, BLOCK_SIZE):
        at = start + column
        values = load(x + row * x_stride + at, at < COLS, WHOLE, "")
        squares += values * values
    tl.store(sums + program, tl.sum(squares, axis=0))


@triton.jit
def rmsnorm_scale_parts(
    x,
    w,
    y,
    sums,
    x_stride,
    y_stride,
    epsilon,
    COLS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program scales one of the PARTS of a row by what the sums of all of them give."""
    WIDTH: tl.constexpr = (COLS + PARTS * BLOCK_SIZE - 1) // (PARTS * BLOCK_SIZE) * BLOCK_SIZE
    WHOLE: tl.constexpr = WIDTH * PARTS == COLS
    program = tl.program_id(0).to(tl.int64)
    row, part = program // PARTS, (program % PARTS).to(tl.int32)
    column = part * WIDTH + tl.arange(0, BLOCK_SIZE)
    total = tl.sum(tl.load(sums + row * PARTS + tl.arange(0, PARTS)), axis=0)
    scale = tl.rsqrt(total / COLS + epsilon)
    for start in tl.range(0, WIDTH, BLOCK_SIZE):
        at = start + column
        values = load(x + row * x_stride + at, at < COLS, WHOLE, "")
        weights = load(w + at, at < COLS, WHOLE, "")
        store(y + row * y_stride + at, values * scale * weights, at < COLS, WHOLE, False)
