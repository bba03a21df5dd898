"""What an operator is, and how its folder is loaded by path.

An operator's folder holds ``operator.py`` with a module-level ``OPERATOR``, its reference and
its kernel sources. This module names those files and imports only ``operator.py``.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import ModuleType

from tuner.domain import constraints
from tuner.domain.device import DeviceFacts
from tuner.domain.dtypes import ELEMENT_CODES
from tuner.domain.dtypes import ELEMENT_TYPES
from tuner.domain.dtypes import rounded_tolerance
from tuner.domain.identity import Config
from tuner.domain.identity import Scalar
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Problem
from tuner.domain.job import Step as KernelStep
from tuner.domain.job import Tolerance
from tuner.domain.space import Constraint
from tuner.domain.space import Dims
from tuner.domain.workload import shape_text
from tuner.domain.workload import Workload
from tuner.errors import BrokenOperator
from tuner.errors import UsageError
from tuner.implementation import Array
from tuner.implementation import Implementation
from tuner.implementation import Step
from tuner.kernel_source import KernelSource
from tuner.kernel_source import read_kernel_source

__all__ = [
    "Array",
    "Constraint",
    "DeviceFacts",
    "Dims",
    "Fill",
    "Implementation",
    "InputCase",
    "LaunchGeometry",
    "Operator",
    "Step",
    "Tolerance",
    "constraints",
    "load_operator",
    "rounded_tolerance",
]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
# Loading replaces the modules of an operator: a second thread must not find them half there.
_LOADING = threading.RLock()
_STRIDE = "_stride"


@dataclass(frozen=True, slots=True)
class Operator:
    """A mathematical job with its arrays, reference, tolerances and implementations.

    Attributes:
        name: Equal to the folder's name.
        dims: Names of the shape's dimensions, e.g. ``("rows", "cols")``.
        arrays: Array arguments.
        scalars: Scalar arguments with their defaults.
        tolerances: For each supported dtype, as ``rounded_tolerance`` derives them.
        cases: Input cases to validate with; the first is timed.
        reference: Function in ``reference.py``: float64 arrays in, float64 outputs out.
        bytes_moved: Fewest bytes the job moves, from dimensions and item size in bytes.
        operations: Floating-point operations of the job.
        implementations: The kernels.
        directory: The folder, set by ``load_operator``.
        description: One line for ``tuner operators``.
    """

    name: str
    dims: tuple[str, ...]
    arrays: tuple[Array, ...]
    tolerances: Mapping[str, Tolerance]
    cases: tuple[InputCase, ...]
    reference: str
    bytes_moved: Callable[[Dims, int], int]
    operations: Callable[[Dims], int]
    implementations: tuple[Implementation, ...]
    scalars: Mapping[str, float] = field(default_factory=dict)
    directory: Path = Path()
    description: str = ""

    def implementation(self, name: str) -> Implementation:
        """Return an implementation by name.

        Raises:
            UsageError: There is none of that name.
        """
        for candidate in self.implementations:
            if candidate.name == name:
                return candidate
        known = ", ".join(each.name for each in self.implementations)
        raise UsageError(
            f"operator {self.name} has no implementation {name!r}", hint=f"it has {known}"
        )

    def dimensions(self, workload: Workload) -> dict[str, int]:
        """Return the whole numbers that an implementation's functions see of a workload.

        The sizes by dimension name; ``item_bytes``, the size of an element; and for each array
        with rows, such as ``x``, its row stride in elements, ``x_stride``.
        """
        sizes = dict(zip(self.dims, workload.shape, strict=True))
        strides = dict.fromkeys(self._strides, workload.row_stride)
        return {**sizes, **strides, "item_bytes": ELEMENT_TYPES[workload.dtype].item_bytes}

    @property
    def _strides(self) -> tuple[str, ...]:
        return tuple(f"{each.name}{_STRIDE}" for each in self.arrays if each.has_rows)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Check that a shape has the operator's dimensions.

        Raises:
            UsageError: It has more or fewer.
        """
        if len(shape) != len(self.dims):
            raise UsageError(
                f"shape {shape_text(shape)}: {self.name} takes {len(self.dims)} dimensions",
                hint=f"write {'x'.join(self.dims)}",
            )

    def workload(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        scalars: Mapping[str, float] | None = None,
        row_padding: int = 0,
    ) -> Workload:
        """Build and check a workload of this operator; scalars default to the operator's.

        Raises:
            UsageError: Wrong number of dimensions, unknown dtype or scalar, impossible padding.
        """
        given = dict(scalars or {})
        self.check_shape(shape)
        if dtype not in self.tolerances:
            raise UsageError(
                f"{self.name} does not support dtype {dtype!r}",
                hint=f"supported: {', '.join(self.tolerances)}",
            )
        for name in given:
            if name not in self.scalars:
                raise UsageError(
                    f"{self.name} has no scalar argument {name!r}",
                    hint=f"it has: {', '.join(self.scalars) or 'none'}",
                )
        values = {name: float(given.get(name, value)) for name, value in self.scalars.items()}
        return Workload(self.name, tuple(shape), dtype, tuple(values.items()), row_padding)

    def source(self, implementation: Implementation) -> KernelSource:
        """Read the implementation's source text from the operator's folder.

        Raises:
            BrokenOperator: It can't be read, or lacks a kernel.
        """
        with _faults_of(self.name):
            return read_kernel_source(
                self.directory,
                implementation.source,
                implementation.entries,
                implementation.language,
            )

    def workload_bytes(self, workload: Workload, implementation: str) -> int:
        """Return the fewest bytes an implementation moves to solve the workload."""
        dims = self.dimensions(workload)
        extra_bytes = self.implementation(implementation).extra_bytes(dims)
        return self.bytes_moved(dims, dims["item_bytes"]) + extra_bytes

    def kernel(
        self,
        implementation: Implementation,
        source: KernelSource,
        config: Config,
        workload: Workload,
    ) -> Kernel:
        """Return the kernel to build for a config, as plain values."""
        dims = self.dimensions(workload)

        def arguments(texts: tuple[str, ...]) -> tuple[KernelArgument, ...]:
            return tuple(self._argument(text, dims, workload) for text in texts)

        fixed = self._element(implementation, workload)
        return Kernel(
            language=implementation.language,
            files=source.files,
            main=source.main,
            entry=source.entry,
            constants={**fixed, **implementation.constants(config, dims)},
            options=dict(implementation.options(config)),
            arguments=arguments(implementation.arguments),
            geometry=implementation.geometry(config, dims),
            then=tuple(
                KernelStep(
                    step.entry,
                    {**fixed, **step.constants(config, dims)},
                    arguments(step.arguments),
                    step.geometry(config, dims),
                )
                for step in implementation.then
            ),
        )

    def argument_violation(self, implementation: Implementation, workload: Workload) -> str:
        """Return why a dimension or the row padding does not fit the kernel, or ""."""
        dims = self.dimensions(workload)
        for text in implementation.passed:
            argument = self._argument(text, dims, workload)
            limit = constraints.INT_LIMITS.get(argument.type)
            if limit is not None and argument.value is not None and argument.value > limit:
                return f"{argument.name} {argument.value} > {limit} of its {argument.type} argument"
        if workload.row_padding:
            names = {text.partition(":")[0] for text in implementation.passed}
            for stride in self._strides:
                if stride.removesuffix(_STRIDE) in names and stride not in names:
                    return f"row padding {workload.row_padding}: the kernel takes no {stride}"
        return ""

    def problem(self, workload: Workload) -> Problem:
        """Return what a worker needs to make inputs and check outputs, as plain values."""
        dims = self.dimensions(workload)
        return Problem(
            arrays=tuple(each.spec(dims, workload) for each in self.arrays),
            cases=self.cases,
            scalars=dict(workload.scalars),
            tolerance=self.tolerances[workload.dtype],
            reference_path=str(self.directory / "reference.py"),
            reference_function=self.reference,
        )

    def _element(self, implementation: Implementation, workload: Workload) -> Mapping[str, Scalar]:
        """Return the macro that tells HIP kernels the dtype; Triton's take it from pointers."""
        if implementation.language != "hip" or len(self.tolerances) == 1:
            return {}
        return {"ELEMENT": ELEMENT_CODES[workload.dtype]}

    def _argument(self, text: str, dims: Dims, workload: Workload) -> KernelArgument:
        name, _, kind = text.partition(":")
        if name in dims:
            return KernelArgument(name, "int32" if kind == "int32" else "int64", dims[name])
        scalars = dict(workload.scalars)
        if name in scalars:
            return KernelArgument(name, "float32", scalars[name])
        array = next(each for each in self.arrays if each.name == name)
        return KernelArgument(name, "buffer", dtype=array.dtype or workload.dtype)


def load_operator(directory: Path) -> Operator:
    """Load ``operator.py`` from a folder by path and check what it declares.

    Raises:
        BrokenOperator: The folder has no operator.py, or it does not declare a sound OPERATOR.
    """
    path = directory / "operator.py"
    with _faults_of(directory.name):
        if not path.is_file():
            raise UsageError(
                f"{directory} is not an operator: it has no operator.py",
                hint="see docs/add-an-operator.md",
            )
        with _LOADING:
            declared = getattr(_load_module(path), "OPERATOR", None)
        if not isinstance(declared, Operator):
            raise UsageError(f"{path} does not define OPERATOR = Operator(...)")
        _check_operator(declared, path)
    object.__setattr__(declared, "directory", directory.resolve())
    return declared


@contextmanager
def _faults_of(name: str) -> Iterator[None]:
    """Say of which operator a fault is."""
    try:
        yield
    except UsageError as error:
        raise BrokenOperator(error.message, hint=error.hint, operator=name) from error


def _load_module(path: Path) -> ModuleType:
    name = f"tuner_operator_{path.parent.name}"
    # A folder of the same name elsewhere may have been loaded before, with files of its own.
    for stale in [each for each in sys.modules if each.startswith(f"{name}.")]:
        del sys.modules[stale]
    # As a package, so that a large operator can be more than one file.
    spec = importlib.util.spec_from_file_location(
        name, path, submodule_search_locations=[str(path.parent)]
    )
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} can't be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is executed
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        fault = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{path} fails when loaded: {fault}") from error
    return module


def _check_operator(operator: Operator, path: Path) -> None:
    if operator.name != path.parent.name:
        raise UsageError(f"{path} declares {operator.name!r}, its folder is {path.parent.name!r}")
    names = [each.name for each in operator.implementations]
    for name in [operator.name, *names]:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{path}: {name!r} is not a name (a-z, 0-9, - and _)")
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: two implementations have the same name")
    _check_dtypes(operator, path)
    arrays = {each.name for each in operator.arrays}
    strides = {f"{each.name}{_STRIDE}" for each in operator.arrays if each.has_rows}
    known = {*operator.dims, *operator.scalars, *arrays, *strides}
    for each in operator.implementations:
        if each.language not in ("hip", "triton"):
            raise UsageError(f"{path}: {each.name} has the unknown language {each.language!r}")
        for argument in each.passed:
            if argument.partition(":")[0] not in known:
                raise UsageError(f"{path}: {each.name} passes {argument!r}, which is not declared")


def _check_dtypes(operator: Operator, path: Path) -> None:
    for dtype in operator.tolerances:
        if dtype not in ELEMENT_TYPES:
            raise UsageError(
                f"{path}: no element type is called {dtype!r}",
                hint=f"there are {', '.join(ELEMENT_TYPES)}",
            )
