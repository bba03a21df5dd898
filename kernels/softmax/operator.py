"""Row softmax: its problem, tolerances and implementations."""

from __future__ import annotations

from tuner.domain.identity import Config
from tuner.domain.space import next_power_of_two
from tuner.operator import Array
from tuner.operator import Constraint
from tuner.operator import constraints
from tuner.operator import DeviceFacts
from tuner.operator import Dims
from tuner.operator import Fill
from tuner.operator import Implementation
from tuner.operator import InputCase
from tuner.operator import LaunchGeometry
from tuner.operator import Operator
from tuner.operator import Tolerance

FLOAT_BYTES = 4


def hip_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """One block a row, one float of shared memory per thread."""
    block = int(config["BLOCK"])
    return LaunchGeometry((dims["rows"], 1, 1), threads=block, shared_bytes=block * FLOAT_BYTES)


def block_size(config: Config, _dims: Dims) -> int:
    """Elements a Triton program holds at once."""
    return int(config["BLOCK_SIZE"])


def check_block_covers_row(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """The kernel has no loop: its block must be at least as wide as the row."""
    if int(config["BLOCK_SIZE"]) < dims["cols"]:
        return f"BLOCK_SIZE {config['BLOCK_SIZE']} < {dims['cols']} columns"
    return ""


def triton_default(dims: Dims, facts: DeviceFacts) -> Config:
    """The whole row in one block, about 8 elements a thread."""
    block = next_power_of_two(dims["cols"])
    most = max(1, facts.max_threads_per_block // facts.wave_size)
    warps = min(next_power_of_two(max(1, block // (8 * facts.wave_size))), most, 32)
    return {"BLOCK_SIZE": block, "num_warps": warps}


HIP_BLOCK = Implementation(
    name="hip-block",
    language="hip",
    source="softmax.hip",
    entry="softmax_block",
    arguments=("x", "y", "rows", "cols", "x_stride", "y_stride"),
    parameters=lambda _dims: {"BLOCK": (32, 64, 128, 256, 512, 1024)},
    default=lambda _dims, _facts: {"BLOCK": 256},
    geometry=hip_geometry,
    constants=lambda config, _dims: {"BLOCK": config["BLOCK"]},
    rules=(constraints.power_of_two("BLOCK"),),
    description="HIP C++, one block a row, tree reductions in shared memory",
)

TRITON_ROW = Implementation(
    name="triton-row",
    language="triton",
    source="softmax_triton.py",
    entry="softmax_row",
    arguments=("x", "y", "cols:int32", "x_stride", "y_stride"),
    parameters=lambda dims: {
        "BLOCK_SIZE": (next_power_of_two(dims["cols"]),),
        "num_warps": (1, 2, 4, 8, 16, 32),
    },
    default=triton_default,
    geometry=lambda _config, dims: LaunchGeometry(grid=(dims["rows"], 1, 1)),
    constants=lambda config, _dims: {"BLOCK_SIZE": config["BLOCK_SIZE"]},
    options=lambda config: {"num_warps": config["num_warps"]},
    rules=(
        constraints.power_of_two("BLOCK_SIZE"),
        Constraint("block_covers_row", check_block_covers_row),
        constraints.triton_block(block_size),
        constraints.registers_plausible(block_size),
    ),
    description="Triton, one program a row, the row kept in registers",
)

OPERATOR = Operator(
    name="softmax",
    description="y = exp(x) / sum(exp(x)), row by row",
    dims=("rows", "cols"),
    arrays=(Array("x", ("rows", "cols")), Array("y", ("rows", "cols"), role="output")),
    # The relative part decides: in a row of n values a typical result is 1/n, so an absolute
    # tolerance of 1e-5 would accept anything at 100000 columns. float32 errs by some 1e-6
    # relative (exp, and the sum over a row). Below 1e-9, exp's argument is less than -20 and
    # its rounding alone is of that order; there the absolute part takes over.
    tolerances={"float32": Tolerance(absolute=1e-9, relative=2e-5)},
    cases=(
        InputCase("normal", {"x": Fill("normal")}),
        InputCase("uniform", {"x": Fill("uniform")}),
        InputCase("all_zero", {"x": Fill("zero")}),
        # exp(1000) is beyond float32: a kernel that does not subtract the maximum gives NaN.
        InputCase("large_magnitude", {"x": Fill("normal", scale=1000.0)}),
    ),
    reference="softmax",
    bytes_moved=lambda dims, item: 2 * dims["rows"] * dims["cols"] * item,
    # Maximum, subtract, exp (as one), add, divide.
    operations=lambda dims: 5 * dims["rows"] * dims["cols"],
    implementations=(HIP_BLOCK, TRITON_ROW),
)
