"""Makes the inputs of a workload from a seed, the same bits for every language and machine.

NumPy's PCG64 and its float32 normal and uniform streams are fixed by its compatibility policy
for a given bit generator.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from tuner.bench.devices.base import Array
from tuner.domain.job import ArraySpec
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import Problem


def make_inputs(problem: Problem, case: InputCase, seed: int) -> dict[str, Array]:
    """Return the input arrays of a case, by name, in the problem's dtype.

    Each array has a stream of its own, derived from seed, case and array name, so that adding
    an argument to an operator leaves the others' values alone.
    """
    inputs: dict[str, Array] = {}
    for spec in problem.arrays:
        if spec.role == "input":
            fill = case.fills.get(spec.name, Fill("normal"))
            inputs[spec.name] = _fill(spec, fill, _generator(seed, case.name, spec.name))
    return inputs


def array_bytes(spec: ArraySpec) -> int:
    """Return the size of an array in bytes."""
    return math.prod(spec.shape) * np.dtype(spec.dtype).itemsize


def _generator(seed: int, case: str, name: str) -> np.random.Generator:
    text = f"{seed}/{case}/{name}".encode()
    words = np.frombuffer(hashlib.sha256(text).digest(), np.uint32)
    return np.random.Generator(np.random.PCG64(words.tolist()))


def _fill(spec: ArraySpec, fill: Fill, generator: np.random.Generator) -> Array:
    values = _values(spec.shape, fill, generator)
    if fill.scale != 1.0:
        values *= np.float32(fill.scale)
    return values.astype(spec.dtype, copy=False)


def _values(
    shape: tuple[int, ...], fill: Fill, generator: np.random.Generator
) -> NDArray[np.float32]:
    if fill.kind == "zero":
        return np.zeros(shape, np.float32)
    if fill.kind == "uniform":
        return generator.random(shape, np.float32)
    values = generator.standard_normal(shape, np.float32)
    if fill.kind == "mixed_sign":
        # Signs alternate from element to element, so that a kernel that mixes up neighbours shows.
        signs = np.where(np.arange(values.size, dtype=np.int64) % 2 == 0, 1, -1)
        return np.abs(values) * signs.astype(np.float32).reshape(shape)
    if fill.kind == "one_row_zero":
        values[shape[0] // 2] = 0.0
    return values
