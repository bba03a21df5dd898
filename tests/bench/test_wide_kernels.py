"""The kernels with wide loads on the CPU device: every branch, waves of 32 and 64, edge shapes.

The CPU runs blocks one after the other, so that every block of a split row but the last finds
sums missing and computes them itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import HealthCheck
from hypothesis import settings
from hypothesis import strategies as st

from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.validate import Checker
from tuner.domain.identity import Config
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.operator import load_operator

RMSNORM = load_operator(Path(__file__).parents[2] / "kernels" / "rmsnorm")
pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

VECTOR = {
    "BLOCK": 128, "LANES": 32, "VECTOR": 1, "FLOATS": 8,
    "LDS": 0, "TURNS": 1, "EARLY": 0, "STREAM": 0,
}  # fmt: skip
SPLIT = {"PARTS": 2, "BLOCK": 128, "VECTOR": 1, "FLOATS": 16, "LDS": 0, "STREAM": 0}
# Shape, what differs from the above, and how many of a thread's vectors are then in registers
# and in LDS; the others are read again.
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
    ((3, 8192), {"BLOCK": 1024, "LANES": 1024, "VECTOR": 4, "STREAM": 1}, (2, 0)),
]
SPLITS = [
    ((1, 16384), {"VECTOR": 4, "FLOATS": 64}, (16, 0)),
    ((1, 16384), {"PARTS": 32, "BLOCK": 256, "VECTOR": 2}, (1, 0)),
    ((3, 20001), {"PARTS": 8, "FLOATS": 16, "LDS": 1}, (16, 4)),
    ((3, 20001), {"PARTS": 4, "BLOCK": 512, "STREAM": 1}, (10, 0)),
    ((2, 65536), {"PARTS": 16, "BLOCK": 256, "VECTOR": 4, "LDS": 0}, (4, 0)),
    ((2, 65536), {"PARTS": 2, "BLOCK": 1024, "VECTOR": 4, "FLOATS": 32}, (8, 0)),
    ((1, 16384), {"VECTOR": 4, "LDS": 1}, (4, 12)),
]
CONFIGS = [
    *(("hip-vector", shape, {**VECTOR, **changes}, held) for shape, changes, held in VECTORS),
    *(("hip-split", shape, {**SPLIT, **changes}, held) for shape, changes, held in SPLITS),
]


@pytest.fixture(scope="module", params=[32, 64])
def cpu(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CpuDevice]:
    device = CpuDevice(wave_size=request.param, cache_dir=tmp_path_factory.mktemp("kernels"))
    yield device
    device.close()


def check(
    cpu: CpuDevice, name: str, shape: tuple[int, ...], config: Config, cases: int | None = None
) -> None:
    """Run a legal config on the operator's inputs; right means also that the scratch is left 0."""
    implementation, workload = RMSNORM.implementation(name), RMSNORM.workload(shape)
    dims = RMSNORM.dimensions(workload)
    assert first_violation(config, dims, cpu.facts, implementation.constraints) is None
    kernel = RMSNORM.kernel(implementation, RMSNORM.source(implementation), config, workload)
    executable = HipLanguage().build(kernel, cpu)
    problem = RMSNORM.problem(workload)
    checker = Checker(cpu, problem)
    try:
        for case in problem.cases[:cases]:
            report = checker.check(executable, checker.case(case, 7), "before")
            assert report.passed, (case.name, report.message)
    finally:
        checker.close()


@pytest.mark.parametrize(("name", "shape", "config", "held"), CONFIGS)
def test_every_branch_is_right_on_every_input(
    cpu: CpuDevice,
    name: str,
    shape: tuple[int, ...],
    config: Config,
    held: tuple[int, int],
) -> None:
    implementation = RMSNORM.implementation(name)
    dims = RMSNORM.dimensions(RMSNORM.workload(shape))
    constants = implementation.constants(config, dims)
    assert (constants["KEPT"], constants["SHARED"]) == held
    check(cpu, name, shape, config)


@given(shape=st.tuples(st.integers(1, 9), st.integers(1, 3000)), seed=st.integers(0, 2**32))
@settings(
    deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_legal_config_is_right(cpu: CpuDevice, shape: tuple[int, int], seed: int) -> None:
    implementation = RMSNORM.implementation("hip-vector")
    dims = RMSNORM.dimensions(RMSNORM.workload(shape))
    legal = [
        config
        for config in grid_configs(implementation.parameters(dims))
        if first_violation(config, dims, cpu.facts, implementation.constraints) is None
    ]
    check(cpu, "hip-vector", shape, random.Random(seed).choice(legal), cases=1)
