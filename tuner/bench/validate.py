"""Compares the whole output of an executable with the reference.

Inputs are kept on the device for all trials of a problem; the output is filled with NaN before
each check, so that a kernel that writes nothing can't inherit an earlier, right result.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Literal
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.bench.compare import Comparison
from tuner.bench.device_compare import Comparing
from tuner.bench.device_compare import open_comparer
from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.inputs import array_bytes
from tuner.bench.inputs import make_inputs
from tuner.domain.job import InputCase
from tuner.domain.job import Problem
from tuner.domain.records import ValidationReport
from tuner.errors import OutOfDeviceMemory
from tuner.errors import TrialError
from tuner.errors import UsageError

NAN_BYTE = 0xFF  # every byte 0xFF is a NaN in all IEEE formats and in bfloat16

Reference = Callable[..., tuple[NDArray[np.float64], ...]]


class Bindable(Protocol):
    """What can be launched once it has buffers: an executable of any language."""

    def bind(self, buffers: dict[str, Buffer]) -> Launch:
        """Return a launch on these buffers."""


@dataclass(frozen=True, slots=True)
class CheckCase:
    """An input case on the device: its inputs there and here, and the expected outputs.

    Attributes:
        case: Which.
        seed: Of its inputs.
        buffers: Inputs on the device.
        inputs: Inputs on the host.
        expected: Outputs of the reference, on the host.
        comparisons: Outputs to compare on the device; none where the host compares.
        digests: Checksums on the device: of the inputs, of scratch that is zero, of the
            reference.
    """

    case: InputCase
    seed: int
    buffers: dict[str, Buffer]
    inputs: dict[str, Array]
    expected: dict[str, NDArray[np.float64]]
    comparisons: tuple[Comparing, ...] = ()
    digests: tuple[int, ...] = ()


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
        # Read into again and again: new memory would cost more than the copy.
        self._host = {spec.name: np.empty(spec.shape, spec.dtype) for spec in problem.arrays}
        self._written = {
            spec.name: device.allocate(array_bytes(spec))
            for spec in problem.arrays
            if spec.role != "input"
        }
        self._comparer = open_comparer(device, 3 * len(problem.arrays))

    def case(self, case: InputCase, seed: int) -> CheckCase:
        """Return a case's inputs on the device, made at first use."""
        key = (case.name, seed)
        if key not in self._cases:
            self._cases[key] = self._make_case(case, seed)
        return self._cases[key]

    def buffers(self, case: CheckCase) -> dict[str, Buffer]:
        """Return a case's input buffers with those for output and scratch, for a launch."""
        return {**case.buffers, **self._written}

    def check(
        self,
        executable: Bindable,
        case: CheckCase,
        phase: Literal["before", "after"],
        *,
        on_host: bool = False,
    ) -> ValidationReport:
        """Launch once on NaN-filled outputs and compare everything.

        What the device finds right is right, unless the host is to have the last word.

        Raises:
            DeviceFault: The kernel broke the device context.
            LaunchFailed: The device refused the launch.
        """
        for spec in self._problem.arrays:
            if spec.role != "input":
                byte = NAN_BYTE if spec.role == "output" else 0
                self._device.fill(self._written[spec.name], byte)
        self._device.launch(executable.bind(self.buffers(case)))
        comparison = None if on_host else self._right_on_device(case)
        message = ""
        if comparison is None:
            changed = self._changed_on_host(case)
            comparison = self._compare_on_host(case)
            message = f"the kernel changed its input {changed}" if changed else comparison.message
            message = message or self._scratch_problem()
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
        if self._comparer is not None:
            self._comparer.close()
        for case in self._cases.values():
            for buffer in case.buffers.values():
                self._device.free(buffer)
            for each in case.comparisons:
                self._device.free(each.expected)
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
        expected = self._expected(inputs)
        comparisons = self._put_on_device(expected)
        digests: tuple[int, ...] = ()
        if comparisons and self._comparer is not None:
            for spec in self._problem.arrays:
                if spec.role == "scratch":
                    self._device.fill(self._written[spec.name], 0)
            unchanging = self._unchanging(buffers, comparisons)
            digests = self._comparer.ask((), unchanging).digests
        return CheckCase(case, seed, buffers, inputs, expected, comparisons, digests)

    def _put_on_device(self, expected: dict[str, NDArray[np.float64]]) -> tuple[Comparing, ...]:
        """Copy a reference to the device; nothing where there is no way or no room."""
        comparer, tolerance = self._comparer, self._problem.tolerance
        outputs = [spec for spec in self._problem.arrays if spec.role == "output"]
        if comparer is None or not all(comparer.can_compare(spec.dtype) for spec in outputs):
            return ()
        put: list[Comparing] = []
        try:
            for spec in outputs:
                values = np.ascontiguousarray(expected[spec.name])
                buffer = self._device.allocate(values.nbytes)
                actual = self._written[spec.name]
                put.append(Comparing(actual, buffer, spec.dtype, values.size, tolerance))
                self._device.write(buffer, values)
        except OutOfDeviceMemory:
            for each in put:
                self._device.free(each.expected)
            return ()
        return tuple(put)

    def _unchanging(
        self, inputs: dict[str, Buffer], comparisons: Sequence[Comparing]
    ) -> list[Buffer]:
        """Return the buffers that a kernel leaves as it finds them, the reference included."""
        roles = {spec.name: spec.role for spec in self._problem.arrays}
        scratch = [buffer for name, buffer in self._written.items() if roles[name] == "scratch"]
        return [*inputs.values(), *scratch, *(each.expected for each in comparisons)]

    def _right_on_device(self, case: CheckCase) -> Comparison | None:
        """Return the errors of outputs that are right; None where the host must look."""
        if self._comparer is None or not case.comparisons:
            return None
        unchanging = self._unchanging(case.buffers, case.comparisons)
        answers = self._comparer.ask(case.comparisons, unchanging)
        if answers.digests != case.digests or any(each.mismatches for each in answers.found):
            return None
        absolute = [each.max_abs_error for each in answers.found if each.max_abs_error is not None]
        relative = [each.max_rel_error for each in answers.found if each.max_rel_error is not None]
        return Comparison(max(absolute, default=None), max(relative, default=None))

    def _compare_on_host(self, case: CheckCase) -> Comparison:
        comparison = Comparison()
        for spec in self._problem.arrays:
            if spec.role == "output":
                actual = self._host[spec.name]
                self._device.read(self._written[spec.name], actual)
                comparison.add(spec.name, actual, case.expected[spec.name], self._problem.tolerance)
        return comparison

    def _expected(self, inputs: dict[str, Array]) -> dict[str, NDArray[np.float64]]:
        wide = {name: array.astype(np.float64) for name, array in inputs.items()}
        names = [spec.name for spec in self._problem.arrays if spec.role == "output"]
        with np.errstate(all="ignore"):
            results = self._reference(**wide, **self._problem.scalars)
        return dict(zip(names, results, strict=True))

    def _scratch_problem(self) -> str:
        """Return which scratch array a kernel left other than it found it, or ""."""
        for spec in self._problem.arrays:
            if spec.role == "scratch":
                now = self._host[spec.name]
                self._device.read(self._written[spec.name], now)
                if np.any(_bits(now)):
                    return f"the kernel left its scratch {spec.name} not zero"
        return ""

    def changed_input(self, case: CheckCase) -> str:
        """Return the name of an input that a kernel wrote to, or ""; put it right again."""
        if self._comparer is not None and case.comparisons:
            inputs = list(case.buffers.values())
            if self._comparer.ask((), inputs).digests == case.digests[: len(inputs)]:
                return ""
        return self._changed_on_host(case)

    def _changed_on_host(self, case: CheckCase) -> str:
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
    flat = array.reshape(-1).view(np.uint8)
    return flat.view(np.uint64) if flat.nbytes % 8 == 0 else flat
