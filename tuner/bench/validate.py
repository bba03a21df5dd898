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
from tuner.bench.device_compare import Comparing
from tuner.bench.device_compare import open_comparer
from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import Launch
from tuner.bench.inputs import array_bytes
from tuner.bench.inputs import make_inputs
from tuner.bench.inputs import NAN_BYTE
from tuner.bench.inputs import numpy_dtype
from tuner.bench.inputs import padding_of
from tuner.bench.inputs import rows_of
from tuner.domain.job import ArraySpec
from tuner.domain.job import InputCase
from tuner.domain.job import Problem
from tuner.domain.records import ValidationReport
from tuner.errors import OutOfDeviceMemory
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
    """An input case on the device: its inputs there and here, and the expected outputs.

    Attributes:
        case: Which.
        seed: Of its inputs.
        buffers: Inputs on the device.
        inputs: Inputs on the host.
        expected: Outputs of the reference, on the host.
        comparisons: Outputs to compare on the device; none where the host compares.
        digests: Checksums on the device: of the inputs, then of the reference's outputs.
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
        self._specs = {spec.name: spec for spec in problem.arrays}
        # Read into again and again: new memory would cost more than the copy.
        self._host: dict[str, Array] = {}
        self._written: dict[str, Buffer] = {}
        self._zero_digests: dict[str, int] = {}  # of scratch arrays
        self._comparer = open_comparer(device, 3 * len(problem.arrays))

    def case(self, case: InputCase, seed: int) -> CheckCase:
        """Return a case's inputs on the device, made at first use."""
        key = (case.name, seed)
        if key not in self._cases:
            self._cases[key] = self._make_case(case, seed)
        return self._cases[key]

    def buffers(self, case: CheckCase, names: Collection[str]) -> dict[str, Buffer]:
        """Return a case's buffers for the named arrays, made at first use: not all are needed."""
        return {name: case.buffers.get(name) or self._buffer(name) for name in names}

    def _buffer(self, name: str) -> Buffer:
        """Return the buffer of an array that kernels write, made at first use."""
        if name not in self._written:
            spec = self._specs[name]
            buffer = self._written[name] = self._device.allocate(array_bytes(spec))
            if spec.role == "scratch" and self._comparer is not None:
                self._device.fill(buffer, 0)
                (self._zero_digests[name],) = self._comparer.ask((), [buffer]).digests
        return self._written[name]

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
        outputs = {spec.name for spec in self._problem.arrays if spec.role == "output"}
        # In the order of the problem's arrays, so that messages are the same every time.
        names = executable.array_names | outputs
        buffers = self.buffers(case, [name for name in self._specs if name in names])
        written = [self._specs[name] for name in buffers if name not in case.buffers]
        for spec in written:
            self._device.fill(buffers[spec.name], 0 if spec.role == "scratch" else NAN_BYTE)
        for launch in executable.bind(buffers):
            self._device.launch(launch)
        comparison = None if on_host else self._right_on_device(case, written)
        message = ""
        if comparison is None:
            comparison, message = self._look_on_host(case, written)
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

    def _read(self, buffer: Buffer, spec: ArraySpec) -> Array:
        """Return what a buffer holds, in memory that the next read of this array overwrites."""
        if spec.name not in self._host:
            self._host[spec.name] = np.empty(spec.stored_shape, numpy_dtype(spec.dtype))
        self._device.read(buffer, self._host[spec.name])
        return self._host[spec.name]

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
            references = [each.expected for each in comparisons]
            digests = self._comparer.ask((), [*buffers.values(), *references]).digests
        return CheckCase(case, seed, buffers, inputs, expected, comparisons, digests)

    def _put_on_device(self, expected: dict[str, NDArray[np.float64]]) -> tuple[Comparing, ...]:
        """Copy a reference to the device; nothing where there is no way or no room."""
        comparer, tolerance = self._comparer, self._problem.tolerance
        outputs = [spec for spec in self._problem.arrays if spec.role == "output"]
        if comparer is None or any(
            spec.row_padding or not comparer.can_compare(spec.dtype) for spec in outputs
        ):
            return ()
        put: list[Comparing] = []
        try:
            for spec in outputs:
                values = np.ascontiguousarray(expected[spec.name])
                buffer = self._device.allocate(values.nbytes)
                actual = self._buffer(spec.name)
                put.append(Comparing(actual, buffer, spec.dtype, values.size, tolerance))
                self._device.write(buffer, values)
        except OutOfDeviceMemory:
            for each in put:
                self._device.free(each.expected)
            return ()
        return tuple(put)

    def _right_on_device(self, case: CheckCase, written: Sequence[ArraySpec]) -> Comparison | None:
        """Return the errors of outputs that are right; None where the host must look."""
        if self._comparer is None or not case.comparisons:
            return None
        references = [each.expected for each in case.comparisons]
        scratch = [spec.name for spec in written if spec.role == "scratch"]
        unchanging = [*case.buffers.values(), *references, *map(self._buffer, scratch)]
        answers = self._comparer.ask(case.comparisons, unchanging)
        right = (*case.digests, *(self._zero_digests[name] for name in scratch))
        if answers.digests != right or any(each.mismatches for each in answers.found):
            return None
        absolute = [each.max_abs_error for each in answers.found if each.max_abs_error is not None]
        relative = [each.max_rel_error for each in answers.found if each.max_rel_error is not None]
        return Comparison(max(absolute, default=None), max(relative, default=None))

    def _look_on_host(
        self, case: CheckCase, written: Sequence[ArraySpec]
    ) -> tuple[Comparison, str]:
        """Compare outputs here; return the comparison and what is wrong, or ""."""
        changed, spilled = self._changed_on_host(case), ""
        comparison = Comparison()
        for spec in written:
            if spec.role == "output":
                stored = self._read(self._written[spec.name], spec)
                actual, expected = rows_of(spec, stored), case.expected[spec.name]
                comparison.add(spec.name, actual, expected, self._problem.tolerance)
                if spec.row_padding and not np.all(_bytes(padding_of(spec, stored)) == NAN_BYTE):
                    spilled = spec.name
        message = f"the kernel changed its input {changed}" if changed else comparison.message
        message = message or self._scratch_problem(written)
        if spilled:
            message = message or f"the kernel wrote between the rows of its output {spilled}"
        return comparison, message

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
                now = self._read(self._written[spec.name], spec)
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
            now = self._read(case.buffers[name], self._specs[name])
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
