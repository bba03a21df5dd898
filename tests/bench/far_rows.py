"""Runs every implementation of a language on rows that lie more than 2^32 elements apart in all.

Of the memory only the pages that are touched exist. Prints what is wrong, by implementation. A
process of its own: a kernel that counts in 32 bits may touch what is no memory, and Triton looks at
TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import json
import math
import mmap
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.triton import TritonLanguage
from tuner.domain.job import ArraySpec
from tuner.domain.space import first_violation
from tuner.operator import Implementation
from tuner.operator import load_operator
from tuner.operator import Operator

KERNELS = Path(__file__).parents[2] / "kernels"
ROWS, COLUMNS = 5, (1500, 20_001)  # what is refused for short rows is run on long ones
STRIDE = 2**30 + 64  # the third row begins at element 2^31 and more, the last at 2^32
TURNS = 4
FLOAT_BYTES, MOST_BYTES = 4, 8  # of an element: scratch has words
LANGUAGES = {"hip": HipLanguage(), "triton": TritonLanguage()}
NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux on x86-64 and aarch64; the module has no name for it


class Floats:
    """An array in memory of which only the pages that are touched exist.

    Attributes:
        values: The elements; of scratch, which has others, only the address counts.
        address: Of the first.
        size_bytes: With what lies between the rows.
    """

    def __init__(self, spec: ArraySpec) -> None:
        stride = spec.stored_shape[-1]
        self.size_bytes = MOST_BYTES * math.prod(spec.stored_shape)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        memory = mmap.mmap(-1, self.size_bytes, flags)
        self.address = np.frombuffer(memory, np.uint8).ctypes.data
        strides = (stride * FLOAT_BYTES, FLOAT_BYTES)[-len(spec.shape) :]
        self.values: Any = np.ndarray(spec.shape, np.float32, memory, strides=strides)


def problems(language: str) -> dict[str, str]:
    """Check each implementation's default on far rows."""
    device, found = CpuDevice(), {}
    for name in ("rmsnorm", "softmax"):
        operator = load_operator(KERNELS / name)
        for each in operator.implementations:
            if each.language == language:
                wrong = wrong_rows(operator, each, device)
                found[f"{name} {each.name}"] = f"rows {wrong}" if wrong else ""
    return found


def wrong_rows(operator: Operator, implementation: Implementation, device: CpuDevice) -> list[int]:
    """Run an implementation's default on the first columns that allow it."""
    for cols in COLUMNS:
        workload = operator.workload((ROWS, cols), row_padding=STRIDE - cols)
        dims = operator.dimensions(workload)
        config = implementation.default(dims, device.facts)
        if not first_violation(config, dims, device.facts, implementation.constraints):
            break
    kernel = operator.kernel(implementation, operator.source(implementation), config, workload)
    problem = operator.problem(workload)
    arrays, inputs = {}, []
    for spec in problem.arrays:
        arrays[spec.name] = Floats(spec)
        if spec.role == "input":
            inputs.append(arrays[spec.name].values)
            inputs[-1][...] = np.random.default_rng(7).standard_normal(spec.shape)
    for launch in LANGUAGES[implementation.language].build(kernel, device).bind(arrays):
        device.launch(launch)
    reference = runpy.run_path(problem.reference_path)[problem.reference_function]
    (expected,) = reference(*(each.astype(np.float64) for each in inputs), **problem.scalars)
    error, tolerance = np.abs(arrays["y"].values - expected), problem.tolerance
    right = error <= tolerance.absolute + tolerance.relative * np.abs(expected)
    return np.flatnonzero(~right.all(axis=1)).tolist()


def problems_of_turns() -> dict[str, str]:
    """Let one program of 2^30 do its turns: their rows lie a grid apart, the third at 2^31."""
    from triton.runtime import interpreter

    operator, device = load_operator(KERNELS / "rmsnorm"), CpuDevice()
    turns = operator.implementation("triton-turns")
    workload = operator.workload((TURNS * 2**30, 1))
    default = turns.default(operator.dimensions(workload), device.facts)
    config = {**default, "ROWS": 1, "TURNS": TURNS, "num_warps": 1}
    kernel = operator.kernel(turns, operator.source(turns), config, workload)
    programs = kernel.geometry.grid[0]
    interpreter.InterpreterBuilder.create_get_num_programs = lambda _self, _axis: (
        interpreter.TensorHandle(np.array([programs], np.int32), interpreter.tl.int32)
    )
    one = replace(kernel, geometry=replace(kernel.geometry, grid=(1, 1, 1)))
    specs = [spec for spec in operator.problem(workload).arrays if spec.name in "xwy"]
    arrays = {spec.name: Floats(spec) for spec in specs}
    arrays["w"].values[:] = 1.0
    arrays["x"].values[::programs] = 2.0
    for launch in TritonLanguage().build(one, device).bind(arrays):
        device.launch(launch)
    written = arrays["y"].values[::programs]
    return {"triton-turns": "" if np.allclose(written, 1.0) else str(written.tolist())}


if __name__ == "__main__":
    found = problems_of_turns() if sys.argv[1] == "turns" else problems(sys.argv[1])
    sys.stdout.write(json.dumps(found))
