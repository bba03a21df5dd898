"""RMSNorm in Triton: the implementations, their parameters and what refuses a config."""

from __future__ import annotations

from collections.abc import Callable

from tuner.domain.identity import Config
from tuner.domain.space import Grid
from tuner.domain.space import next_power_of_two
from tuner.operator import Constraint
from tuner.operator import constraints
from tuner.operator import DeviceFacts
from tuner.operator import Dims
from tuner.operator import Implementation
from tuner.operator import LaunchGeometry
from tuner.operator import Step

FLOAT_BYTES = 4
# More elements than this in one program and a single row already keeps it busy: at 8 warps of
# 32, the most triton-rows tries, 32768 elements are 128 registers a thread.
MAX_ROWS_BLOCK = 32_768
# Column numbers are 32 bits wide in the kernels, and the last block may begin near the end.
MAX_COLS = 2**30
MOST_PARTS = 256
SPLIT_FROM_COLS = 16_384


def one_program_a_row(_config: Config, dims: Dims) -> LaunchGeometry:
    """One Triton program a row."""
    return LaunchGeometry(grid=(dims["rows"], 1, 1))


def several_rows_a_program(config: Config, dims: Dims) -> LaunchGeometry:
    """ROWS rows a program, TURNS times where the config has turns; the last may have fewer."""
    rows = int(config["ROWS"]) * int(config.get("TURNS", 1))
    return LaunchGeometry(grid=(-(-dims["rows"] // rows), 1, 1))


def one_program_a_part(config: Config, dims: Dims) -> LaunchGeometry:
    """PARTS programs a row."""
    return LaunchGeometry(grid=(dims["rows"] * int(config["PARTS"]), 1, 1))


def one_program_a_tile(config: Config, dims: Dims) -> LaunchGeometry:
    """Tiles of ROWS rows by BLOCK_SIZE columns."""
    across = -(-dims["cols"] // int(config["BLOCK_SIZE"]))
    return LaunchGeometry(grid=(across * -(-dims["rows"] // int(config["ROWS"])), 1, 1))


def constants_of(*names: str) -> Callable[[Config, Dims], Config]:
    """Return what gives a kernel's constants: parameters, and the columns."""
    return lambda config, dims: {**{name: config[name] for name in names}, "COLS": dims["cols"]}


def block_elements(config: Config, _dims: Dims) -> int:
    """Elements a program holds at once: ROWS (if any) times BLOCK_SIZE."""
    return int(config.get("ROWS", 1)) * int(config["BLOCK_SIZE"])


def warps_and_stages(config: Config) -> Config:
    """Compiler options, of those the config has."""
    return {name: config[name] for name in ("num_warps", "num_stages") if name in config}


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
    if int(config["ROWS"]) > 1 and elements > MAX_ROWS_BLOCK:
        return f"ROWS * BLOCK_SIZE {elements} > {MAX_ROWS_BLOCK} elements a program"
    return ""


def check_columns(_config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Column numbers must fit 32 bits, with a block to spare."""
    return f"{dims['cols']} columns > {MAX_COLS}" if dims["cols"] > MAX_COLS else ""


def check_row_in_registers(config: Config, _dims: Dims, _facts: DeviceFacts) -> str:
    """Rows of 65536 elements spill on sm_90 and gfx942 at the most threads there are."""
    if int(config["BLOCK_SIZE"]) > MAX_ROWS_BLOCK:
        return f"BLOCK_SIZE {config['BLOCK_SIZE']} > {MAX_ROWS_BLOCK}: a loop does not spill"
    return ""


def check_hints(config: Config, _dims: Dims, facts: DeviceFacts) -> str:
    """Triton's AMD backend drops eviction hints: the config would be another one's double."""
    if config["EVICT"] and facts.kind == "hip":
        return "EVICT 1: Triton passes no eviction hints on to AMD"
    return ""


def check_stages(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Stages overlap the turns of a loop: where there is one turn, they change nothing."""
    turns = int(config.get("TURNS", 0)) or -(-dims["cols"] // int(config["BLOCK_SIZE"]))
    if int(config["num_stages"]) > max(1, turns):
        return f"num_stages {config['num_stages']} > {turns} turns of the loop"
    return ""


def leaves_one_out(cols: int, parts: int, block: int) -> bool:
    """Tell whether a part of a row gets no column."""
    return -(-cols // (parts * block)) * block * (parts - 1) >= cols


def check_long_row(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Sharing a row pays off where it is long, and no part may be without columns."""
    cols, parts, block = dims["cols"], int(config["PARTS"]), int(config["BLOCK_SIZE"])
    if cols < SPLIT_FROM_COLS:
        return f"{cols} columns < {SPLIT_FROM_COLS}: one program does the row"
    if leaves_one_out(cols, parts, block):
        return f"PARTS {parts} * BLOCK_SIZE {block}: some of them get no column"
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
ROWS_RULES = (
    constraints.power_of_two("ROWS"),
    *WHOLE_ROW_RULES,
    Constraint("rows_block", check_rows_block),
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
    warps = min(8, usual_warps(rows * block, facts))
    return {"ROWS": rows, "BLOCK_SIZE": block, "num_warps": warps}


def turns_parameters(dims: Dims) -> Grid:
    """Rows at a time, how many times, and what the loop and the caches are told."""
    return {
        "ROWS": (1, 2, 4, 8, 16, 32),
        "TURNS": (1, 2, 4, 8),
        "BLOCK_SIZE": (next_power_of_two(dims["cols"]),),
        "num_warps": (1, 2, 4, 8, 16, 32),
        "num_stages": (1, 2, 3),
        "EVICT": (0, 1),
        "STREAM": (0, 1),
    }


def turns_default(dims: Dims, facts: DeviceFacts) -> Config:
    """About 2048 elements at a time, two turns, the next rows loaded ahead."""
    block = next_power_of_two(dims["cols"])
    rows = min(32, max(1, 2048 // block))
    return {
        "ROWS": rows,
        "TURNS": 2,
        "BLOCK_SIZE": block,
        "num_warps": usual_warps(rows * block, facts),
        "num_stages": 2,
        "EVICT": 0,
        "STREAM": 0,
    }


def loop_default(dims: Dims, facts: DeviceFacts) -> Config:
    """The largest block below the row, up to 4096."""
    block = min(4096, max(512, next_power_of_two(dims["cols"]) // 2))
    warps = max(4, usual_warps(block, facts))
    return {"BLOCK_SIZE": block, "num_warps": warps, "num_stages": 1, "EVICT": 0, "STREAM": 0}


def split_default(dims: Dims, facts: DeviceFacts) -> Config:
    """About 16384 columns a part, in blocks of 2048; more where a part would get none."""
    parts = min(MOST_PARTS, max(2, next_power_of_two(dims["cols"]) // 16_384))
    while parts > 2 and leaves_one_out(dims["cols"], parts, 2048):
        parts //= 2
    return {"PARTS": parts, "BLOCK_SIZE": 2048, "num_warps": max(4, usual_warps(2048, facts))}


def split_parameters(dims: Dims) -> Grid:
    """Programs a row; a row too short to be shared has one config, whose refusal says so."""
    if dims["cols"] < SPLIT_FROM_COLS:
        return {"PARTS": (2,), "BLOCK_SIZE": (2048,), "num_warps": (8, 4)}
    return {
        "PARTS": (2, 4, 8, 16, 32, 64, 128, MOST_PARTS),
        "BLOCK_SIZE": (1024, 2048, 4096, 8192),
        "num_warps": (4, 8, 16),
    }


def sums_shape(dims: Dims) -> tuple[int, ...]:
    """A sum for each part of a row; nothing to speak of where no row is split."""
    return (dims["rows"], MOST_PARTS) if dims["cols"] >= SPLIT_FROM_COLS else (1, 1)


def unfused_parameters(dims: Dims) -> Grid:
    """Tiles up to 4096 columns wide."""
    widest = min(4096, next_power_of_two(dims["cols"]))
    blocks = sorted({min(widest, size) for size in (512, 1024, 2048, 4096)})
    return {
        "ROWS": (1, 4, 16, 64),
        "BLOCK_SIZE": tuple(blocks),
        "num_warps": (4, 8),
    }


def unfused_default(dims: Dims, _facts: DeviceFacts) -> Config:
    """Tiles of about 4096 elements, 8 warps."""
    block = min(4096, next_power_of_two(dims["cols"]))
    rows = next(each for each in (64, 16, 4, 1) if each * block <= 4096)
    return {"ROWS": rows, "BLOCK_SIZE": block, "num_warps": 8}


def unfused_bytes(dims: Dims) -> int:
    """Squares written and read, a scale a row written and read, x read a second time."""
    elements = dims["rows"] * dims["cols"]
    return 2 * FLOAT_BYTES * (elements + dims["rows"]) + elements * dims["item_bytes"]


TRITON_ROW = Implementation(
    name="triton-row",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_row",
    arguments=("x", "w", "y", "cols:int32", "x_stride", "y_stride", "epsilon"),
    parameters=lambda dims: {
        "BLOCK_SIZE": (next_power_of_two(dims["cols"]),),
        "num_warps": (1, 2, 4, 8, 16, 32),
    },
    default=row_default,
    geometry=one_program_a_row,
    constants=lambda config, _dims: {"BLOCK_SIZE": config["BLOCK_SIZE"]},
    options=warps_and_stages,
    rules=WHOLE_ROW_RULES,
    description="Triton, one program a row, the row kept in registers",
)

TRITON_ROWS = Implementation(
    name="triton-rows",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_rows",
    arguments=("x", "w", "y", "rows", "cols:int32", "x_stride", "y_stride", "epsilon"),
    parameters=rows_parameters,
    default=rows_default,
    geometry=several_rows_a_program,
    constants=lambda config, _dims: {"ROWS": config["ROWS"], "BLOCK_SIZE": config["BLOCK_SIZE"]},
    options=warps_and_stages,
    rules=ROWS_RULES,
    description="Triton, several rows a program, for short rows",
)

TRITON_TURNS = Implementation(
    name="triton-turns",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_turns",
    arguments=("x", "w", "y", "rows", "x_stride", "y_stride", "epsilon"),
    parameters=turns_parameters,
    default=turns_default,
    geometry=several_rows_a_program,
    constants=constants_of("ROWS", "TURNS", "BLOCK_SIZE", "EVICT", "STREAM"),
    options=warps_and_stages,
    rules=(
        *ROWS_RULES,
        Constraint("columns", check_row_in_registers),
        Constraint("hints", check_hints),
        Constraint("stages", check_stages),
    ),
    description="Triton, rows in turns, the next ones loaded ahead, with cache hints",
)

TRITON_LOOP = Implementation(
    name="triton-loop",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_loop",
    arguments=("x", "w", "y", "x_stride", "y_stride", "epsilon"),
    parameters=lambda _dims: {
        "BLOCK_SIZE": (512, 1024, 2048, 4096, 8192),
        "num_warps": (4, 8, 16, 32),
        "num_stages": (1, 2, 3),
        "EVICT": (0, 1),
        "STREAM": (0, 1),
    },
    default=loop_default,
    geometry=one_program_a_row,
    constants=constants_of("BLOCK_SIZE", "EVICT", "STREAM"),
    options=warps_and_stages,
    rules=(
        constraints.power_of_two("BLOCK_SIZE"),
        Constraint("columns", check_columns),
        Constraint("loop_needed", check_loop_needed),
        *TRITON_RULES,
        Constraint("hints", check_hints),
        Constraint("stages", check_stages),
    ),
    description="Triton, one program a row, two loops over its columns, for long rows",
)

TRITON_SPLIT = Implementation(
    name="triton-split",
    language="triton",
    source="rmsnorm_triton.py",
    entry="rmsnorm_part_sums",
    arguments=("x", "sums", "x_stride"),
    parameters=split_parameters,
    default=split_default,
    geometry=one_program_a_part,
    constants=constants_of("PARTS", "BLOCK_SIZE"),
    options=warps_and_stages,
    rules=(
        constraints.power_of_two("PARTS", "BLOCK_SIZE"),
        Constraint("columns", check_columns),
        Constraint("long_row", check_long_row),
    ),
    then=(
        Step(
            entry="rmsnorm_scale_parts",
            arguments=("x", "w", "y", "sums", "x_stride", "y_stride", "epsilon"),
            geometry=one_program_a_part,
            constants=constants_of("PARTS", "BLOCK_SIZE"),
        ),
    ),
    description="Triton, several programs a row, in two launches, for few very long rows",
)

TRITON_UNFUSED = Implementation(
    name="triton-unfused",
    language="triton",
    source="unfused_triton.py",
    entry="square",
    arguments=("x", "squares", "rows", "x_stride"),
    parameters=unfused_parameters,
    default=unfused_default,
    geometry=one_program_a_tile,
    constants=constants_of("ROWS", "BLOCK_SIZE"),
    options=warps_and_stages,
    rules=(
        constraints.power_of_two("ROWS", "BLOCK_SIZE"),
        Constraint("columns", check_columns),
        Constraint("rows_block", check_rows_block),
    ),
    then=(
        Step(
            entry="reduce",
            arguments=("squares", "scales", "rows", "epsilon"),
            geometry=several_rows_a_program,
            constants=constants_of("ROWS", "BLOCK_SIZE"),
        ),
        Step(
            entry="multiply",
            arguments=("x", "w", "y", "scales", "rows", "x_stride", "y_stride"),
            geometry=one_program_a_tile,
            constants=constants_of("ROWS", "BLOCK_SIZE"),
        ),
    ),
    extra_bytes=unfused_bytes,
    description="Triton, square, reduce and scale as kernels of their own: the unfused baseline",
)
