"""Operators: what the built-in ones allow, how a folder is loaded, what a source hash covers."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.domain.space import next_power_of_two
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.kernel_source import read_kernel_source
from tuner.operator import Implementation
from tuner.operator import load_operator
from tuner.operator import Operator

KERNELS = Path(__file__).parents[1] / "kernels"
EVERY = [
    (operator, implementation.name)
    for operator in ("rmsnorm", "softmax")
    for implementation in load_operator(KERNELS / operator).implementations
]
EDGE_SHAPES = [(1, 1), (3, 13), (33, 257), (1, 4096), (1024, 4096), (65536, 64)]
LONG_SHAPES = [
    *((1, 16384), (3, 20001), (2, 65536), (1, 262144), (1, 1_048_576)),
    *((1, 32776), (2, 65544), (1, 76800), (1, 131_080), (1, 151_936), (1, 152_064), (1, 600_000)),
]
# Parameters that only say how much of a row is kept, or how many rows a block takes: the kernel
# is compiled for what follows from them.
DERIVED: dict[str, tuple[set[str], set[str]]] = {
    "hip-vector": (
        {"FLOATS", "LDS", "TURNS"},
        {"COLS", "RAGGED", "KEPT", "SHARED", "FULL", "SEVERAL"},
    ),
    "hip-split": ({"FLOATS", "LDS"}, {"COLS", "RAGGED", "KEPT", "SHARED", "LOOKS"}),
    "triton-turns": (set(), {"COLS"}),
    "triton-loop": (set(), {"COLS"}),
    "triton-split": (set(), {"COLS"}),
    "triton-unfused": (set(), {"COLS"}),
}
LOOP = {"BLOCK_SIZE": 2048, "num_warps": 8, "num_stages": 2, "EVICT": 0, "STREAM": 0}
TURNS = {
    "ROWS": 1, "TURNS": 1, "BLOCK_SIZE": 4096, "num_warps": 8,
    "num_stages": 1, "EVICT": 0, "STREAM": 0,
}  # fmt: skip
OF_LONG_ROWS = ("hip-split", "triton-split")


def facts(wave_size: int = 32, max_grid_x: int = 2**31 - 1) -> DeviceFacts:
    return DeviceFacts(
        "fake:0", "hip", "gfx1201", "", 64, wave_size, 1024, (max_grid_x, 65535, 65535), 2**32 - 1,
        65536, 256, 2**34, 0, "device-event",
    )  # fmt: skip


def violation(
    operator: Operator,
    name: str,
    config: Config,
    shape: tuple[int, ...],
    device: DeviceFacts,
    dtype: str = "float32",
) -> str:
    implementation = operator.implementation(name)
    dims = operator.dimensions(operator.workload(shape, dtype))
    found = first_violation(config, dims, device, implementation.constraints)
    return str(found or "")


def takes_long_rows(implementation: Implementation) -> bool:
    return implementation.language == "hip" or implementation.name in (
        "triton-loop",
        "triton-split",
    )


@pytest.fixture
def rmsnorm() -> Operator:
    return load_operator(KERNELS / "rmsnorm")


@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize(("operator_name", "name"), EVERY)
def test_defaults_are_in_the_space_and_legal(operator_name: str, name: str, wave_size: int) -> None:
    operator = load_operator(KERNELS / operator_name)
    implementation = operator.implementation(name)
    shapes = [*EDGE_SHAPES, *(LONG_SHAPES if takes_long_rows(implementation) else ())]
    for shape, dtype in itertools.product(shapes, operator.tolerances):
        dims = operator.dimensions(operator.workload(shape, dtype))
        default = implementation.default(dims, facts(wave_size))
        grid = implementation.parameters(dims)
        assert default.keys() == grid.keys()
        assert all(value in grid[parameter] for parameter, value in default.items())
        found = violation(operator, name, default, shape, facts(wave_size), dtype)
        if name == "triton-loop" and next_power_of_two(dims["cols"]) <= 512:
            assert found.startswith("loop_needed: ")  # its smallest block holds such a row
        elif name in OF_LONG_ROWS and dims["cols"] < 16384:
            assert found.startswith("long_row: ")  # a block or program does such a row
        else:
            assert not found


@pytest.mark.parametrize(("operator_name", "name"), EVERY)
def test_the_cost_model_knows_every_config_of_every_dtype(operator_name: str, name: str) -> None:
    operator = load_operator(KERNELS / operator_name)
    implementation = operator.implementation(name)
    for dtype in operator.tolerances:
        for shape in ((33, 257), (64, 4096), (2, 65536)):
            dims = operator.dimensions(operator.workload(shape, dtype))
            configs = itertools.islice(grid_configs(implementation.parameters(dims)), 0, None, 7)
            priors = [
                implementation.prior(config, dims, facts())
                for config in configs
                if first_violation(config, dims, facts(), implementation.constraints) is None
            ]
            assert all(map(math.isfinite, priors))


@pytest.mark.parametrize(("operator_name", "name"), EVERY)
def test_entries_exist_and_constants_reach_the_kernel(operator_name: str, name: str) -> None:
    operator = load_operator(KERNELS / operator_name)
    implementation = operator.implementation(name)
    workload = operator.workload((33, 257))
    config = implementation.default(operator.dimensions(workload), facts())
    kernel = operator.kernel(implementation, operator.source(implementation), config, workload)
    consumed, derived = DERIVED.get(name, (set(), set()))
    if implementation.language == "hip" and len(operator.tolerances) > 1:
        derived = derived | {"ELEMENT"}
    reached = {**kernel.constants, **kernel.options}
    assert derived <= reached.keys()
    assert {key: value for key, value in reached.items() if key not in derived} == {
        key: value for key, value in config.items() if key not in consumed
    }
    assert any(kernel.entry in text for text in kernel.files.values())
    dtypes = {each.name: each.dtype for each in kernel.arguments if each.type == "buffer"}
    assert dtypes.pop("exchange", "uint64") == "uint64"
    assert {each.entry for each in kernel.launches} == set(implementation.entries)
    assert set(dtypes.values()) == {"float32"}


@given(rows=st.integers(1, 5000), cols=st.integers(1, 70_000))
@settings(deadline=None, max_examples=50)
def test_every_allowed_grid_covers_every_row(rows: int, cols: int) -> None:
    operator = load_operator(KERNELS / "rmsnorm")
    dims = operator.dimensions(operator.workload((rows, cols)))
    per_program: dict[str, Callable[[Config], float]] = {
        "hip-serial": lambda config: int(config["BLOCK"]),
        "hip-vector": lambda config: (
            int(config["BLOCK"]) // int(config["LANES"]) * int(config["TURNS"])
        ),
        "hip-split": lambda config: 1 / int(config["PARTS"]),
        "triton-rows": lambda config: int(config["ROWS"]),
        "triton-turns": lambda config: int(config["ROWS"]) * int(config["TURNS"]),
        "triton-split": lambda config: 1 / int(config["PARTS"]),
    }
    fused = [each for each in operator.implementations if each.name != "triton-unfused"]
    for implementation in fused:
        for config in every_so_many(list(grid_configs(implementation.parameters(dims)))):
            if violation(operator, implementation.name, config, (rows, cols), facts()):
                continue
            programs = implementation.geometry(config, dims).grid[0]
            rows_each = per_program.get(implementation.name, lambda _config: 1)(config)
            assert (programs - 1) * rows_each < rows <= programs * rows_each
            if implementation.name in ("triton-row", "triton-rows", "triton-turns"):
                assert cols <= int(config["BLOCK_SIZE"]) < 2 * cols or cols == 1


def every_so_many(configs: list[Config]) -> list[Config]:
    """Return at most 100 configs from all over a space; a step prime to its parameters' sizes."""
    return configs[:: max(1, len(configs) // 100) | 1]


def test_32_warps_are_legal_at_wave_32_and_refused_at_wave_64(rmsnorm: Operator) -> None:
    config = {"BLOCK_SIZE": 4096, "num_warps": 32}
    assert not violation(rmsnorm, "triton-row", config, (1024, 4096), facts(32))
    assert violation(rmsnorm, "triton-row", config, (1024, 4096), facts(64)) == (
        "threads_per_block: threads 2048 > 1024 (num_warps 32 at wave size 64)"
    )


def test_a_block_of_1048576_elements_is_the_largest(rmsnorm: Operator) -> None:
    roomy = facts()
    object.__setattr__(roomy, "max_registers_per_thread", None)

    def found(cols: int) -> str:
        config = {"BLOCK_SIZE": next_power_of_two(cols), "num_warps": 32}
        return violation(rmsnorm, "triton-row", config, (1, cols), roomy)

    assert not found(1_048_576)
    assert found(1_048_577) == "triton_block: block 2097152 > 1048576 elements"
    loop = {"BLOCK_SIZE": 8192, "num_warps": 32, "num_stages": 1, "EVICT": 0, "STREAM": 0}
    assert not violation(rmsnorm, "triton-loop", loop, (1, 1_048_577), roomy)


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("hip-block", {"BLOCK": 48}, "power_of_two: BLOCK=48"),
        ("hip-block", {"BLOCK": "256"}, "power_of_two: BLOCK='256'"),
        ("hip-block", {"BLOCK": True}, "power_of_two: BLOCK=True"),
        ("hip-block", {"BLOCK": 256.0}, "power_of_two: BLOCK=256.0"),
        ("hip-block", {"BLOCK": 0}, "power_of_two: BLOCK=0"),
        ("hip-block", {"BLOCK": 2048}, "threads_per_block: threads 2048 > 1024"),
        ("hip-serial", {"BLOCK": 2048}, "threads_per_block: "),
        ("triton-row", {"BLOCK_SIZE": 2048, "num_warps": 4}, "block_covers_row: "),
        ("triton-row", {"BLOCK_SIZE": 5000, "num_warps": 4}, "power_of_two: "),
        ("triton-row", {"BLOCK_SIZE": 4096, "num_warps": 3}, "threads_per_block: num_warps=3"),
        ("triton-row", {"BLOCK_SIZE": 16384, "num_warps": 1}, "registers_plausible: 512 elements"),
        ("triton-rows", {"ROWS": 3, "BLOCK_SIZE": 4096, "num_warps": 4}, "power_of_two: ROWS=3"),
        ("triton-rows", {"ROWS": 16, "BLOCK_SIZE": 4096, "num_warps": 8}, "rows_block: "),
        ("triton-loop", {"BLOCK_SIZE": 4096, "num_warps": 8}, "loop_needed: "),
        ("triton-loop", {**LOOP, "EVICT": 1}, "hints: EVICT 1"),
        ("triton-loop", {**LOOP, "num_stages": 3}, "stages: num_stages 3 > 2 turns"),
        ("triton-turns", {**TURNS, "num_stages": 2}, "stages: num_stages 2 > 1 turns"),
        ("triton-turns", {**TURNS, "ROWS": 16}, "rows_block: "),
        ("triton-split", {"PARTS": 2, "BLOCK_SIZE": 1024, "num_warps": 4}, "long_row: "),
    ],
)
def test_refusals_name_the_constraint_and_the_value(
    rmsnorm: Operator, name: str, config: Config, reason: str
) -> None:
    assert violation(rmsnorm, name, config, (1024, 4096), facts()).startswith(reason)


def test_more_rows_than_the_grid_are_refused(rmsnorm: Operator) -> None:
    small = facts(max_grid_x=1000)
    assert violation(rmsnorm, "hip-block", {"BLOCK": 64}, (1001, 64), small).startswith("grid: ")
    assert not violation(rmsnorm, "hip-serial", {"BLOCK": 64}, (1001, 64), small)
    # 2^23 rows of blocks of 512 are 2^32 threads: one more than AMD's launch takes.
    wide = {"BLOCK": 512}
    assert violation(rmsnorm, "hip-block", wide, (2**23, 64), facts()).startswith("grid: ")


def test_columns_beyond_a_32_bit_argument_are_refused(rmsnorm: Operator) -> None:
    workload = rmsnorm.workload((1, 2**31))
    row, loop = rmsnorm.implementation("triton-row"), rmsnorm.implementation("triton-loop")
    assert "cols 2147483648 > 2147483647" in rmsnorm.argument_violation(row, workload)
    assert not rmsnorm.argument_violation(loop, workload)
    default = loop.default(rmsnorm.dimensions(workload), facts())
    assert violation(rmsnorm, "triton-loop", default, (1, 2**31), facts()).startswith("columns: ")
    # 2^40 elements: row offsets are 64 bits wide.
    assert not violation(rmsnorm, "triton-loop", default, (2**20, 2**20), facts())


@pytest.mark.parametrize("rows", [0, -1])
def test_empty_shapes_are_refused(rmsnorm: Operator, rows: int) -> None:
    with pytest.raises(UsageError, match="every dimension must be from 1"):
        rmsnorm.workload((rows, 4096))


def test_bytes_moved_count_each_array_once(rmsnorm: Operator) -> None:
    assert rmsnorm.workload_bytes(rmsnorm.workload((1024, 4096)), "hip-block") == 4 * (
        2 * 1024 * 4096 + 4096
    )


def test_arrays_between_launches_are_charged_to_the_implementation(rmsnorm: Operator) -> None:
    workload = rmsnorm.workload((1024, 4096), "bfloat16")
    fewest = rmsnorm.workload_bytes(workload, "triton-row")
    assert fewest == 2 * (2 * 1024 * 4096 + 4096)
    # Squares and scales written and read in float32, x read twice.
    between = 2 * 4 * (1024 * 4096 + 1024) + 2 * 1024 * 4096
    assert rmsnorm.workload_bytes(workload, "triton-unfused") == fewest + between


def test_the_launches_of_a_kernel_take_the_arrays_that_the_others_leave(rmsnorm: Operator) -> None:
    implementation = rmsnorm.implementation("triton-unfused")
    workload = rmsnorm.workload((33, 257))
    config = implementation.default(rmsnorm.dimensions(workload), facts())
    source = rmsnorm.source(implementation)
    kernel = rmsnorm.kernel(implementation, source, config, workload)
    assert kernel.array_names == {"x", "w", "y", "squares", "scales"}
    taken = [
        [each.name for each in step.arguments if each.type == "buffer"] for step in kernel.launches
    ]
    assert taken == [["x", "squares"], ["squares", "scales"], ["x", "w", "y", "scales"]]
    assert all(not step.then for step in kernel.launches)


@pytest.mark.parametrize(
    ("dtype", "code", "item_bytes"), [("float32", 0, 4), ("float16", 1, 2), ("bfloat16", 2, 2)]
)
def test_the_dtype_reaches_every_kernel(
    rmsnorm: Operator, dtype: str, code: int, item_bytes: int
) -> None:
    workload = rmsnorm.workload((33, 257), dtype)
    dims = rmsnorm.dimensions(workload)
    assert dims["item_bytes"] == item_bytes
    for implementation in rmsnorm.implementations:
        config = implementation.default(dims, facts())
        source = rmsnorm.source(implementation)
        kernel = rmsnorm.kernel(implementation, source, config, workload)
        dtypes = {each.name: each.dtype for each in kernel.arguments}
        assert dtypes["x"] == dtype
        if implementation.language == "hip":
            assert kernel.constants["ELEMENT"] == code


def test_an_operator_of_one_dtype_has_no_element_macro() -> None:
    softmax = load_operator(KERNELS / "softmax")
    if len(softmax.tolerances) > 1:
        pytest.skip("softmax has several")
    implementation = softmax.implementation("hip-block")
    kernel = softmax.kernel(
        implementation, softmax.source(implementation), {"BLOCK": 64}, softmax.workload((3, 5))
    )
    assert kernel.constants == {"BLOCK": 64}


def test_padded_rows_reach_kernels_that_take_strides_and_are_refused_by_others(
    rmsnorm: Operator,
) -> None:
    workload = rmsnorm.workload((3, 13), row_padding=5)
    assert rmsnorm.dimensions(workload) == {
        "rows": 3, "cols": 13, "x_stride": 18, "y_stride": 18, "item_bytes": 4,
    }  # fmt: skip
    block = rmsnorm.implementation("hip-block")
    assert not rmsnorm.argument_violation(block, workload)
    kernel = rmsnorm.kernel(block, rmsnorm.source(block), {"BLOCK": 64}, workload)
    assert [each.value for each in kernel.arguments if "stride" in each.name] == [18, 18]
    stored = {each.name: each.stored_shape for each in rmsnorm.problem(workload).arrays}
    assert (stored["x"], stored["w"], stored["squares"]) == ((3, 18), (13,), (3, 13))

    blind = replace(block, arguments=("x", "w", "y", "rows", "cols", "x_stride", "epsilon"))
    assert rmsnorm.argument_violation(blind, workload) == (
        "row padding 5: the kernel takes no y_stride"
    )
    assert not rmsnorm.argument_violation(blind, rmsnorm.workload((3, 13)))


DECLARATION = """
from tuner.operator import *
OPERATOR = Operator(
    name={name!r}, dims=("n",), arrays=(Array("x", ("n",)), Array("y", ("n",), role="output")),
    tolerances={{{dtype!r}: Tolerance(0.0, 0.0)}}, cases=(), reference="f",
    bytes_moved=lambda dims, item: 0, operations=lambda dims: 0,
    implementations=(
        Implementation(
            name={implementation!r}, language={language!r}, source="k.hip", entry="k",
            arguments={arguments!r}, parameters=lambda dims: {{}}, default=lambda dims, facts: {{}},
            geometry=lambda config, dims: LaunchGeometry((1, 1, 1)),
        ),
    ) * {copies},
)
"""


def declare(folder: Path, **changes: object) -> Path:
    values = {
        "name": folder.name, "implementation": "one", "language": "hip",
        "arguments": ("x", "y", "n"), "copies": 1, "dtype": "float32", **changes,
    }  # fmt: skip
    folder.mkdir()
    (folder / "operator.py").write_text(DECLARATION.format(**values))
    return folder


def test_an_operator_of_the_users_own_folder_is_loaded(tmp_path: Path) -> None:
    operator = load_operator(declare(tmp_path / "copy"))
    assert (operator.name, operator.directory) == ("copy", tmp_path / "copy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "other"}, "declares 'other', its folder is 'copy'"),
        ({"arguments": ("x", "z")}, "passes 'z', which is not declared"),
        ({"language": "cuda"}, "unknown language 'cuda'"),
        ({"implementation": "../one"}, "is not a name"),
        ({"dtype": "int8"}, "no element type is called 'int8'"),
        ({"copies": 2}, "two implementations have the same name"),
    ],
)
def test_unsound_declarations_are_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_operator(declare(tmp_path / "copy", **changes))
    assert message in caught.value.message
    assert "operator.py" in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no operator.py"),
        ("", "does not define OPERATOR"),
        ("OPERATOR = 3", "does not define OPERATOR"),
        ("1 / 0", "fails when loaded: ZeroDivisionError"),
        ("def", "fails when loaded: SyntaxError"),
    ],
)
def test_files_that_declare_nothing_are_refused(
    tmp_path: Path, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "operator.py").write_text(text)
    with pytest.raises(UsageError, match=message):
        load_operator(tmp_path)


TRITON_TEXT = """
import triton
from helper import scale
LIMIT = {limit}
UNUSED = {unused}

@triton.jit
def inner(v):
    return scale(v) + LIMIT

@triton.jit
def entry(x):
    return inner(x){entry}

@triton.jit
def other(x):
    return x + UNUSED{other}
"""


def triton_hash(folder: Path, helper: str = "def scale(v): return v", **values: object) -> str:
    chosen = {"limit": 1, "unused": 1, "entry": "", "other": "", **values}
    (folder / "k.py").write_text(TRITON_TEXT.format(**chosen))
    (folder / "helper.py").write_text(helper)
    source = read_kernel_source(folder, "k.py", ["entry"], "triton")
    assert sorted(source.files) == ["helper.py", "k.py"]
    return source.source_hash


@pytest.mark.parametrize(
    ("edit", "changes_hash"),
    [
        ({"entry": " * 2"}, True),
        ({"limit": 2}, True),
        ({"helper": "def scale(v): return 2 * v"}, True),
        ({"other": " * 2"}, False),
        ({"unused": 2}, False),
    ],
)
def test_hash_covers_what_the_entry_reaches(
    tmp_path: Path, edit: dict[str, object], changes_hash: bool
) -> None:
    before = triton_hash(tmp_path)
    assert (triton_hash(tmp_path, **edit) != before) is changes_hash  # type: ignore[arg-type]
    assert triton_hash(tmp_path) == before


@given(
    calls=st.lists(st.sets(st.integers(0, 7), max_size=2), min_size=8, max_size=8),
    edited=st.integers(0, 7),
)
@settings(deadline=None, max_examples=100)
def test_hash_changes_exactly_with_reached_functions(
    tmp_path_factory: pytest.TempPathFactory, calls: list[set[int]], edited: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "reached"
    folder.mkdir(exist_ok=True)

    def source_hash(edit: int | None) -> str:
        functions = [
            f"def f{index}(v):\n    return v + {int(index == edit)}"
            + "".join(f" + f{callee}(v)" for callee in sorted(callees))
            for index, callees in enumerate(calls)
        ]
        (folder / "k.py").write_text("\n\n".join(functions))
        return read_kernel_source(folder, "k.py", ["f0"], "triton").source_hash

    reached, pending = set(), {0}
    while pending:
        index = pending.pop()
        reached.add(index)
        pending |= calls[index] - reached
    assert (source_hash(edited) != source_hash(None)) is (edited in reached)


def hip_hash(folder: Path, main: str, **headers: str) -> str:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "k.hip").write_text(main)
    for name, text in headers.items():
        (folder / "parts" / f"{name}.hpp").write_text(text)
    return read_kernel_source(folder, "k.hip", ["entry"], "hip").source_hash


def test_hip_hash_covers_includes_of_includes(tmp_path: Path) -> None:
    main = '#include "parts/a.hpp"\nvoid entry() {}\n'
    headers = {"a": '#include "b.hpp"\n', "b": "// b\n", "unused": "// c\n"}
    before = hip_hash(tmp_path, main, **headers)
    assert hip_hash(tmp_path, main, **{**headers, "unused": "// changed\n"}) == before
    assert hip_hash(tmp_path, main, **{**headers, "b": "// changed\n"}) != before
    assert hip_hash(tmp_path, main + "// changed\n", **headers) != before


@pytest.mark.parametrize(
    ("main", "message"),
    [
        ('#include "missing.hpp"\nvoid entry() {}', "missing.hpp can't be read"),
        ('#include "../outside.hpp"\nvoid entry() {}', "lies outside"),
        ("void other() {}", "does not define the kernel 'entry'"),
    ],
)
def test_unreadable_sources_are_refused(tmp_path: Path, main: str, message: str) -> None:
    (tmp_path / "outside.hpp").write_text("// not the operator's")
    folder = tmp_path / "operator"
    folder.mkdir()
    with pytest.raises(UsageError, match=message):
        hip_hash(folder, main)


PACKAGE = """
from tuner.operator import *
from .part import VALUE
from .parts.inner import DEEP
OPERATOR = Operator(
    name="same", dims=("n",), arrays=(Array("x", lambda dims: (dims["n"], 3), role="scratch"),),
    tolerances={"float32": Tolerance(VALUE, DEEP)}, cases=(), reference="f",
    bytes_moved=lambda dims, item: 0, operations=lambda dims: 0, implementations=(),
)
"""


def test_an_operator_of_several_files_sees_only_its_own(tmp_path: Path) -> None:
    for value in (1, 2):
        folder = tmp_path / str(value) / "same"
        (folder / "parts").mkdir(parents=True)
        (folder / "operator.py").write_text(PACKAGE)
        (folder / "part.py").write_text(f"VALUE = {value}.0")
        (folder / "parts" / "inner.py").write_text("from ..part import VALUE\nDEEP = VALUE * 10\n")

    for value in (1, 2, 1):
        operator = load_operator(tmp_path / str(value) / "same")
        assert operator.tolerances["float32"].absolute == value
        assert operator.tolerances["float32"].relative == 10 * value
    assert operator.arrays[0].spec({"n": 5}, Workload("same", (5,))).shape == (5, 3)


def test_threads_that_load_an_operator_at_once_all_get_it() -> None:
    together = threading.Barrier(8)

    def load(_: int) -> list[str]:
        together.wait()
        operator = load_operator(KERNELS / "rmsnorm")
        return [operator.source(each).source_hash for each in operator.implementations]

    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            first, *others = threads.map(load, range(8))
            assert all(each == first for each in others)


def test_a_part_that_is_missing_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "same" / "operator.py").write_text(PACKAGE)
    with pytest.raises(UsageError, match="fails when loaded: ModuleNotFoundError"):
        load_operator(tmp_path / "same")
