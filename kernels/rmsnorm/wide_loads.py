"""RMSNorm in HIP C++ with wide loads and rows held on chip: whole rows a block, and split rows."""

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

from .costs import wide_load_cost

FLOAT_BYTES = 4
OWN_LDS_BYTES = 512  # 2 * 32 floats for the sums of waves, 2 * 32 words for those of parts
SPLIT_FROM_COLS = 16_384
MOST_PARTS = 32
# A bound, not a tuned value: a block whose sum is not there by then may not be running at all.
MOST_LOOKS = 4096


def lanes(config: Config) -> int:
    """Threads that share a row: LANES of a block, or all of PARTS blocks."""
    return int(config.get("LANES") or int(config["BLOCK"]) * int(config["PARTS"]))


def steps(config: Config, dims: Dims) -> int:
    """Vectors a thread has of a row."""
    return -(-dims["cols"] // (lanes(config) * int(config["VECTOR"])))


def kept(config: Config, dims: Dims) -> int:
    """Of a thread's vectors, how many fit the FLOATS registers that hold the row."""
    return min(steps(config, dims), int(config["FLOATS"]) // int(config["VECTOR"]))


def shared(config: Config, dims: Dims) -> int:
    """Of a thread's vectors, how many are held in LDS."""
    return steps(config, dims) - kept(config, dims) if config["LDS"] else 0


def lds_bytes(config: Config, dims: Dims) -> int:
    """Dynamic LDS of a block: what its threads hold there."""
    vector_bytes = int(config["VECTOR"]) * FLOAT_BYTES
    return shared(config, dims) * int(config["BLOCK"]) * vector_bytes


def widest_load(cols: int) -> int:
    """Floats of the widest load that may begin every row."""
    return next(each for each in (4, 2, 1) if cols % each == 0)


def constants_of(*names: str, **fixed: int) -> Callable[[Config, Dims], Config]:
    """Return what gives a kernel's constants: parameters, what follows from the row, and more."""

    def constants_of_config(config: Config, dims: Dims) -> Config:
        held = {"KEPT": kept(config, dims), "SHARED": shared(config, dims)}
        return {**{name: config[name] for name in names}, "COLS": dims["cols"], **held, **fixed}

    return constants_of_config


def vector_parameters(_dims: Dims) -> Grid:
    """Threads a block and a row, width of a load, where the row is held."""
    return {
        "BLOCK": (64, 128, 256, 512, 1024),
        "LANES": (8, 16, 32, 64, 128, 256, 512, 1024),
        "VECTOR": (1, 2, 4),
        "FLOATS": (8, 16, 32, 64),
        "LDS": (0, 1),
        "TURNS": (1, 2, 4, 8),
        "EARLY": (0, 1),
        "STREAM": (0, 1),
    }


def vector_default(dims: Dims, _facts: DeviceFacts) -> Config:
    """The widest load that the columns allow, at most 32 floats of a row in each thread.

    Where that does not hold the row, 16: clang for gfx942 spills at 1024 threads with 32.
    """
    cols = dims["cols"]
    threads = min(1024, max(8, next_power_of_two(-(-cols // 32))))
    floats = next((each for each in (8, 16, 32) if threads * each >= cols), 16)
    return {
        "BLOCK": max(128, threads),
        "LANES": threads,
        "VECTOR": widest_load(cols),
        "FLOATS": floats,
        "LDS": 0,
        "TURNS": 1,
        "EARLY": 0,
        "STREAM": 0,
    }


def vector_geometry(config: Config, dims: Dims) -> LaunchGeometry:
    """BLOCK / LANES rows a block at a time, TURNS times; LDS for the vectors held there."""
    block = int(config["BLOCK"])
    rows_a_block = max(1, block // int(config["LANES"])) * int(config["TURNS"])
    grid = (-(-dims["rows"] // rows_a_block), 1, 1)
    return LaunchGeometry(grid, block, lds_bytes(config, dims))


def check_lanes(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """A block holds whole rows, and no thread is without columns."""
    lanes, block = int(config["LANES"]), int(config["BLOCK"])
    if lanes > block:
        return f"LANES {lanes} > BLOCK {block}"
    if lanes > 8 and lanes * int(config["VECTOR"]) >= 2 * dims["cols"]:
        return f"LANES {lanes} * VECTOR {config['VECTOR']}: half of them get no column"
    return ""


def check_vector(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
    """Every row must begin at an address that a load of VECTOR floats may have."""
    if dims["cols"] % int(config["VECTOR"]):
        return f"{dims['cols']} columns are no multiple of VECTOR {config['VECTOR']}"
    return ""


def held_in_one_way(fewest_floats: int) -> Constraint:
    """Refuse a config that is another one under a second name."""

    def check(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
        floats = steps(config, dims) * int(config["VECTOR"])
        if int(config["FLOATS"]) > fewest_floats and floats <= int(config["FLOATS"]) // 2:
            return f"FLOATS {config['FLOATS']}: a thread has {floats} floats of a row"
        if config["LDS"] and floats <= int(config["FLOATS"]):
            return "LDS 1: registers hold the row"
        return ""

    return Constraint("held", check)


def split_parameters(dims: Dims) -> Grid:
    """Blocks a row, threads a block, width of a load, where a part is held.

    A row too short to be shared has one config, whose refusal says so.
    """
    if dims["cols"] < SPLIT_FROM_COLS:
        return {name: (value,) for name, value in split_default(dims).items()}
    return {
        "PARTS": (2, 4, 8, 16, 32),
        "BLOCK": (128, 256, 512, 1024),
        "VECTOR": (1, 2, 4),
        "FLOATS": (16, 32, 64),
        "LDS": (0, 1),
        "STREAM": (0, 1),
    }


def split_default(dims: Dims, _facts: DeviceFacts | None = None) -> Config:
    """About 16384 columns a block of 512 threads, 32 floats each."""
    cols = dims["cols"]
    parts = min(MOST_PARTS, max(2, next_power_of_two(-(-cols // 16384))))
    return {
        "PARTS": parts,
        "BLOCK": 512,
        "VECTOR": widest_load(cols),
        "FLOATS": 16 if cols <= parts * 512 * 16 else 32,
        "LDS": 0,
        "STREAM": 0,
    }


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
    columns_a_step = int(config["BLOCK"]) * int(config["VECTOR"])
    if columns_a_step * (int(config["PARTS"]) - 1) >= dims["cols"]:
        return f"PARTS {config['PARTS']}: one of them gets no column"
    return ""


def check_lds_room(config: Config, dims: Dims, facts: DeviceFacts) -> str:
    """What is held in LDS must fit beside the kernels' own variables."""
    room, held_bytes = facts.max_shared_bytes - OWN_LDS_BYTES, lds_bytes(config, dims)
    return f"{held_bytes} bytes to hold in LDS > {room}" if held_bytes > room else ""


SPLIT_RULES = (
    constraints.power_of_two("PARTS", "BLOCK", "VECTOR"),
    Constraint("vector", check_vector),
    Constraint("long_row", check_long_row),
    held_in_one_way(fewest_floats=16),
    Constraint("lds_room", check_lds_room),
)

VECTOR_RULES = (
    constraints.power_of_two("BLOCK", "LANES", "VECTOR"),
    Constraint("lanes", check_lanes),
    Constraint("vector", check_vector),
    held_in_one_way(fewest_floats=8),
    Constraint("lds_room", check_lds_room),
)


def prior(config: Config, dims: Dims, _facts: DeviceFacts) -> float:
    """What reading a row twice, narrow or split loads and spilled registers cost."""
    return wide_load_cost(
        config, steps(config, dims), kept(config, dims), shared(config, dims), lanes(config)
    )


HIP_VECTOR = Implementation(
    name="hip-vector",
    language="hip",
    source="rmsnorm_vector.hip",
    entry="rmsnorm_vector",
    arguments=("x", "w", "y", "rows", "epsilon"),
    parameters=vector_parameters,
    default=vector_default,
    geometry=vector_geometry,
    constants=constants_of("BLOCK", "LANES", "VECTOR", "EARLY", "STREAM"),
    rules=VECTOR_RULES,
    prior=prior,
    description="HIP C++, wide loads, rows held in registers and LDS, wave shuffles",
)

HIP_SPLIT = Implementation(
    name="hip-split",
    language="hip",
    source="rmsnorm_split.hip",
    entry="rmsnorm_split",
    arguments=("x", "w", "y", "exchange", "epsilon"),
    parameters=split_parameters,
    default=split_default,
    geometry=split_geometry,
    constants=constants_of("PARTS", "BLOCK", "VECTOR", "STREAM", LOOKS=MOST_LOOKS),
    rules=SPLIT_RULES,
    prior=prior,
    description="HIP C++, several blocks a row that exchange their sums, for long rows",
)
