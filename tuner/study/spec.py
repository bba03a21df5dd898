"""Study files: TOML in, a checked ``StudySpec`` out, or one line that says what is wrong.

Pydantic stays at this edge. Everything behind it sees frozen dataclasses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from pydantic import ValidationError

from tuner.domain.identity import Plain
from tuner.domain.identity import Scalar
from tuner.domain.protocol import Limits
from tuner.domain.protocol import Protocol
from tuner.domain.protocol import QuickStage
from tuner.domain.space import Grid
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.operator import Implementation
from tuner.operator import Operator
from tuner.study.spec_errors import check_depth
from tuner.study.spec_errors import KeyPath
from tuner.study.spec_errors import nearest
from tuner.study.spec_errors import shown
from tuner.study.spec_errors import SpecSource
from tuner.study.spec_errors import translate
from tuner.study.spec_model import known_keys
from tuner.study.spec_model import SCHEMA_VERSION
from tuner.study.spec_model import study_schema
from tuner.study.spec_model import StudyFile

__all__ = [
    "Budget",
    "SearchSettings",
    "StudySpec",
    "check_against",
    "load_study",
    "parse_study",
    "study_schema",
]

# Far above any study, and the worst that fits is refused within a second.
MAX_FILE_BYTES = 256_000


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What proposes configs and how many.

    Attributes:
        sampler: ``auto`` or one of the names in ``samplers``.
        seed: Of the sampler.
        exhaustive_limit: ``auto`` tries every config where at most so many are allowed, per
            workload and implementation.
        trials: Configs per workload and implementation where not all are tried.
        finalists: Most configs per workload that are measured by the full protocol.
        within: How many times as long as the fastest a finalist may have taken in the quick
            stage.
    """

    sampler: str
    seed: int
    exhaustive_limit: int
    trials: int
    finalists: int
    within: float


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop early. None: when the plan is done."""

    trials: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StudySpec:
    """A study file, checked, with defaults filled in.

    Attributes:
        name: Of the study.
        description: One line for people.
        operator: Name of the operator.
        device: ``auto``, ``cpu``, ``cuda:N`` or ``hip:N``.
        shapes: Shapes to tune, in order.
        dtype: Element type.
        row_padding: Elements between the end of a row and the next one.
        scalars: Scalar arguments that differ from the operator's defaults.
        space: Values of parameters by implementation; None for all the operator has.
        search: What proposes configs.
        protocol: Full measurement of the finalists.
        quick: Short measurement that ranks.
        limits: Deadlines of a trial.
        budget: When to stop early.
        source: The file's text, for messages.
    """

    name: str
    description: str
    operator: str
    device: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    row_padding: int
    scalars: Mapping[str, float]
    space: Mapping[str, Grid] | None
    search: SearchSettings
    protocol: Protocol
    quick: QuickStage
    limits: Limits
    budget: Budget
    source: SpecSource = field(compare=False, repr=False)

    def as_plain(self) -> dict[str, Plain]:
        """Return everything that fixes the study's answers; equal for files of equal meaning.

        The budget is left out: it says how long to work on the question, not what it is, and
        raising it must go on with the same study.
        """
        space = self.space
        return {
            "schema": SCHEMA_VERSION,
            "name": self.name,
            "description": self.description,
            "operator": self.operator,
            "device": self.device,
            "shapes": [shape_text(shape) for shape in self.shapes],
            "dtype": self.dtype,
            # Absent where there is none: files from before there was such a key mean the same.
            **({"row_padding": self.row_padding} if self.row_padding else {}),
            "scalars": dict(self.scalars),
            "space": None
            if space is None
            else {
                name: {parameter: list(values) for parameter, values in grid.items()}
                for name, grid in space.items()
            },
            "search": asdict(self.search),
            "protocol": self.protocol.as_plain(),
            "quick": asdict(self.quick),
            "limits": asdict(self.limits),
        }

    def workloads(self, operator: Operator) -> tuple[Workload, ...]:
        """Return the workloads in the order of the file.

        Raises:
            UsageError: As ``check_against``.
        """
        check_against(self, operator)
        return tuple(self.workload(operator, shape) for shape in self.shapes)

    def workload(self, operator: Operator, shape: tuple[int, ...]) -> Workload:
        """Return the workload of one shape; what it needs of the file must have been checked."""
        return operator.workload(shape, self.dtype, self.scalars, self.row_padding)

    def implementations(self, operator: Operator) -> tuple[Implementation, ...]:
        """Return the implementations that take part, in the operator's order.

        Raises:
            UsageError: As ``check_against``.
        """
        check_against(self, operator)
        space = self.space
        return tuple(
            each for each in operator.implementations if space is None or each.name in space
        )


def load_study(path: Path) -> StudySpec:
    """Read and check a study file.

    Raises:
        UsageError: It can't be read, is too large, is not UTF-8 TOML, or is not a sound study.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such study file", hint="give the path of a .toml file")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(
            f"{path}: larger than {MAX_FILE_BYTES} bytes", hint="is this a study file at all?"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text", hint="save it as UTF-8") from error
    return parse_study(text, str(path))


def parse_study(text: str, origin: str) -> StudySpec:
    """Check the text of a study file.

    Args:
        text: TOML.
        origin: What to call it in messages, usually its path.

    Raises:
        UsageError: ``FILE:LINE: key 'a.b': what is wrong``, with the remedy as its hint.
    """
    source = SpecSource(origin, text)
    if len(text) > MAX_FILE_BYTES:
        raise UsageError(f"{origin}: larger than {MAX_FILE_BYTES} characters")
    check_depth(source)
    try:
        plain = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and int() of more than 4300 digits
        raise source.syntax_fault(error) from error
    if "recorded" in plain:
        raise source.fault(
            ("recorded",),
            "this file records evidence, it is not a study",
            f"store it with: tuner import {origin}",
        )
    try:
        return _from_model(StudyFile.model_validate(plain), source)
    except ValidationError as error:
        raise translate(source, error.errors(include_url=False), known_keys()) from error


def check_against(spec: StudySpec, operator: Operator) -> None:
    """Check what only the operator knows: dimensions, dtype, scalars, implementations, values.

    Raises:
        UsageError: With the line of the study file.
    """
    fault = spec.source.fault
    if spec.dtype not in operator.tolerances:
        raise fault(
            ("dtype",),
            f"{operator.name} does not support {shown(spec.dtype)}",
            nearest(spec.dtype, operator.tolerances),
        )
    for name in spec.scalars:
        if name not in operator.scalars:
            raise fault(
                ("scalars", name),
                f"{operator.name} has no such scalar argument",
                nearest(name, operator.scalars),
            )
    for index, shape in enumerate(spec.shapes):
        if len(shape) != len(operator.dims):
            raise fault(
                ("shapes", index),
                f"{operator.name} takes {len(operator.dims)} dimensions, "
                f"{shape_text(shape)} has {len(shape)}",
                f"write {'x'.join(operator.dims)}",
            )
    if spec.row_padding and len(operator.dims) == 1:
        raise fault(("row_padding",), f"{operator.name} has no rows to pad", "leave the key out")
    cases = [case.name for case in operator.cases]
    if spec.protocol.input_case and spec.protocol.input_case not in cases:
        raise fault(
            ("protocol", "input_case"),
            f"{operator.name} has no input case {shown(spec.protocol.input_case)}",
            nearest(spec.protocol.input_case, cases),
        )
    for name, grid in (spec.space or {}).items():
        _check_grid(spec, operator, name, grid)


def _check_grid(spec: StudySpec, operator: Operator, name: str, grid: Grid) -> None:
    known = [each.name for each in operator.implementations]
    if name not in known:
        raise spec.source.fault(
            ("space", name),
            f"{operator.name} has no such implementation",
            nearest(name, known),
        )
    if not grid:
        return
    own_types = _parameter_types(spec, operator, operator.implementation(name))
    for parameter, values in grid.items():
        path: KeyPath = ("space", name, parameter)
        if parameter not in own_types:
            raise spec.source.fault(
                path, f"{name} has no such parameter", nearest(parameter, own_types)
            )
        for index, value in enumerate(values):
            if type(value) not in own_types[parameter]:
                raise spec.source.fault(
                    (*path, index),
                    f"{shown(value)} is not of the parameter's type, "
                    f"{_type_words(own_types[parameter])}",
                    f"{name} itself has values such as {_example(spec, operator, path)}",
                )


def _parameter_types(
    spec: StudySpec, operator: Operator, implementation: Implementation
) -> dict[str, set[type[Scalar]]]:
    """Return the types of each parameter's own values, over all shapes of the study."""
    types: dict[str, set[type[Scalar]]] = {}
    for shape in spec.shapes:
        dims = operator.dimensions(spec.workload(operator, shape))
        for parameter, values in implementation.parameters(dims).items():
            types.setdefault(parameter, set()).update(type(value) for value in values)
    return types


def _type_words(types: set[type[Scalar]]) -> str:
    words = {
        bool: "true or false",
        int: "a whole number",
        float: "a decimal number",
        str: "a string",
    }
    return " or ".join(sorted(words[each] for each in types)) or "unknown"


def _example(spec: StudySpec, operator: Operator, path: KeyPath) -> str:
    dims = operator.dimensions(spec.workload(operator, spec.shapes[0]))
    grid = operator.implementation(str(path[1])).parameters(dims)
    return ", ".join(shown(value) for value in list(grid.get(str(path[2]), ()))[:3])


def _from_model(model: StudyFile, source: SpecSource) -> StudySpec:
    limits = model.limits
    return StudySpec(
        name=model.name,
        description=model.description,
        operator=model.operator,
        device=model.device,
        shapes=tuple(parse_shape(text) for text in model.shapes),
        dtype=model.dtype,
        row_padding=model.row_padding,
        scalars=dict(model.scalars),
        space=None
        if model.space is None
        else {
            name: {parameter: tuple(values) for parameter, values in grid.items()}
            for name, grid in model.space.items()
        },
        search=SearchSettings(**model.search.model_dump()),
        protocol=Protocol(**model.protocol.model_dump()),
        quick=QuickStage(**model.quick.model_dump()),
        limits=Limits(limits.build_timeout_s, limits.run_timeout_s),
        budget=Budget(limits.budget_trials, limits.budget_s),
        source=source,
    )
