"""The kernels of a run's controls beside the sentinel: see ``tuner.domain.controls``.

Both are HIP C++ in ``controls.hip``, which every device here compiles, and are built, launched
and sampled in the way a trial's kernel is.
"""

from __future__ import annotations

from pathlib import Path

from tuner.bench.devices.base import Device
from tuner.bench.measure import BufferSets
from tuner.domain.job import ArraySpec
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry

_SOURCE = Path(__file__).with_name("controls.hip")
_THREADS = 256
_WORD_BYTES = 16
_WORDS_A_THREAD = 4  # as in the source
# Bytes that are copied: neither all bits 0 nor all 1, so that lines switch as with numbers.
_PATTERN = 0x5A


def null_kernel() -> Kernel:
    """Return a kernel that does nothing, of one small block."""
    arguments = (KernelArgument("unused", "int64", 0),)
    return _kernel("control_null", arguments, LaunchGeometry((1, 1, 1), 64))


def copy_kernel(copy_bytes: int) -> Kernel:
    """Return a kernel that reads half of the bytes and writes the other half."""
    count = copy_bytes // 2 // _WORD_BYTES
    blocks = -(-count // (_THREADS * _WORDS_A_THREAD))
    arguments = (
        KernelArgument("source", "buffer", dtype="float32"),
        KernelArgument("target", "buffer", dtype="float32"),
        KernelArgument("count", "int64", count),
    )
    return _kernel("control_copy", arguments, LaunchGeometry((blocks, 1, 1), _THREADS))


def kernels() -> tuple[Kernel, Kernel]:
    """Return null kernel and copy, for any number of bytes: their code is the same for all."""
    return null_kernel(), copy_kernel(0)


def null_sets(device: Device) -> BufferSets:
    """Return what the null kernel goes round: sets of nothing."""
    return BufferSets(device, (), None, lambda _: None)


def copy_sets(device: Device, copy_bytes: int) -> BufferSets:
    """Return what the copy goes round: as many bytes as a problem's sets, and as cold."""
    shape = (copy_bytes // 2 // 4,)
    arrays = (
        ArraySpec("source", shape, "float32", "input"),
        ArraySpec("target", shape, "float32", "output"),
    )
    return BufferSets(device, arrays, None, lambda each: device.fill(each["source"], _PATTERN))


def _kernel(entry: str, arguments: tuple[KernelArgument, ...], geometry: LaunchGeometry) -> Kernel:
    return Kernel(
        language="hip",
        files={_SOURCE.name: _SOURCE.read_text("utf-8")},
        main=_SOURCE.name,
        entry=entry,
        constants={},
        options={},
        arguments=arguments,
        geometry=geometry,
    )
