"""RMSNorm in HIP C++ with wide loads and rows held on chip: whole rows a block, and split rows."""

from __future__ import annotations

from collections.abc import Callable

from tuner.domain.identity import Config
from tuner.domain.space import first_violation
from tuner.domain.space import Grid
from tuner.domain.space import next_power_of_two
from tuner.operator import Constraint
from tuner.operator import constraints
from tuner.operator import DeviceFacts
from tuner.operator import Dims
from tuner.operator import Implementation
from tuner.operator import LaunchGeometry

from .costs import split_row_cost
from .costs import ThreadsPart
from .costs import wide_load_cost

FLOAT_BYTES = 4
ACCESS_BYTES = 16  # the widest access of a thread on every device here
OWN_LDS_BYTES = 512  # 2 * 32 floats for the sums of waves, 2 * 32 words for those of parts
SPLIT_FROM_COLS = 16_384
MOST_COLS = 2**30 - 1  # twice as many are counted in 32 bits, with an edge's to spare
MOST_PARTS = 32
DEFAULT_PART_BYTES = 32_768  # of a row, a block: 256 threads with 32 registers of it
# Weights that a thread has in registers while it waits: 64 of them.
MOST_EARLY_BYTES = 256
EARLY_IN_LDS = 2
# Bytes a clock cycle. An H200 copies 2120 at 1.98 GHz (measured); a Radeon RX 9070 XT's memory has
# 215 at 2.97 GHz (data sheet).
STAGGERS = (0, 256, 1536, 2048)
UNSTAGGERED = 0.02  # of the time: H200, 2026-12-04, 1 to 3 % where the best is about 2048
STAGGERED_ROW_BYTES = 32_768  # shorter rows have gone when the last blocks of a launch begin
# A bound, not a tuned value: a block whose sum is not there by then may not be running at all.
MOST_LOOKS = 4096


def vector_bytes(config: Config, dims: Dims) -> int:
    """Bytes of a thread's access: VECTOR elements."""
    return int(config["VECTOR"]) * dims["item_bytes"]


def is_ragged(vector: int, dims: Dims) -> bool:
    """Tell whether a row may begin or end where no whole vector does."""
    return any(dims[name] % vector for name in ("cols", "x_stride", "y_stride"))


def lanes(config: Config) -> int:
    """Threads that share a row: LANES of a block, or all of PARTS blocks."""
    return int(config.get("LANES") or int(config["BLOCK"]) * int(config["PARTS"]))


def rows_at_a_time(config: Config) -> int:
    """Rows that go through a block of ``hip-vector`` at a time."""
    return max(1, int(config["BLOCK"]) // int(config["LANES"]))


def steps(config: Config, dims: Dims) -> int:
    """Vectors a thread has of a row, beside the edges of a ragged one."""
    return max(1, -(-(dims["cols"] // int(config["VECTOR"])) // lanes(config)))


def kept(config: Config, dims: Dims) -> int:
    """Of a thread's vectors, how many fit the FLOATS registers that hold the row.

    A register holds one element of 4 bytes or two of 2.
    """
    room_bytes = int(config["FLOATS"]) * FLOAT_BYTES
    return min(steps(config, dims), room_bytes // vector_bytes(config, dims))


def shared(config: Config, dims: Dims) -> int:
    """Of a thread's vectors, how many are held in LDS."""
    return steps(config, dims) - kept(config, dims) if config["LDS"] else 0


def lds_bytes(config: Config, dims: Dims) -> int:
    """Dynamic LDS of a block: what its threads hold there of a row and of the weights."""
    in_lds = shared(config, dims)
    held = kept(config, dims) + in_lds
    vectors_a_thread = in_lds + (held if config["EARLY"] == EARLY_IN_LDS else 0)
    return vectors_a_thread * int(config["BLOCK"]) * vector_bytes(config, dims)


def vectors(dims: Dims) -> tuple[int, ...]:
    """Elements of an access, up to the widest."""
    return tuple(each for each in (1, 2, 4, 8) if each * dims["item_bytes"] <= ACCESS_BYTES)


def widest_vector(dims: Dims) -> int:
    """Elements of the widest access that leaves no row ragged."""
    return max(each for each in vectors(dims) if not is_ragged(each, dims))


def staggers(dims: Dims) -> tuple[int, ...]:
    """Speeds at which the blocks of a launch begin; one where rows are short."""
    return STAGGERS if dims["cols"] * dims["item_bytes"] >= STAGGERED_ROW_BYTES else (0,)


def default_stagger(dims: Dims, facts: DeviceFacts) -> int:
    """What was fastest on an H200 (2026-12-04), for NVIDIA's GPUs; no other was measured."""
    return staggers(dims)[-1] if facts.kind == "cuda" else 0


def constants_of(*names: str, **fixed: int) -> Callable[[Config, Dims], Config]:
    """Return what gives a kernel's constants: parameters, what follows from the row, and more."""

    def constants_of_config(config: Config, dims: Dims) -> Config:
        derived = {
            "COLS": dims["cols"],
            "RAGGED": int(is_ragged(int(config["VECTOR"]), dims)),
            "KEPT": kept(config, dims),
            "SHARED": shared(config, dims),
        }
        if "TURNS" in config:
            derived["SEVERAL"] = int(int(config["TURNS"]) > 1)
            derived["FULL"] = int(dims["rows"] % rows_at_a_time(config) == 0)
        return {**{name: config[name] for name in names}, **derived, **fixed}

    return constants_of_config


def vector_parameters(dims: Dims) -> Grid:
    """Threads a block and a row, width of a load, where the row is held."""
    return {
        "BLOCK": (64, 128, 256, 512, 1024),
        "LANES": (8, 16, 32, 64, 128, 256, 512, 1024),
        "VECTOR": vectors(dims),
        "FLOATS": (0, 8, 16, 32, 64),
        "LDS": (0, 1),
        "TURNS": (1, 2, 4, 8),
        "EARLY": (0, 1, 2),
        "STREAM": (0, 1, 2),
        "STAGGER": staggers(dims),
    }


def vector_default(dims: Dims, facts: DeviceFacts) -> Config:
    """The widest access that leaves no row ragged, and the row in registers.

    H200, 2026-12-02, float32, 64 M elements: within 1 % of the best of 400 to 500 configs at 128 to
    1024 columns, within 3 % at 4096 and 16384. Where 1024 threads of 32 floats do not
    hold the row, 16: clang for gfx942 spills with 32.
    """
    row_floats = -(-dims["cols"] * dims["item_bytes"] // FLOAT_BYTES)
    most = 512 if row_floats <= 512 * 32 else 1024
    threads = min(most, max(8, next_power_of_two(-(-dims["cols"] // 8))))
    floats = next((each for each in (8, 16, 32) if threads * each >= row_floats), 16)
    return {
        "BLOCK": max(128, threads),
        "LANES": threads,
        "VECTOR": widest_vector(dims),
        "FLOATS": floats,
        "LDS": 0,
        "TURNS": 1,
        "EARLY": int(threads <= 128),
        "STREAM": 0,
        "STAGGER": default_stagger(dims, facts),
    }


def vector_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """BLOCK / LANES rows a block at a time, TURNS times; LDS for the vectors held there."""
    rows_a_block = rows_at_a_time(config) * int(config["TURNS"])
    grid = (-(-dims["rows"] // rows_a_block), 1, 1)
    return LaunchGeometry(grid, int(config["BLOCK"]), lds_bytes(config, dims))


def check_lanes(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """A block holds whole rows, and no thread is without columns."""
    lanes, block = int(config["LANES"]), int(config["BLOCK"])
    if lanes > block:
        return f"LANES {lanes} > BLOCK {block}"
    if lanes > 8 and lanes * int(config["VECTOR"]) >= 2 * dims["cols"]:
        return f"LANES {lanes} * VECTOR {config['VECTOR']}: half of them get no column"
    return ""


def check_vector(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """No device here has wider accesses."""
    width_bytes = vector_bytes(config, dims)
    if width_bytes > ACCESS_BYTES:
        return f"VECTOR {config['VECTOR']}: {width_bytes} bytes > {ACCESS_BYTES}"
    return ""


def check_columns(_config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Column numbers must fit 32 bits, with a block to spare."""
    return f"{dims['cols']} columns > {MOST_COLS}" if dims["cols"] > MOST_COLS else ""


def held_in_one_way(fewest_floats: int) -> Constraint:
    """Refuse a config that is another one under a second name."""

    def check(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
        held_bytes = steps(config, dims) * vector_bytes(config, dims)
        room_bytes = int(config["FLOATS"]) * FLOAT_BYTES
        if int(config["FLOATS"]) > fewest_floats and 2 * held_bytes <= room_bytes:
            return f"FLOATS {config['FLOATS']}: a thread has {held_bytes} bytes of a row"
        if config["LDS"] and held_bytes <= room_bytes:
            return "LDS 1: registers hold the row"
        early_bytes = (kept(config, dims) + shared(config, dims)) * vector_bytes(config, dims)
        if config["EARLY"] == 1 and not 0 < early_bytes <= MOST_EARLY_BYTES:
            return f"EARLY 1: {early_bytes} bytes of a thread's weights > {MOST_EARLY_BYTES}, or 0"
        if config["EARLY"] == EARLY_IN_LDS and not early_bytes:
            return "EARLY 2: nothing of a row is held"
        if config["EARLY"] == EARLY_IN_LDS and is_ragged(int(config["VECTOR"]), dims):
            return "EARLY 2: rows and weights begin and end where no whole vector does"
        return ""

    return Constraint("held", check)


def split_parameters(dims: Dims) -> Grid:
    """Blocks a row, threads a block, width of a load, where a part is held.

    A row too short to be shared has one config, whose refusal says so.
    """
    grid: Grid = {
        "PARTS": (2, 4, 8, 16, 32),
        "BLOCK": (128, 256, 512, 1024),
        "VECTOR": vectors(dims),
        "FLOATS": (0, 16, 32, 64),
        "LDS": (0, 1),
        "EARLY": (0, 1, 2),
        "STREAM": (0, 1, 2),
        "STAGGER": staggers(dims),
    }
    is_short = dims["cols"] < SPLIT_FROM_COLS
    return {name: values[:1] for name, values in grid.items()} if is_short else grid


def split_default(dims: Dims, facts: DeviceFacts) -> Config:
    """About 32 KiB of a row a block of 256 threads, in registers, and the weights in LDS.

    H200, 2026-12-04, float32 and bfloat16, 64 M elements, 65536 to 262144 columns (powers of two):
    within 3 % of the best of some 550 configs; 7 % at 262144 in float32. Beyond MOST_PARTS times 32
    KiB there are 512 threads, and what their registers don't hold is read again. Where a rule
    refuses that, as a part would get no column: the first near it that none refuses.
    """
    if dims["cols"] < SPLIT_FROM_COLS:
        return {name: values[0] for name, values in split_parameters(dims).items()}
    row_bytes = dims["cols"] * dims["item_bytes"]
    most_parts = min(MOST_PARTS, max(2, next_power_of_two(-(-row_bytes // DEFAULT_PART_BYTES))))
    blocks = (256, 128) if row_bytes <= MOST_PARTS * DEFAULT_PART_BYTES else (512, 256)
    configs: list[Config] = [
        {
            "PARTS": parts,
            "BLOCK": block,
            "VECTOR": widest_vector(dims),
            "FLOATS": floats,
            "LDS": 0,
            "EARLY": early,
            "STREAM": 2,
            "STAGGER": default_stagger(dims, facts),
        }
        for block in blocks
        for parts in (most_parts, max(2, most_parts // 2), max(2, most_parts // 4))
        for floats in (32, 64, 16)
        for early in (EARLY_IN_LDS, 0)
    ]
    legal = (each for each in configs if first_violation(each, dims, facts, SPLIT_RULES) is None)
    return next(legal, configs[0])


def split_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """PARTS blocks a row; LDS for the vectors held there."""
    grid = (dims["rows"] * int(config["PARTS"]), 1, 1)
    return LaunchGeometry(grid, int(config["BLOCK"]), lds_bytes(config, dims))


def exchange_shape(dims: Dims) -> tuple[int, ...]:
    """A word for each part of a row and one more; nothing to speak of where no row is split."""
    return (dims["rows"], MOST_PARTS + 1) if dims["cols"] >= SPLIT_FROM_COLS else (1, 1)


def check_long_row(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Sharing a row pays off where it outgrows one block."""
    if dims["cols"] < SPLIT_FROM_COLS:
        return f"{dims['cols']} columns < {SPLIT_FROM_COLS}: a block holds the row"
    part_cols = steps(config, dims) * int(config["BLOCK"]) * int(config["VECTOR"])
    if part_cols * (int(config["PARTS"]) - 1) >= dims["cols"]:
        return f"PARTS {config['PARTS']}: one of them gets no column"
    return ""


def check_lds_room(config: Config, dims: Dims, facts: DeviceFacts) -> str:
    """What is held in LDS must fit beside the kernels' own variables."""
    room, held_bytes = facts.max_shared_bytes - OWN_LDS_BYTES, lds_bytes(config, dims)
    return f"{held_bytes} bytes to hold in LDS > {room}" if held_bytes > room else ""


SPLIT_RULES = (
    constraints.power_of_two("PARTS", "BLOCK", "VECTOR"),
    Constraint("vector", check_vector),
    Constraint("columns", check_columns),
    Constraint("long_row", check_long_row),
    held_in_one_way(fewest_floats=16),
    Constraint("lds_room", check_lds_room),
)

VECTOR_RULES = (
    constraints.power_of_two("BLOCK", "LANES", "VECTOR"),
    Constraint("lanes", check_lanes),
    Constraint("vector", check_vector),
    Constraint("columns", check_columns),
    held_in_one_way(fewest_floats=8),
    Constraint("lds_room", check_lds_room),
)


def start_cost(config: Config, dims: Dims, facts: DeviceFacts) -> float:
    """What it costs that the blocks of a launch begin together, or too late."""
    is_far_off = 2 * int(config["STAGGER"]) < default_stagger(dims, facts)  # 0: all at once
    return UNSTAGGERED if is_far_off else 0.0


def threads_part(config: Config, dims: Dims) -> ThreadsPart:
    """What a thread has of a row, in vectors."""
    here = kept(config, dims), shared(config, dims)
    return ThreadsPart(steps(config, dims), *here, vector_bytes(config, dims))


def vector_prior(config: Config, dims: Dims, facts: DeviceFacts) -> float:
    """What reading a row twice, narrow or split loads, spilled registers and a wrong start cost."""
    part = threads_part(config, dims)
    return start_cost(config, dims, facts) + wide_load_cost(config, part, lanes(config))


def split_prior(config: Config, dims: Dims, facts: DeviceFacts) -> float:
    """The same, and what it costs that few blocks wait side by side."""
    part = threads_part(config, dims)
    cost = split_row_cost(config, part, lds_bytes(config, dims), facts.max_shared_bytes)
    return start_cost(config, dims, facts) + cost


HIP_VECTOR = Implementation(
    name="hip-vector",
    language="hip",
    source="rmsnorm_vector.hip",
    entry="rmsnorm_vector",
    arguments=("x", "w", "y", "rows", "x_stride", "y_stride", "epsilon"),
    parameters=vector_parameters,
    default=vector_default,
    geometry=vector_geometry,
    constants=constants_of("BLOCK", "LANES", "VECTOR", "EARLY", "STREAM", "STAGGER"),
    rules=VECTOR_RULES,
    prior=vector_prior,
    description="HIP C++, wide loads, rows held in registers and LDS, wave shuffles",
)

HIP_SPLIT = Implementation(
    name="hip-split",
    language="hip",
    source="rmsnorm_split.hip",
    entry="rmsnorm_split",
    arguments=("x", "w", "y", "exchange", "x_stride", "y_stride", "epsilon"),
    parameters=split_parameters,
    default=split_default,
    geometry=split_geometry,
    constants=constants_of(
        "PARTS", "BLOCK", "VECTOR", "EARLY", "STREAM", "STAGGER", LOOKS=MOST_LOOKS
    ),
    rules=SPLIT_RULES,
    prior=split_prior,
    description="HIP C++, several blocks a row that exchange their sums, for long rows",
)
