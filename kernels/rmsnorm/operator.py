"""Fused RMSNorm: its problem, tolerances and implementations."""

from __future__ import annotations

from tuner.domain.identity import Config
from tuner.domain.space import Grid
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

from .wide_loads import exchange_shape
from .wide_loads import HIP_SPLIT
from .wide_loads import HIP_VECTOR

HIP_BLOCKS = (32, 64, 128, 256, 512, 1024)
FLOAT_BYTES = 4
# More elements than this in one program and a single row already keeps it busy: at 8 warps of
# 32, the most triton-rows tries, 32768 elements are 128 registers a thread.
MAX_ROWS_BLOCK = 32_768


def hip_serial_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """One thread a row."""
    block = int(config["BLOCK"])
    return LaunchGeometry(grid=(-(-dims["rows"] // block), 1, 1), threads=block)


def hip_block_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """One block a row, one float of shared memory per thread."""
    block = int(config["BLOCK"])
    return LaunchGeometry((dims["rows"], 1, 1), threads=block, shared_bytes=block * FLOAT_BYTES)


def one_program_a_row(_config: Config, dims: Dims) -> LaunchGeometry:
    """One Triton program a row."""
    return LaunchGeometry(grid=(dims["rows"], 1, 1))


def several_rows_a_program(config: Config, dims: Dims) -> LaunchGeometry:
    """ROWS rows a Triton program; the last one may have fewer."""
    return LaunchGeometry(grid=(-(-dims["rows"] // int(config["ROWS"])), 1, 1))


def block_elements(config: Config, _dims: Dims) -> int:
    """Elements a program holds at once: ROWS (if any) times BLOCK_SIZE."""
    return int(config.get("ROWS", 1)) * int(config["BLOCK_SIZE"])


def usual_warps(elements: int, facts: DeviceFacts) -> int:
    """Warps that give a thread about 8 elements, within the device's limit.

    Two loads of 16 bytes a thread. H200, 2026-12-01: 16 warps were best at 4096 columns.
    """
    most = max(1, facts.max_threads_per_block // facts.wave_size)
    return min(next_power_of_two(max(1, elements // (8 * facts.wave_size))), most, 32)


def check_block_covers_row(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """A kernel without a loop needs a block at least as wide as the row."""
    if int(config["BLOCK_SIZE"]) < dims["cols"]:
        return f"BLOCK_SIZE {config['BLOCK_SIZE']} < {dims['cols']} columns"
    return ""


def check_loop_needed(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Where one block holds the row, triton-row does the same without the second read."""
    whole_row = next_power_of_two(dims["cols"])
    if int(config["BLOCK_SIZE"]) >= whole_row:
        return f"BLOCK_SIZE {config['BLOCK_SIZE']} >= {whole_row}: the row fits one block"
    return ""


def check_rows_block(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Several rows a program pay off while a row is short."""
    elements = block_elements(config, dims)
    if elements > MAX_ROWS_BLOCK:
        return f"ROWS * BLOCK_SIZE {elements} > {MAX_ROWS_BLOCK} elements a program"
    return ""


TRITON_RULES = (
    constraints.triton_block(block_elements),
    constraints.registers_plausible(block_elements),
)
WHOLE_ROW_RULES = (
    constraints.power_of_two("BLOCK_SIZE"),
    Constraint("block_covers_row", check_block_covers_row),
    *TRITON_RULES,
)


def row_default(dims: Dims, facts: DeviceFacts) -> Config:
    """The whole row in one block, about 8 elements a thread."""
    block = next_power_of_two(dims["cols"])
    return {"BLOCK_SIZE": block, "num_warps": usual_warps(block, facts)}


def rows_parameters(dims: Dims) -> Grid:
    """Rows a program and warps; the block is fixed by the columns."""
    block = next_power_of_two(dims["cols"])
    return {"ROWS": (2, 4, 8, 16), "BLOCK_SIZE": (block,), "num_warps": (1, 2, 4, 8)}


def rows_default(dims: Dims, facts: DeviceFacts) -> Config:
    """About 2048 elements a program."""
    block = next_power_of_two(dims["cols"])
    rows = min(16, max(2, 2048 // block))
    return {
        "ROWS": rows,
        "BLOCK_SIZE": block,
        "num_warps": min(8, usual_warps(rows * block, facts)),
    }


def loop_default(dims: Dims, facts: DeviceFacts) -> Config:
    """The largest block below the row, up to 4096."""
    block = min(4096, max(512, next_power_of_two(dims["cols"]) // 2))
    return {"BLOCK_SIZE": block, "num_warps": max(4, usual_warps(block, facts))}


HIP_SERIAL = Implementation(
    name="hip-serial",
    language="hip",
    source="rmsnorm.hip",
    entry="rmsnorm_serial",
    arguments=("x", "w", "y", "rows", "cols", "epsilon"),
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
    arguments=("x", "w", "y", "rows", "cols", "epsilon"),
    parameters=lambda _dims: {"BLOCK": HIP_BLOCKS},
    default=lambda _dims, _facts: {"BLOCK": 256},
    geometry=hip_block_geometry,
    constants=lambda config, _dims: {"BLOCK": config["BLOCK"]},
    rules=(constraints.power_of_two("BLOCK"),),
    description="HIP C++, one block a row, tree reduction in shared memory",
)

TRITON_ROW = Implementation(
    name="triton-row",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_row",
    arguments=("x", "w", "y", "cols:int32", "epsilon"),
    parameters=lambda dims: {
        "BLOCK_SIZE": (next_power_of_two(dims["cols"]),),
        "num_warps": (1, 2, 4, 8, 16, 32),
    },
    default=row_default,
    geometry=one_program_a_row,
    constants=lambda config, _dims: {"BLOCK_SIZE": config["BLOCK_SIZE"]},
    options=lambda config: {"num_warps": config["num_warps"]},
    rules=WHOLE_ROW_RULES,
    description="Triton, one program a row, the row kept in registers",
)

TRITON_ROWS = Implementation(
    name="triton-rows",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_rows",
    arguments=("x", "w", "y", "rows", "cols:int32", "epsilon"),
    parameters=rows_parameters,
    default=rows_default,
    geometry=several_rows_a_program,
    constants=lambda config, _dims: {"ROWS": config["ROWS"], "BLOCK_SIZE": config["BLOCK_SIZE"]},
    options=lambda config: {"num_warps": config["num_warps"]},
    rules=(
        constraints.power_of_two("ROWS"),
        *WHOLE_ROW_RULES,
        Constraint("rows_block", check_rows_block),
    ),
    description="Triton, several rows a program, for short rows",
)

TRITON_LOOP = Implementation(
    name="triton-loop",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_loop",
    arguments=("x", "w", "y", "cols", "epsilon"),
    parameters=lambda _dims: {
        "BLOCK_SIZE": (512, 1024, 2048, 4096, 8192),
        "num_warps": (4, 8, 16, 32),
    },
    default=loop_default,
    geometry=one_program_a_row,
    constants=lambda config, _dims: {"BLOCK_SIZE": config["BLOCK_SIZE"]},
    options=lambda config: {"num_warps": config["num_warps"]},
    rules=(
        constraints.power_of_two("BLOCK_SIZE"),
        Constraint("loop_needed", check_loop_needed),
        *TRITON_RULES,
    ),
    description="Triton, one program a row, two loops over its columns, for long rows",
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
    ),
    scalars={"epsilon": 1e-5},
    tolerances={"float32": Tolerance(absolute=2e-5, relative=2e-5)},
    cases=(
        InputCase("normal", {"x": Fill("normal"), "w": Fill("normal")}),
        InputCase("uniform", {"x": Fill("uniform"), "w": Fill("uniform")}),
        InputCase("all_zero", {"x": Fill("zero"), "w": Fill("normal")}),
        InputCase("zero_weight", {"x": Fill("normal"), "w": Fill("zero")}),
        InputCase("mixed_sign", {"x": Fill("mixed_sign"), "w": Fill("mixed_sign")}),
        InputCase("one_row_zero", {"x": Fill("one_row_zero"), "w": Fill("normal")}),
        # Squares near 1e24; summed over 262144 columns they stay 9 orders below float32's limit.
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
        TRITON_LOOP,
    ),
)
