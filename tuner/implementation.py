"""The arrays of an operator and the kernels that do its job, as its folder declares them."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from typing import TypeAlias

from tuner.domain import constraints
from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import Scalar
from tuner.domain.job import ArraySpec
from tuner.domain.job import LaunchGeometry
from tuner.domain.space import Constraint
from tuner.domain.space import Dims
from tuner.domain.space import Grid
from tuner.domain.workload import Workload

Constants: TypeAlias = Callable[[Config, Dims], Mapping[str, Scalar]]
Geometry: TypeAlias = Callable[[Config, Dims], LaunchGeometry]


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument.

    Attributes:
        name: As the implementations' ``arguments`` call it.
        shape: Names of dimensions; a function of the dimensions gives the sizes of a scratch.
        role: ``input``, ``output``, ``scratch`` or ``intermediate``; see ``ArraySpec``.
        dtype: NumPy name; "" for the workload's.
    """

    name: str
    shape: tuple[str, ...] | Callable[[Dims], tuple[int, ...]]
    role: Literal["input", "output", "scratch", "intermediate"] = "input"
    dtype: str = ""

    @property
    def has_rows(self) -> bool:
        """Tell whether the array has a row stride: an input or output of several dimensions."""
        is_data = self.role in ("input", "output")
        return is_data and isinstance(self.shape, tuple) and len(self.shape) > 1

    def spec(self, dims: Dims, workload: Workload) -> ArraySpec:
        """Return the array of a workload with these dimensions."""
        if isinstance(self.shape, tuple):
            shape = tuple(dims[name] for name in self.shape)
        else:
            shape = self.shape(dims)
        padding = workload.row_padding if self.has_rows else 0
        return ArraySpec(self.name, shape, self.dtype or workload.dtype, self.role, padding)


@dataclass(frozen=True, slots=True)
class Step:
    """A further launch of an implementation: it begins when the one before has ended.

    Attributes:
        entry: Name of the kernel function, in the implementation's source file.
        arguments: As those of ``Implementation``.
        geometry: Grid, threads and shared memory of a config.
        constants: Macros (HIP) or constexpr arguments (Triton) of a config.
    """

    entry: str
    arguments: tuple[str, ...]
    geometry: Geometry
    constants: Constants = lambda _config, _dims: {}


@dataclass(frozen=True, slots=True)
class Implementation:
    """One kernel that does the operator's job, with everything needed to launch it.

    Attributes:
        name: E.g. ``hip-block``; unique within the operator.
        language: ``hip`` or ``triton``.
        source: Kernel file, relative to the operator's folder.
        entry: Name of the kernel function.
        arguments: Kernel parameters in call order: array, dimension, stride and scalar names.
            Dimensions are 64-bit unless written ``cols:int32``, and so are ``x_stride``, the
            elements from one row of the array ``x`` to the next; scalars are float32.
        parameters: Values of each tunable parameter for a problem's dimensions.
        default: The config an expert would write down first; tried first.
        geometry: Grid, threads and shared memory of a config.
        constants: Macros (HIP) or constexpr arguments (Triton) of a config.
        options: Compiler options of a config (Triton: ``num_warps``, ``num_stages``).
        rules: Constraints beyond those that hold for every kernel of the language.
        then: Further launches, in order; the times and checks are of all of them together.
        extra_bytes: Bytes that the launches move beyond the job's fewest, such as those of an
            intermediate array, which is written and read again.
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
    geometry: Geometry
    constants: Constants = lambda _config, _dims: {}
    options: Callable[[Config], Mapping[str, Scalar]] = lambda _config: {}
    rules: tuple[Constraint, ...] = ()
    then: tuple[Step, ...] = ()
    extra_bytes: Callable[[Dims], int] = lambda _dims: 0
    prior: Callable[[Config, Dims, DeviceFacts], float] = lambda _config, _dims, _facts: 0.0
    description: str = ""

    @property
    def entries(self) -> tuple[str, ...]:
        """The kernel functions of all launches, in order."""
        return (self.entry, *(step.entry for step in self.then))

    @property
    def passed(self) -> tuple[str, ...]:
        """What all launches are passed, as ``arguments`` has it."""
        return (*self.arguments, *(text for step in self.then for text in step.arguments))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The implementation's own rules, then those of its language, for every launch."""
        found = list(self.rules)
        if self.language == "triton":
            found.append(Constraint("threads_per_block", constraints.triton_threads))
        for geometry in (self.geometry, *(step.geometry for step in self.then)):
            if self.language != "triton":
                found.append(constraints.hip_threads(geometry))
            found.append(constraints.shared_memory(geometry))
            found.append(constraints.grid_limits(geometry, self.language))
        return tuple(found)
