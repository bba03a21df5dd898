"""Fused RMSNorm: its problem, tolerances and implementations."""

from __future__ import annotations

from tuner.domain.identity import Config
from tuner.operator import Array
from tuner.operator import constraints
from tuner.operator import Dims
from tuner.operator import Fill
from tuner.operator import Implementation
from tuner.operator import InputCase
from tuner.operator import LaunchGeometry
from tuner.operator import Operator
from tuner.operator import rounded_tolerance
from tuner.operator import Tolerance

from .triton_kernels import sums_shape
from .triton_kernels import TRITON_LOOP
from .triton_kernels import TRITON_ROW
from .triton_kernels import TRITON_ROWS
from .triton_kernels import TRITON_SPLIT
from .triton_kernels import TRITON_TURNS
from .triton_kernels import TRITON_UNFUSED
from .wide_loads import exchange_shape
from .wide_loads import HIP_SPLIT
from .wide_loads import HIP_VECTOR

HIP_BLOCKS = (32, 64, 128, 256, 512, 1024)
FLOAT_BYTES = 4
# What float32 arithmetic may cost. Summing n squares one after the other errs by about
# sqrt(n) / 3 units of 2^-24 (each rounding is random and of the size of the sum so far): 2e-5
# relative at 1,048,576 columns, and half of that after the square root; trees and lanes err less
# (2.3e-7 seen at 262144 columns, H200, 2026-12-02). The product adds three roundings of 2^-24.
FLOAT32 = Tolerance(absolute=2e-5, relative=2e-5)


def hip_serial_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """One thread a row."""
    block = int(config["BLOCK"])
    return LaunchGeometry(grid=(-(-dims["rows"] // block), 1, 1), threads=block)


def hip_block_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """One block a row, one float of shared memory per thread."""
    block = int(config["BLOCK"])
    return LaunchGeometry((dims["rows"], 1, 1), threads=block, shared_bytes=block * FLOAT_BYTES)


HIP_SERIAL = Implementation(
    name="hip-serial",
    language="hip",
    source="rmsnorm.hip",
    entry="rmsnorm_serial",
    arguments=("x", "w", "y", "rows", "cols", "x_stride", "y_stride", "epsilon"),
    parameters=lambda _dims: {"BLOCK": HIP_BLOCKS},
    default=lambda _dims, _facts: {"BLOCK": 256},
    geometry=hip_serial_geometry,
    constants=lambda config, _dims: {"BLOCK": config["BLOCK"]},
    rules=(constraints.power_of_two("BLOCK"),),
    description="HIP C++, one thread a row",
)

HIP_BLOCK = Implementation(
    name="hip-block",
    language="hip",
    source="rmsnorm.hip",
    entry="rmsnorm_block",
    arguments=("x", "w", "y", "rows", "cols", "x_stride", "y_stride", "epsilon"),
    parameters=lambda _dims: {"BLOCK": HIP_BLOCKS},
    default=lambda _dims, _facts: {"BLOCK": 256},
    geometry=hip_block_geometry,
    constants=lambda config, _dims: {"BLOCK": config["BLOCK"]},
    rules=(constraints.power_of_two("BLOCK"),),
    description="HIP C++, one block a row, tree reduction in shared memory",
)

OPERATOR = Operator(
    name="rmsnorm",
    description="y = x / sqrt(mean(x^2) + epsilon) * w, row by row",
    dims=("rows", "cols"),
    arrays=(
        Array("x", ("rows", "cols")),
        Array("w", ("cols",)),
        Array("y", ("rows", "cols"), role="output"),
        Array("exchange", exchange_shape, role="scratch", dtype="uint64"),
        Array("sums", sums_shape, "intermediate", "float32"),
        Array("squares", ("rows", "cols"), "intermediate", "float32"),
        Array("scales", ("rows",), "intermediate", "float32"),
    ),
    scalars={"epsilon": 1e-5},
    tolerances={
        dtype: rounded_tolerance(FLOAT32, dtype) for dtype in ("float32", "float16", "bfloat16")
    },
    cases=(
        InputCase("normal", {"x": Fill("normal"), "w": Fill("normal")}),
        InputCase("uniform", {"x": Fill("uniform"), "w": Fill("uniform")}),
        InputCase("all_zero", {"x": Fill("zero"), "w": Fill("normal")}),
        InputCase("zero_weight", {"x": Fill("normal"), "w": Fill("zero")}),
        InputCase("mixed_sign", {"x": Fill("mixed_sign"), "w": Fill("mixed_sign")}),
        InputCase("one_row_zero", {"x": Fill("one_row_zero"), "w": Fill("normal")}),
        # Squares near 1e24; summed over 262144 columns they stay 9 orders below float32's limit.
        # In FP16 the scale is 4096: a sum of squares in FP16 would overflow.
        InputCase("large_magnitude", {"x": Fill("normal", scale=1e12), "w": Fill("normal")}),
    ),
    reference="rmsnorm",
    # x read, y written, w read once. Kernels that read more are charged for it by their time.
    bytes_moved=lambda dims, item: (2 * dims["rows"] * dims["cols"] + dims["cols"]) * item,
    # Square, add, scale, weigh.
    operations=lambda dims: 4 * dims["rows"] * dims["cols"],
    implementations=(
        HIP_SERIAL,
        HIP_BLOCK,
        HIP_VECTOR,
        HIP_SPLIT,
        TRITON_ROW,
        TRITON_ROWS,
        TRITON_TURNS,
        TRITON_LOOP,
        TRITON_SPLIT,
        TRITON_UNFUSED,
    ),
)
