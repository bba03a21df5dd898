"""What an operator is, and how its folder is loaded by path.

An operator's folder holds ``operator.py`` with a module-level ``OPERATOR``, its reference and
its kernel sources. This module names those files and imports only ``operator.py``.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Literal

from tuner.domain import constraints
from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import Scalar
from tuner.domain.job import ArraySpec
from tuner.domain.job import Fill
from tuner.domain.job import InputCase
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import Problem
from tuner.domain.job import Tolerance
from tuner.domain.space import Constraint
from tuner.domain.space import Dims
from tuner.domain.space import Grid
from tuner.domain.workload import shape_text
from tuner.domain.workload import Workload
from tuner.errors import UsageError
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
    "Tolerance",
    "constraints",
    "load_operator",
]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument.

    Attributes:
        name: As the implementations' ``arguments`` call it.
        shape: Names of dimensions; a function of the dimensions gives the sizes of a scratch.
        role: ``input``, ``output`` or ``scratch``; see ``ArraySpec``.
        dtype: NumPy name; "" for the workload's.
    """

    name: str
    shape: tuple[str, ...] | Callable[[Dims], tuple[int, ...]]
    role: Literal["input", "output", "scratch"] = "input"
    dtype: str = ""

    def spec(self, dims: Dims, dtype: str) -> ArraySpec:
        """Return the array of a workload with these dimensions and this dtype."""
        if isinstance(self.shape, tuple):
            shape = tuple(dims[name] for name in self.shape)
        else:
            shape = self.shape(dims)
        return ArraySpec(self.name, shape, self.dtype or dtype, self.role)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One kernel that does the operator's job, with everything needed to launch it.

    Attributes:
        name: E.g. ``hip-block``; unique within the operator.
        language: ``hip`` or ``triton``.
        source: Kernel file, relative to the operator's folder.
        entry: Name of the kernel function.
        arguments: Kernel parameters in call order: array, dimension and scalar names.
            Dimensions are 64-bit unless written ``cols:int32``; scalars are float32.
        parameters: Values of each tunable parameter for a problem's dimensions.
        default: The config an expert would write down first; tried first.
        geometry: Grid, threads and shared memory of a config.
        constants: Macros (HIP) or constexpr arguments (Triton) of a config.
        options: Compiler options of a config (Triton: ``num_warps``, ``num_stages``).
        rules: Constraints beyond those that hold for every kernel of the language.
        prior: A cost model: the logarithm of the time that is expected of an allowed config, up
            to a constant. The sampler ``guided`` begins with the smallest and corrects it as
            times come in; without one all configs are alike to it.
        description: One line for ``tuner operators``.
    """

    name: str
    language: str
    source: str
    entry: str
    arguments: tuple[str, ...]
    parameters: Callable[[Dims], Grid]
    default: Callable[[Dims, DeviceFacts], Config]
    geometry: Callable[[Config, Dims], LaunchGeometry]
    constants: Callable[[Config, Dims], Mapping[str, Scalar]] = lambda _config, _dims: {}
    options: Callable[[Config], Mapping[str, Scalar]] = lambda _config: {}
    rules: tuple[Constraint, ...] = ()
    prior: Callable[[Config, Dims, DeviceFacts], float] = lambda _config, _dims, _facts: 0.0
    description: str = ""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The implementation's own rules, then those of its language."""
        if self.language == "triton":
            threads = Constraint("threads_per_block", constraints.triton_threads)
        else:
            threads = constraints.hip_threads(self.geometry)
        return (
            *self.rules,
            threads,
            constraints.shared_memory(self.geometry),
            constraints.grid_limits(self.geometry, self.language),
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """A mathematical job with its arrays, reference, tolerances and implementations.

    Attributes:
        name: Equal to the folder's name.
        dims: Names of the shape's dimensions, e.g. ``("rows", "cols")``.
        arrays: Array arguments.
        scalars: Scalar arguments with their defaults.
        tolerances: For each supported dtype.
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
        """Return the workload's sizes by dimension name."""
        return dict(zip(self.dims, workload.shape, strict=True))

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
    ) -> Workload:
        """Build and check a workload of this operator; scalars default to the operator's.

        Raises:
            UsageError: Wrong number of dimensions, unknown dtype or unknown scalar.
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
        return Workload(self.name, tuple(shape), dtype, tuple(values.items()))

    def source(self, implementation: Implementation) -> KernelSource:
        """Read the implementation's source text from the operator's folder."""
        return read_kernel_source(
            self.directory, implementation.source, implementation.entry, implementation.language
        )

    def workload_bytes(self, workload: Workload) -> int:
        """Return the fewest bytes the workload moves."""
        return self.bytes_moved(self.dimensions(workload), _ITEM_BYTES[workload.dtype])

    def kernel(
        self,
        implementation: Implementation,
        source: KernelSource,
        config: Config,
        workload: Workload,
    ) -> Kernel:
        """Return the kernel to build for a config, as plain values."""
        dims = self.dimensions(workload)
        return Kernel(
            language=implementation.language,
            files=source.files,
            main=source.main,
            entry=source.entry,
            constants=dict(implementation.constants(config, dims)),
            options=dict(implementation.options(config)),
            arguments=tuple(
                self._argument(text, dims, workload) for text in implementation.arguments
            ),
            geometry=implementation.geometry(config, dims),
        )

    def argument_violation(self, implementation: Implementation, workload: Workload) -> str:
        """Return why a dimension does not fit its kernel argument, or ""."""
        dims = self.dimensions(workload)
        for text in implementation.arguments:
            argument = self._argument(text, dims, workload)
            limit = constraints.INT_LIMITS.get(argument.type)
            if limit is not None and argument.value is not None and argument.value > limit:
                return f"{argument.name} {argument.value} > {limit} of its {argument.type} argument"
        return ""

    def problem(self, workload: Workload) -> Problem:
        """Return what a worker needs to make inputs and check outputs, as plain values."""
        dims = self.dimensions(workload)
        return Problem(
            arrays=tuple(each.spec(dims, workload.dtype) for each in self.arrays),
            cases=self.cases,
            scalars=dict(workload.scalars),
            tolerance=self.tolerances[workload.dtype],
            reference_path=str(self.directory / "reference.py"),
            reference_function=self.reference,
        )

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
        UsageError: The folder has no operator.py, or it does not declare a sound OPERATOR.
    """
    path = directory / "operator.py"
    if not path.is_file():
        raise UsageError(
            f"{directory} is not an operator: it has no operator.py",
            hint="see docs/add-an-operator.md",
        )
    declared = getattr(_load_module(path), "OPERATOR", None)
    if not isinstance(declared, Operator):
        raise UsageError(f"{path} does not define OPERATOR = Operator(...)")
    _check_operator(declared, path)
    object.__setattr__(declared, "directory", directory.resolve())
    return declared


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
    except Exception as error:
        raise UsageError(f"{path} fails when loaded: {type(error).__name__}: {error}") from error
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
    known = {*operator.dims, *operator.scalars, *(each.name for each in operator.arrays)}
    for each in operator.implementations:
        if each.language not in ("hip", "triton"):
            raise UsageError(f"{path}: {each.name} has the unknown language {each.language!r}")
        for argument in each.arguments:
            if argument.partition(":")[0] not in known:
                raise UsageError(f"{path}: {each.name} passes {argument!r}, which is not declared")
