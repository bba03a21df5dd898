"""Makes the inputs of a workload from a seed, the same bits for every language and machine.

NumPy's PCG64 and its float32 normal and uniform streams are fixed by its compatibility policy
for a given bit generator. Other dtypes get the same float32 values, rounded to nearest even.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.bench.devices.base import Array
from tuner.domain.dtypes import ELEMENT_TYPES
from tuner.domain.job import ArraySpec
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import Problem

NAN_BYTE = 0xFF  # every byte 0xFF is a NaN in all IEEE formats and in bfloat16
# No float32 normal value comes near this: the tail is drawn from 24 bits, and ends below 9.
_MOST_SIGMA = 16.0


def make_inputs(problem: Problem, case: InputCase, seed: int) -> dict[str, Array]:
    """Return the input arrays of a case, by name, in the problem's dtype and stored shape.

    Each array has a stream of its own, derived from seed, case and array name, so that adding
    an argument to an operator leaves the others' values alone. What lies between the rows is NaN:
    a kernel that lets it into a result shows.
    """
    inputs: dict[str, Array] = {}
    for spec in problem.arrays:
        if spec.role == "input":
            fill = case.fills.get(spec.name, Fill("normal"))
            inputs[spec.name] = _fill(spec, fill, _generator(seed, case.name, spec.name))
    return inputs


def array_bytes(spec: ArraySpec) -> int:
    """Return the size of an array in bytes, padding included."""
    return math.prod(spec.stored_shape) * numpy_dtype(spec.dtype).itemsize


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return a dtype by name: NumPy's own, or one that ``ml_dtypes`` teaches it (bfloat16).

    That package is loaded only where it is needed: 0.5 s a process (2-core x86-64, 2026-12-03).
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401 - registers its dtypes

        return np.dtype(name)


def rows_of(spec: ArraySpec, stored: Array) -> Array:
    """Return the view of an array in its stored shape that leaves the padding out."""
    return stored[..., : spec.shape[-1]] if spec.row_padding else stored


def padding_of(spec: ArraySpec, stored: Array) -> Array:
    """Return the view of what lies between the rows of an array in its stored shape."""
    return stored[..., spec.shape[-1] :]


def _generator(seed: int, case: str, name: str) -> np.random.Generator:
    text = f"{seed}/{case}/{name}".encode()
    words = np.frombuffer(hashlib.sha256(text).digest(), np.uint32)
    return np.random.Generator(np.random.PCG64(words.tolist()))


def _fill(spec: ArraySpec, fill: Fill, generator: np.random.Generator) -> Array:
    values = _values(spec.shape, fill, generator)
    if fill.scale != 1.0:
        # What a case calls large is as large as the dtype can be: FP16 ends at 65504.
        kind = ELEMENT_TYPES.get(spec.dtype)
        largest = kind.largest / _MOST_SIGMA if kind else math.inf
        values *= np.float32(min(fill.scale, largest))
    if not spec.row_padding:
        return values.astype(numpy_dtype(spec.dtype), copy=False)
    stored = np.empty(spec.stored_shape, numpy_dtype(spec.dtype))
    stored.view(np.uint8).fill(NAN_BYTE)
    rows_of(spec, stored)[...] = values
    return stored


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
