"""The kernels with wide loads: every branch, edge shapes; waves of 32 and 64 on the CPU, and a GPU.

The CPU runs blocks one after the other, so that every block of a split row but the last finds
sums missing and computes them itself.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st

from tuner.bench.devices.base import Device
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.validate import Checker
from tuner.domain.identity import Config
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.domain.workload import Workload
from tuner.operator import load_operator

RMSNORM = load_operator(Path(__file__).parents[2] / "kernels" / "rmsnorm")

VECTOR = {
    "BLOCK": 128, "LANES": 32, "VECTOR": 1, "FLOATS": 8,
    "LDS": 0, "TURNS": 1, "EARLY": 0, "STREAM": 0, "STAGGER": 0,
}  # fmt: skip
SPLIT = {
    "PARTS": 2, "BLOCK": 128, "VECTOR": 1, "FLOATS": 16,
    "LDS": 0, "EARLY": 0, "STREAM": 0, "STAGGER": 0,
}  # fmt: skip
F32, F16, BF16 = "float32", "float16", "bfloat16"


class Case(NamedTuple):
    """A config by what differs from the above, and what it must come to.

    ``held`` says how many of a thread's vectors are in registers and in LDS; the others are read
    again.
    """

    name: str
    shape: tuple[int, int]
    changes: Config
    held: tuple[int, int]
    dtype: str = F32
    padding: int = 0

    @property
    def config(self) -> Config:
        return {**(VECTOR if self.name == "hip-vector" else SPLIT), **self.changes}


VECTORS = [
    ((1, 1), {"LANES": 8}, (1, 0)),
    ((3, 13), {"LANES": 8, "EARLY": 1}, (2, 0)),
    ((33, 257), {"LANES": 16, "TURNS": 4}, (8, 0)),
    ((33, 257), {"LANES": 64, "FLOATS": 8, "TURNS": 2, "STREAM": 1}, (5, 0)),
    ((33, 257), {"LANES": 128, "EARLY": 1}, (3, 0)),
    ((5, 1000), {"VECTOR": 4, "FLOATS": 16, "LDS": 1, "TURNS": 8}, (4, 4)),
    ((5, 1000), {"VECTOR": 2, "LANES": 64, "EARLY": 1, "STREAM": 1}, (4, 0)),
    ((5, 1000), {"BLOCK": 256, "LANES": 8, "VECTOR": 4, "FLOATS": 64}, (16, 0)),
    ((7, 1023), {"LDS": 1, "EARLY": 1}, (8, 24)),
    ((7, 1023), {"BLOCK": 64, "LANES": 64, "FLOATS": 16, "TURNS": 2}, (16, 0)),
    ((3, 8192), {"BLOCK": 256, "LANES": 256, "VECTOR": 4, "FLOATS": 32}, (8, 0)),
    ((3, 8192), {"BLOCK": 512, "LANES": 256, "VECTOR": 2, "LDS": 1, "TURNS": 2}, (4, 12)),
    ((3, 8192), {"BLOCK": 1024, "LANES": 1024, "VECTOR": 4, "STREAM": 2}, (2, 0)),
    # Nothing of a row in registers: all read again, or all in LDS.
    ((5, 4096), {"LANES": 128, "VECTOR": 4, "FLOATS": 0, "STREAM": 2}, (0, 0)),
    ((7, 1023), {"LANES": 64, "VECTOR": 2, "FLOATS": 0, "TURNS": 2}, (0, 0)),
    ((7, 1023), {"LANES": 64, "VECTOR": 4, "FLOATS": 0, "LDS": 1}, (0, 4)),
    ((5, 1000), {"LANES": 32, "VECTOR": 8, "FLOATS": 0, "STREAM": 2}, (0, 0), BF16),
    # Weights loaded early of what is in LDS, too.
    ((5, 4096), {"LANES": 128, "VECTOR": 4, "FLOATS": 0, "LDS": 1, "EARLY": 1}, (0, 8)),
    ((5, 4096), {"LANES": 128, "VECTOR": 4, "LDS": 1, "EARLY": 1, "TURNS": 4}, (2, 6)),
    # Ragged rows: edges, and weights that lie in two vectors.
    ((1, 1), {"LANES": 8, "VECTOR": 4}, (1, 0)),
    ((9, 13), {"LANES": 8, "VECTOR": 2, "EARLY": 1}, (1, 0)),
    ((9, 257), {"LANES": 16, "VECTOR": 4, "TURNS": 4, "STREAM": 2}, (2, 0)),
    ((7, 1023), {"VECTOR": 4, "FLOATS": 16, "LDS": 1}, (4, 4)),
    ((7, 1023), {"VECTOR": 2, "FLOATS": 8, "EARLY": 1}, (4, 0)),
    ((7, 1023), {"BLOCK": 256, "LANES": 256, "VECTOR": 4}, (1, 0)),
    ((7, 1024), {"LANES": 64, "VECTOR": 4, "FLOATS": 16}, (4, 0), F32, 3),
    ((7, 1021), {"LANES": 64, "VECTOR": 4, "FLOATS": 16}, (4, 0), F32, 3),
    ((7, 1021), {"LANES": 64}, (8, 0), F32, 5),
    # Elements of 2 bytes.
    ((5, 1000), {"LANES": 32, "VECTOR": 8, "FLOATS": 16}, (4, 0), F16),
    ((5, 1000), {"LANES": 32, "VECTOR": 8, "STREAM": 2, "LDS": 1}, (2, 2), BF16),
    ((5, 1000), {"LANES": 64, "VECTOR": 4, "EARLY": 1, "STREAM": 1}, (4, 0), BF16),
    ((5, 999), {"LANES": 64, "VECTOR": 1}, (16, 0), F16),
    ((9, 1023), {"LANES": 32, "VECTOR": 8}, (2, 0), F16),
    ((9, 1023), {"LANES": 32, "VECTOR": 8, "EARLY": 1}, (2, 0), BF16, 1),
    ((9, 1019), {"LANES": 32, "VECTOR": 2, "FLOATS": 16}, (16, 0), BF16, 4),
    ((17, 31), {"LANES": 8, "VECTOR": 8}, (1, 0), F16),
    ((17, 15), {"LANES": 8, "VECTOR": 8, "EARLY": 1}, (1, 0), BF16),
    ((17, 135), {"LANES": 16, "VECTOR": 4, "LDS": 1, "FLOATS": 0, "EARLY": 1}, (0, 3), BF16, 2),
    # Weights in LDS, with what registers hold and what LDS holds; blocks that begin in turn.
    ((33, 1000), {"LANES": 64, "VECTOR": 4, "FLOATS": 16, "EARLY": 2, "STAGGER": 256}, (4, 0)),
    (
        (33, 2048),
        {"VECTOR": 8, "FLOATS": 16, "LDS": 1, "EARLY": 2, "TURNS": 2, "STAGGER": 2048},
        (4, 4), BF16,
    ),
    ((33, 1000), {"LANES": 128, "VECTOR": 4, "FLOATS": 0, "LDS": 1, "EARLY": 2}, (0, 2)),
    # Several rows a block, none of them missing.
    ((32, 1000), {"LANES": 64, "VECTOR": 4, "FLOATS": 16, "EARLY": 1}, (4, 0)),
    (
        (32, 1000),
        {"LANES": 64, "VECTOR": 4, "FLOATS": 8, "LDS": 1, "EARLY": 2, "TURNS": 4},
        (2, 2),
    ),
    # A copy to LDS with a cache policy was an illegal instruction on an H200 (access.h).
    (
        (9, 2047),
        {"BLOCK": 256, "LANES": 64, "VECTOR": 8, "LDS": 1, "TURNS": 2, "EARLY": 1, "STREAM": 2},
        (2, 2), BF16,
    ),
]  # fmt: skip
SPLITS = [
    ((1, 16384), {"VECTOR": 4, "FLOATS": 64}, (16, 0)),
    ((1, 16384), {"PARTS": 32, "BLOCK": 256, "VECTOR": 2}, (1, 0)),
    ((3, 20001), {"PARTS": 8, "FLOATS": 16, "LDS": 1}, (16, 4)),
    ((3, 20001), {"PARTS": 4, "BLOCK": 512, "STREAM": 1}, (10, 0)),
    ((2, 65536), {"PARTS": 16, "BLOCK": 256, "VECTOR": 4, "LDS": 0}, (4, 0)),
    ((2, 65536), {"PARTS": 2, "BLOCK": 1024, "VECTOR": 4, "FLOATS": 32}, (8, 0)),
    ((1, 16384), {"VECTOR": 4, "LDS": 1}, (4, 12)),
    ((5, 20001), {"VECTOR": 4, "PARTS": 8, "STREAM": 2}, (4, 0)),
    ((5, 20001), {"VECTOR": 8, "PARTS": 4, "LDS": 1}, (4, 1), F16),
    ((3, 20003), {"VECTOR": 8, "PARTS": 4, "BLOCK": 256, "STREAM": 1}, (3, 0), BF16, 3),
    ((1, 16384), {"VECTOR": 8, "PARTS": 4}, (4, 0), BF16),
    ((2, 16384), {"VECTOR": 8, "PARTS": 4, "FLOATS": 0, "LDS": 1, "EARLY": 1}, (0, 4), F16),
    ((2, 16384), {"VECTOR": 4, "PARTS": 8, "EARLY": 1, "STREAM": 2}, (4, 0)),
    ((5, 20001), {"VECTOR": 4, "PARTS": 8, "FLOATS": 0, "LDS": 1, "EARLY": 1}, (0, 5)),
    ((9, 16384), {"VECTOR": 4, "PARTS": 8, "EARLY": 2, "STAGGER": 256}, (4, 0)),
    ((5, 20000), {"VECTOR": 8, "PARTS": 4, "LDS": 1, "EARLY": 2, "STAGGER": 2048}, (4, 1), F16),
]
CASES = [
    *(Case("hip-vector", *each) for each in VECTORS),  # type: ignore[arg-type]
    *(Case("hip-split", *each) for each in SPLITS),  # type: ignore[arg-type]
]


def check(
    device: Device, name: str, workload: Workload, config: Config, cases: int | None = None
) -> None:
    """Run a legal config on the operator's inputs; right means also that the scratch is left 0.

    Nor may anything be written between the rows.
    """
    implementation = RMSNORM.implementation(name)
    dims = RMSNORM.dimensions(workload)
    assert first_violation(config, dims, device.facts, implementation.constraints) is None
    kernel = RMSNORM.kernel(implementation, RMSNORM.source(implementation), config, workload)
    executable = HipLanguage().build(kernel, device)
    problem = RMSNORM.problem(workload)
    checker = Checker(device, problem)
    try:
        for case in problem.cases[:cases]:
            report = checker.check(executable, checker.case(case, 7), "before")
            assert report.passed, (case.name, report.message)
    finally:
        checker.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.shape}-{case.dtype}")
def test_every_branch_is_right_on_every_input(device: Device, case: Case) -> None:
    implementation = RMSNORM.implementation(case.name)
    workload = RMSNORM.workload(case.shape, case.dtype, row_padding=case.padding)
    constants = implementation.constants(case.config, RMSNORM.dimensions(workload))
    assert (constants["KEPT"], constants["SHARED"]) == case.held
    check(device, case.name, workload, case.config)


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 3000)),
    dtype=st.sampled_from([F32, F16, BF16]),
    padding=st.integers(0, 9),
    seed=st.integers(0, 2**32),
)
@settings(
    deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_legal_config_is_right(
    device: Device, shape: tuple[int, int], dtype: str, padding: int, seed: int
) -> None:
    implementation = RMSNORM.implementation("hip-vector")
    workload = RMSNORM.workload(shape, dtype, row_padding=padding)
    dims = RMSNORM.dimensions(workload)
    legal = [
        config
        for config in grid_configs(implementation.parameters(dims))
        if first_violation(config, dims, device.facts, implementation.constraints) is None
    ]
    check(device, "hip-vector", workload, random.Random(seed).choice(legal), cases=1)
