"""A device that tests of the shipped kernels run on: the CPU at two wave sizes, and a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tuner.bench.devices.base import Device
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler
from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.errors import EnvironmentProblem

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(32, marks=needs_compiler, id="cpu-wave32"),
        pytest.param(64, marks=needs_compiler, id="cpu-wave64"),
        pytest.param(0, marks=pytest.mark.gpu_nvidia, id="cuda"),
    ],
)
def device(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Device]:
    # One cache for both wave sizes: a library is built for neither.
    cache = tmp_path_factory.getbasetemp() / request.module.__name__
    opened: Device
    if request.param:
        opened = CpuDevice(wave_size=request.param, cache_dir=cache)
    else:
        try:
            opened = NvidiaDevice(0, cache_dir=cache)
        except EnvironmentProblem as error:
            pytest.skip(error.message)
    yield opened
    opened.close()
