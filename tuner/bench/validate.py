"""Compares the whole output of an executable with the reference.

Inputs are kept on the device for all trials of a problem; the output is filled with NaN before
each check, so that a kernel that writes nothing can't inherit an earlier, right result.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Literal
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.bench.compare import Comparison
from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.inputs import array_bytes
from tuner.bench.inputs import make_inputs
from tuner.bench.inputs import NAN_BYTE
from tuner.bench.inputs import padding_of
from tuner.bench.inputs import rows_of
from tuner.domain.job import ArraySpec
from tuner.domain.job import InputCase
from tuner.domain.job import Problem
from tuner.domain.records import ValidationReport
from tuner.errors import TrialError
from tuner.errors import UsageError

Reference = Callable[..., tuple[NDArray[np.float64], ...]]


class Bindable(Protocol):
    """What can be launched once it has buffers: an executable of any language."""

    @property
    def array_names(self) -> frozenset[str]:
        """Names of the arrays it takes."""

    def bind(self, buffers: dict[str, Buffer]) -> Sequence[Launch]:
        """Return its launches on these buffers, in order."""


@dataclass(frozen=True, slots=True)
class CheckCase:
    """An input case on the device: its inputs there and here, and the expected outputs."""

    case: InputCase
    seed: int
    buffers: dict[str, Buffer]
    inputs: dict[str, Array]
    expected: dict[str, NDArray[np.float64]]


def load_reference(path: str, function: str) -> Reference:
    """Import the reference function from its file, by path.

    Raises:
        UsageError: The file can't be loaded or has no such function.
    """
    spec = importlib.util.spec_from_file_location(f"tuner_reference_{Path(path).parent.name}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"reference {path} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"reference {path} has no function {function!r}")
    return found  # type: ignore[no-any-return]


class Checker:
    """Holds a problem's inputs and expected outputs on a device, for all kernels that solve it."""

    def __init__(self, device: Device, problem: Problem) -> None:
        self._device = device
        self._problem = problem
        self._reference = load_reference(problem.reference_path, problem.reference_function)
        self._cases: dict[tuple[str, int], CheckCase] = {}
        self._specs = {spec.name: spec for spec in problem.arrays}
        # Read into again and again: new memory would cost more than the copy.
        self._host = {
            spec.name: np.empty(spec.stored_shape, spec.dtype)
            for spec in problem.arrays
            if spec.role != "intermediate"
        }
        self._written: dict[str, Buffer] = {}

    def case(self, case: InputCase, seed: int) -> CheckCase:
        """Return a case's inputs on the device, made at first use."""
        key = (case.name, seed)
        if key not in self._cases:
            self._cases[key] = self._make_case(case, seed)
        return self._cases[key]

    def buffers(self, case: CheckCase, names: Collection[str]) -> dict[str, Buffer]:
        """Return a case's buffers for the named arrays, made at first use: not all are needed."""
        for name in names:
            if name not in case.buffers and name not in self._written:
                self._written[name] = self._device.allocate(array_bytes(self._specs[name]))
        return {name: case.buffers.get(name) or self._written[name] for name in names}

    def check(
        self, executable: Bindable, case: CheckCase, phase: Literal["before", "after"]
    ) -> ValidationReport:
        """Launch once on NaN-filled outputs and compare everything.

        Raises:
            DeviceFault: The kernel broke the device context.
            LaunchFailed: The device refused the launch.
        """
        outputs = {spec.name for spec in self._problem.arrays if spec.role == "output"}
        # In the order of the problem's arrays, so that messages are the same every time.
        names = executable.array_names | outputs
        buffers = self.buffers(case, [name for name in self._specs if name in names])
        written = [self._specs[name] for name in buffers if name not in case.buffers]
        for spec in written:
            self._device.fill(buffers[spec.name], 0 if spec.role == "scratch" else NAN_BYTE)
        for launch in executable.bind(buffers):
            self._device.launch(launch)
        changed, spilled = self.changed_input(case), ""
        comparison = Comparison()
        for spec in written:
            if spec.role == "output":
                stored = self._host[spec.name]
                self._device.read(self._written[spec.name], stored)
                actual, expected = rows_of(spec, stored), case.expected[spec.name]
                comparison.add(spec.name, actual, expected, self._problem.tolerance)
                if spec.row_padding and not np.all(_bytes(padding_of(spec, stored)) == NAN_BYTE):
                    spilled = spec.name
        message = f"the kernel changed its input {changed}" if changed else comparison.message
        message = message or self._scratch_problem(written)
        if spilled:
            message = message or f"the kernel wrote between the rows of its output {spilled}"
        return ValidationReport(
            phase=phase,
            case=case.case.name,
            seed=case.seed,
            passed=not message,
            max_abs_error=comparison.max_abs_error,
            max_rel_error=comparison.max_rel_error,
            mismatches=comparison.mismatches,
            first_bad_index=comparison.first_bad_index,
            message=message,
        )

    def close(self) -> None:
        """Free the buffers."""
        for case in self._cases.values():
            for buffer in case.buffers.values():
                self._device.free(buffer)
        for buffer in self._written.values():
            self._device.free(buffer)
        self._cases.clear()
        self._written.clear()

    def _make_case(self, case: InputCase, seed: int) -> CheckCase:
        inputs = make_inputs(self._problem, case, seed)
        buffers: dict[str, Buffer] = {}
        for name, array in inputs.items():
            buffers[name] = self._device.allocate(array.nbytes)
            self._device.write(buffers[name], array)
        return CheckCase(case, seed, buffers, inputs, self._expected(inputs))

    def _expected(self, inputs: dict[str, Array]) -> dict[str, NDArray[np.float64]]:
        wide = {
            name: rows_of(self._specs[name], array).astype(np.float64)
            for name, array in inputs.items()
        }
        names = [spec.name for spec in self._problem.arrays if spec.role == "output"]
        with np.errstate(all="ignore"):
            results = self._reference(**wide, **self._problem.scalars)
        return dict(zip(names, results, strict=True))

    def _scratch_problem(self, written: Sequence[ArraySpec]) -> str:
        """Return which scratch array a kernel left other than it found it, or ""."""
        for spec in written:
            if spec.role == "scratch":
                now = self._host[spec.name]
                self._device.read(self._written[spec.name], now)
                if np.any(_bits(now)):
                    return f"the kernel left its scratch {spec.name} not zero"
        return ""

    def changed_input(self, case: CheckCase) -> str:
        """Return the name of an input that a kernel wrote to, or ""; put it right again."""
        for name, original in case.inputs.items():
            now = self._host[name]
            self._device.read(case.buffers[name], now)
            if not np.array_equal(_bits(now), _bits(original)):
                self._device.write(case.buffers[name], original)
                return name
        return ""


def timed_case(problem: Problem, name: str) -> InputCase:
    """Return the case that is timed: by name, or the operator's first.

    Raises:
        TrialError: The problem has no case of that name.
    """
    for case in problem.cases:
        if name in ("", case.name):
            return case
    raise TrialError(f"the operator has no input case {name!r}")


def _bits(array: Array) -> NDArray[Any]:
    """Return an array's memory in wide words, to be compared bit by bit."""
    flat = _bytes(array)
    return flat.view(np.uint64) if flat.nbytes % 8 == 0 else flat


def _bytes(array: Array) -> NDArray[np.uint8]:
    """Return an array's elements as bytes; what lies between them, in a view, is left out."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
