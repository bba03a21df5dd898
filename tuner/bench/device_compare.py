"""Compares outputs with their reference on the device: kernels in ``compare_on_device.hip``.

To copy outputs and inputs to the host and compare them there takes milliseconds a megabyte-sized
array and input case, many times what a kernel runs. Here all of it takes one small copy back.
The answer is the same (see ``compare``); where it is "wrong", the host compares again and says
what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.base import LoadedKernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Tolerance
from tuner.errors import EnvironmentProblem
from tuner.errors import TrialError

_SOURCE = Path(__file__).with_name("compare_on_device.hip")
_THREADS = 256
_BLOCKS_PER_UNIT = 8  # enough to fill a compute unit with blocks of 256 threads
_WORDS = 3  # an answer: mismatches and two errors, or one checksum
_ELEMENTS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 16}


@dataclass(frozen=True, slots=True)
class Found:
    """What a comparison of one output found.

    Attributes:
        mismatches: Elements outside the tolerance; NaN is never within.
        max_abs_error: Largest finite ``|out - ref|``; None where there is none.
        max_rel_error: Largest finite ``|out - ref| / |ref|`` where ``ref`` is not 0; None likewise.
    """

    mismatches: int
    max_abs_error: float | None
    max_rel_error: float | None


@dataclass(frozen=True, slots=True)
class Comparing:
    """An output to compare: where it is, where its float64 reference is, and what is allowed."""

    actual: Buffer
    expected: Buffer
    dtype: str
    count: int
    tolerance: Tolerance


@dataclass(frozen=True, slots=True)
class Answers:
    """What a round of comparisons and checksums gave, each in the order asked for."""

    found: tuple[Found, ...]
    digests: tuple[int, ...]


class DeviceComparer:
    """Comparisons and checksums on one device.

    Args:
        device: Whose memory holds everything.
        most: Comparisons and checksums of one round, together.

    Raises:
        TrialError: The device can't build the kernels.
        EnvironmentProblem: Its compiler is missing.
    """

    def __init__(self, device: Device, most: int) -> None:
        self._device = device
        self._compare: dict[str, LoadedKernel] = {}
        self._digest = self._load("digest_bytes", "float32")
        self._answers = np.zeros((most, _WORDS), np.uint64)
        self._slots = device.allocate(self._answers.nbytes)

    def can_compare(self, dtype: str) -> bool:
        """Tell whether outputs of a dtype can be compared here; builds what it takes."""
        if dtype in _ELEMENTS and dtype not in self._compare:
            self._compare[dtype] = self._load("compare_elements", dtype)
        return dtype in _ELEMENTS

    def ask(self, comparisons: Sequence[Comparing], buffers: Sequence[Buffer]) -> Answers:
        """Compare outputs and take the checksums of buffers.

        Raises:
            DeviceFault: The context is broken.
        """
        self._device.fill(self._slots, 0)
        for position, each in enumerate(comparisons):
            self._device.launch(self._comparison(each, position))
        for position, buffer in enumerate(buffers, start=len(comparisons)):
            self._device.launch(self._checksum(buffer, position))
        self._device.read(self._slots, self._answers)
        rows = iter(self._answers.tolist())
        found = [next(rows) for _ in comparisons]
        return Answers(
            tuple(Found(row[0], _error(row[1]), _error(row[2])) for row in found),
            tuple(next(rows)[0] for _ in buffers),
        )

    def close(self) -> None:
        """Free the answers' memory."""
        self._device.free(self._slots)

    def _load(self, entry: str, dtype: str) -> LoadedKernel:
        files = {_SOURCE.name: _SOURCE.read_text("utf-8")}
        source = HipSource(files, _SOURCE.name, entry, {"ELEMENT": _ELEMENTS[dtype]})
        return self._device.load(self._device.compile_hip(source), 0)

    def _comparison(self, each: Comparing, position: int) -> Launch:
        tolerance = {
            "absolute": _bits(each.tolerance.absolute), "relative": _bits(each.tolerance.relative),
        }  # fmt: skip
        return self._launch(
            self._compare[each.dtype],
            {"actual": each.actual, "expected": each.expected, "found": self._slot(position)},
            {"count": each.count, **tolerance},
        )

    def _checksum(self, buffer: Buffer, position: int) -> Launch:
        buffers = {"bytes": buffer, "found": self._slot(position)}
        return self._launch(self._digest, buffers, {"count": buffer.size_bytes})

    def _slot(self, position: int) -> Buffer:
        row_bytes = self._answers.itemsize * _WORDS
        return _Slot(self._slots.address + position * row_bytes, row_bytes)

    def _launch(
        self, kernel: LoadedKernel, buffers: Mapping[str, Buffer], numbers: Mapping[str, int]
    ) -> Launch:
        arguments = (
            *(KernelArgument(name, "buffer") for name in buffers),
            *(KernelArgument(name, "int64", value) for name, value in numbers.items()),
        )
        wanted = -(-numbers["count"] // _THREADS)
        most = self._device.facts.compute_units * _BLOCKS_PER_UNIT
        geometry = LaunchGeometry((max(1, min(wanted, most)), 1, 1), _THREADS)
        return Launch(kernel, geometry, arguments, buffers)


def open_comparer(device: Device, most: int) -> DeviceComparer | None:
    """Return a comparer, or None where the host compares: in its own memory, or without HIP."""
    if device.facts.timer == "host-clock":
        return None
    try:
        return DeviceComparer(device, most)
    except (TrialError, EnvironmentProblem):
        return None


@dataclass(frozen=True, slots=True)
class _Slot:
    """A part of a buffer."""

    address: int
    size_bytes: int


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _error(word: int) -> float | None:
    """Return the error that ``ordered`` in the kernels made a word of."""
    return float(struct.unpack("<d", struct.pack("<Q", word - 1))[0]) if word else None
