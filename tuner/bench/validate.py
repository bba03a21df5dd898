"""Compares the whole output of an executable with the reference.

Inputs are kept on the device for all trials of a problem; the output is filled with NaN before
each check, so that a kernel that writes nothing can't inherit an earlier, right result.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Literal
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.inputs import array_bytes
from tuner.bench.inputs import inputs_hash
from tuner.bench.inputs import make_inputs
from tuner.domain.job import InputCase
from tuner.domain.job import Problem
from tuner.domain.job import Tolerance
from tuner.domain.records import ValidationReport
from tuner.errors import TrialError
from tuner.errors import UsageError

NAN_BYTE = 0xFF  # every byte 0xFF is a NaN in all IEEE formats and in bfloat16

Reference = Callable[..., tuple[NDArray[np.float64], ...]]


class Bindable(Protocol):
    """What can be launched once it has buffers: an executable of any language."""

    def bind(self, buffers: dict[str, Buffer]) -> Launch:
        """Return a launch on these buffers."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Reference outputs and, per output, the largest error allowed at each element."""

    outputs: dict[str, NDArray[np.float64]]
    allowed: dict[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class CheckCase:
    """An input case on the device: buffers, hash of the inputs, expected outputs."""

    case: InputCase
    seed: int
    buffers: dict[str, Buffer]
    inputs: dict[str, Array]
    digest: str
    expected: Expected


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
        self._outputs = {
            spec.name: device.allocate(array_bytes(spec))
            for spec in problem.arrays
            if spec.role == "output"
        }

    def case(self, case: InputCase, seed: int) -> CheckCase:
        """Return a case's inputs on the device, made at first use."""
        key = (case.name, seed)
        if key not in self._cases:
            self._cases[key] = self._make_case(case, seed)
        return self._cases[key]

    def buffers(self, case: CheckCase) -> dict[str, Buffer]:
        """Return a case's input buffers with the output buffers, as a launch needs them."""
        return {**case.buffers, **self._outputs}

    def check(
        self, executable: Bindable, case: CheckCase, phase: Literal["before", "after"]
    ) -> ValidationReport:
        """Launch once on NaN-filled outputs and compare everything.

        Raises:
            DeviceFault: The kernel broke the device context.
            LaunchFailed: The device refused the launch.
        """
        for buffer in self._outputs.values():
            self._device.fill(buffer, NAN_BYTE)
        self._device.launch(executable.bind(self.buffers(case)))
        changed = self.changed_input(case)
        worst = _Worst()
        for spec in self._problem.arrays:
            if spec.role == "output":
                actual = np.empty(spec.shape, spec.dtype)
                self._device.read(self._outputs[spec.name], actual)
                worst.add(
                    spec.name, actual, case.expected.outputs[spec.name],
                    case.expected.allowed[spec.name],
                )  # fmt: skip
        message = f"the kernel changed its input {changed}" if changed else worst.message
        return ValidationReport(
            phase=phase,
            case=case.case.name,
            seed=case.seed,
            passed=not message,
            max_abs_error=worst.max_abs_error,
            max_rel_error=worst.max_rel_error,
            mismatches=worst.mismatches,
            first_bad_index=worst.first_bad_index,
            message=message,
        )

    def close(self) -> None:
        """Free the buffers."""
        for case in self._cases.values():
            for buffer in case.buffers.values():
                self._device.free(buffer)
        for buffer in self._outputs.values():
            self._device.free(buffer)
        self._cases.clear()
        self._outputs.clear()

    def _make_case(self, case: InputCase, seed: int) -> CheckCase:
        inputs = make_inputs(self._problem, case, seed)
        buffers: dict[str, Buffer] = {}
        for name, array in inputs.items():
            buffers[name] = self._device.allocate(array.nbytes)
            self._device.write(buffers[name], array)
        return CheckCase(case, seed, buffers, inputs, inputs_hash(inputs), self._expected(inputs))

    def _expected(self, inputs: dict[str, Array]) -> Expected:
        wide = {name: array.astype(np.float64) for name, array in inputs.items()}
        names = [spec.name for spec in self._problem.arrays if spec.role == "output"]
        with np.errstate(all="ignore"):
            results = self._reference(**wide, **self._problem.scalars)
        outputs = dict(zip(names, results, strict=True))
        tolerance = self._problem.tolerance
        return Expected(
            outputs, {name: _allowed(output, tolerance) for name, output in outputs.items()}
        )

    def changed_input(self, case: CheckCase) -> str:
        """Return the name of an input that a kernel wrote to, or ""; put it right again."""
        for name, original in case.inputs.items():
            now = np.empty_like(original)
            self._device.read(case.buffers[name], now)
            if not np.array_equal(_bits(now), _bits(original)):
                self._device.write(case.buffers[name], original)
                return name
        return ""


@dataclass(slots=True)
class _Worst:
    """The largest errors seen over all outputs of a check."""

    max_abs_error: float | None = None
    max_rel_error: float | None = None
    mismatches: int = 0
    first_bad_index: tuple[int, ...] | None = None
    message: str = ""

    def add(
        self,
        name: str,
        actual: Array,
        expected: NDArray[np.float64],
        allowed: NDArray[np.float64],
    ) -> None:
        """Take in one output. A comparison with NaN is false, so NaN never passes."""
        with np.errstate(all="ignore"):
            error = np.abs(actual - expected)
            wrong = ~(error <= allowed)
            self._note_errors(error, expected)
        count = int(np.count_nonzero(wrong))
        self.mismatches += count
        if count == 0 or self.message:
            return
        index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        self.first_bad_index = tuple(int(part) for part in index)
        value, wanted = float(actual[index]), float(expected[index])
        not_finite = ~np.isfinite(actual) & np.isfinite(expected)
        if not_finite.any():
            bad = np.unravel_index(int(np.argmax(not_finite)), not_finite.shape)
            self.first_bad_index = tuple(int(part) for part in bad)
            self.message = (
                f"non-finite: {np.count_nonzero(not_finite)} of {actual.size} values of {name} "
                f"are NaN or infinite, first at {list(self.first_bad_index)}"
            )
            return
        self.message = (
            f"{count} of {actual.size} values of {name} are outside the tolerance, first at "
            f"{list(self.first_bad_index)}: {value!r} instead of {wanted!r}"
        )

    def _note_errors(self, error: NDArray[Any], expected: NDArray[np.float64]) -> None:
        finite = np.isfinite(error)
        if not finite.any():
            return
        largest = float(np.max(error, where=finite, initial=0.0))
        self.max_abs_error = max(self.max_abs_error or 0.0, largest)
        nonzero = finite & (expected != 0) & np.isfinite(expected)
        if nonzero.any():
            relative = np.divide(error, np.abs(expected), out=np.zeros_like(error), where=nonzero)
            self.max_rel_error = max(self.max_rel_error or 0.0, float(relative.max()))


def is_non_finite(report: ValidationReport) -> bool:
    """Tell whether a failed check found NaN or infinity where the reference has none."""
    return report.message.startswith("non-finite")


def timed_case(problem: Problem, name: str) -> InputCase:
    """Return the case that is timed: by name, or the operator's first.

    Raises:
        TrialError: The problem has no case of that name.
    """
    for case in problem.cases:
        if name in ("", case.name):
            return case
    raise TrialError(f"the operator has no input case {name!r}")


def _allowed(expected: NDArray[np.float64], tolerance: Tolerance) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return tolerance.absolute + tolerance.relative * np.abs(expected)


def _bits(array: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).view(np.uint8)
