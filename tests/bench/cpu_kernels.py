"""Runs small HIP kernels on the CPU device, for the tests beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.cpu import CpuDevice
from tuner.domain.identity import Scalar
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry

Floats = NDArray[np.float32]

INDICES = """
extern "C" __global__ void k(float* out) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * blockDim.x + threadIdx.x] = block * 1000 + threadIdx.x;
}
"""


def source(
    text: str, macros: Mapping[str, Scalar] | None = None, flags: tuple[str, ...] = ()
) -> HipSource:
    return HipSource({"k.hip": textwrap.dedent(text)}, "k.hip", "k", macros or {}, flags)


def run(
    device: CpuDevice,
    kernel: HipSource,
    arrays: Mapping[str, Floats],
    *scalars: tuple[str, float],
    grid: tuple[int, int, int] = (1, 1, 1),
    threads: int = 1,
    shared_bytes: int = 0,
) -> None:
    """Launch a kernel on arrays, in order, then scalars; the arrays are changed in place."""
    loaded = device.load(device.compile_hip(kernel), shared_bytes)
    buffers = {name: device.allocate(array.nbytes) for name, array in arrays.items()}
    for name, array in arrays.items():
        device.write(buffers[name], array)
    arguments = (
        *(KernelArgument(name, "buffer") for name in arrays),
        *(
            KernelArgument(name, "int64" if isinstance(value, int) else "float32", value)
            for name, value in scalars
        ),
    )
    geometry = LaunchGeometry(grid, threads, shared_bytes)
    try:
        device.launch(Launch(loaded, geometry, arguments, buffers))
        for name, array in arrays.items():
            device.read(buffers[name], array)
    finally:
        for buffer in buffers.values():
            device.free(buffer)


def nan(*shape: int) -> Floats:
    return np.full(shape, np.nan, np.float32)
