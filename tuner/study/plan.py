"""The plan of a study: which configs are tried on which workload, and which are refused.

Pure: the same file, operator and device always give the same plan, so that a resumed study
finds exactly the trials that are missing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import Scalar
from tuner.domain.space import first_violation
from tuner.domain.space import Grid
from tuner.domain.space import grid_configs
from tuner.domain.space import grid_size
from tuner.domain.space import Violation
from tuner.domain.study import SkippedPoint
from tuner.domain.study import TrialPoint
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.operator import Implementation
from tuner.operator import Operator
from tuner.study.ahead import LEARNING_AHEAD
from tuner.study.samplers import check_available
from tuner.study.samplers import EXHAUSTIVE
from tuner.study.samplers import GUIDED
from tuner.study.samplers import LEARNING
from tuner.study.searchable import config_key
from tuner.study.spec import SearchSettings
from tuner.study.spec import StudySpec

# `auto` lists every point of a grid, refused ones included, up to this size.
MAX_LISTED_GRID = 4096
# A sampled grid is looked through for allowed configs up to this many points (about 1 s).
MAX_SCANNED = 200_000


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The configs of one implementation on one workload and device.

    Attributes:
        workload: What is to be solved.
        implementation: Name of the implementation.
        grid: Values of each parameter, the study's own where it gives some.
        default: Tried first; None where no config is allowed.
        sampler: One of the names in ``samplers``.
        trials: How many configs will be tried.
        rules: Says which constraint a config breaks.
    """

    workload: Workload
    implementation: str
    grid: Grid
    default: Config | None
    sampler: str
    trials: int
    rules: Rules

    @property
    def size(self) -> int:
        """Points of the grid, refused ones included."""
        return grid_size(self.grid)

    def is_allowed(self, config: Config) -> bool:
        """Tell whether no constraint refuses a config."""
        return self.rules.violation(config) is None

    def allowed(self) -> Iterator[Config]:
        """Yield the allowed configs once each, the default first.

        A space that is searched exhaustively is walked in the order of its grid. A sampled one
        is walked in a scattered order, and no further than ``MAX_SCANNED`` points.
        """
        if self.default is None:
            return
        yield self.default
        first = config_key(self.default)
        for config in _walk(self.grid, scattered=self.sampler != EXHAUSTIVE):
            if self.is_allowed(config) and config_key(config) != first:
                yield config

    def prior(self, config: Config) -> float:
        """Return what the implementation's cost model expects; see ``Implementation.prior``."""
        return self.rules.implementation.prior(config, self.rules.dims, self.rules.facts)

    def point(self, config: Config) -> TrialPoint:
        """Return the trial point of a config of this space."""
        return TrialPoint(self.workload, self.implementation, config)


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that can refuse a config of an implementation on a workload and device."""

    implementation: Implementation
    workload: Workload
    dims: dict[str, int]
    facts: DeviceFacts
    argument_violation: str

    def violation(self, config: Config) -> Violation | None:
        """Return the first constraint a config breaks.

        A language that the device can't build, and an argument that doesn't fit, refuse all.
        """
        why_not = self.facts.languages.get(self.implementation.language)
        if why_not:
            return Violation("language", f"{self.implementation.language}: {why_not}")
        if self.argument_violation:
            return Violation("argument", self.argument_violation)
        return first_violation(config, self.dims, self.facts, self.implementation.constraints)


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """The spaces of the implementations that take part, for one workload."""

    workload: Workload
    spaces: tuple[SearchSpace, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a study will do.

    Attributes:
        workloads: In the order of the study file.
        skipped: Points that constraints refuse. All of them for a space that is searched
            exhaustively; for a sampled one, whose refused points are never proposed, only its
            default where nothing at all is allowed.
        sampler: ``exhaustive`` where every space is, else the sampler of those that are not.
    """

    workloads: tuple[WorkloadPlan, ...]
    skipped: tuple[SkippedPoint, ...]
    sampler: str

    @property
    def spaces(self) -> tuple[SearchSpace, ...]:
        """All spaces, by workload."""
        return tuple(space for each in self.workloads for space in each.spaces)

    @property
    def planned(self) -> int:
        """Trials the study holds when it is finished, skipped ones included."""
        return sum(space.trials for space in self.spaces) + len(self.skipped)


def make_plan(spec: StudySpec, operator: Operator, facts: DeviceFacts) -> Plan:
    """Plan a study on a device.

    Raises:
        UsageError: The study file does not fit the operator, with its line, or the operator's
            default config does not fit its parameters.
        MissingDependency: The sampler needs packages that are not installed.
    """
    check_available(spec.search.sampler)
    implementations = spec.implementations(operator)
    workloads: list[WorkloadPlan] = []
    skipped: list[SkippedPoint] = []
    for workload in spec.workloads(operator):
        spaces = tuple(_space(spec, operator, each, workload, facts) for each in implementations)
        for space in spaces:
            skipped += _skipped(space)
        workloads.append(WorkloadPlan(workload, spaces))
    sampled = {space.sampler for each in workloads for space in each.spaces} - {EXHAUSTIVE}
    return Plan(tuple(workloads), tuple(skipped), sampled.pop() if sampled else EXHAUSTIVE)


def most_builds(spec: StudySpec, operator: Operator) -> int:
    """Return at most how many kernels a study can have built at a time, on whatever device."""
    points = 0
    for workload in spec.workloads(operator):
        for implementation in spec.implementations(operator):
            points += grid_size(_grid(spec, implementation, operator.dimensions(workload)))
        if points > MAX_LISTED_GRID:
            break
    return min(points, LEARNING_AHEAD) if spec.search.sampler in LEARNING else points


def _grid(spec: StudySpec, implementation: Implementation, dims: Mapping[str, int]) -> Grid:
    """Return the values of an implementation's parameters, the study's own where it has some."""
    return {**implementation.parameters(dims), **(spec.space or {}).get(implementation.name, {})}


def _space(
    spec: StudySpec,
    operator: Operator,
    implementation: Implementation,
    workload: Workload,
    facts: DeviceFacts,
) -> SearchSpace:
    dims = operator.dimensions(workload)
    overrides = (spec.space or {}).get(implementation.name, {})
    grid = _grid(spec, implementation, dims)
    rules = Rules(
        implementation,
        workload,
        dims,
        facts,
        operator.argument_violation(implementation, workload),
    )
    default = _default(operator, rules, grid, overrides)
    sampler = _sampler(spec.search, rules, grid)
    space = SearchSpace(workload, implementation.name, grid, default, sampler, 0, rules)
    limit = None if sampler == EXHAUSTIVE else spec.search.trials
    trials = sum(1 for _ in itertools.islice(space.allowed(), limit))
    return SearchSpace(workload, implementation.name, grid, default, sampler, trials, rules)


def _default(operator: Operator, rules: Rules, grid: Grid, overrides: Grid) -> Config | None:
    """Return the implementation's default where it is legal and the study does not exclude it."""
    name = rules.implementation.name
    own = dict(rules.implementation.default(rules.dims, rules.facts))
    if set(own) != set(grid):
        raise UsageError(
            f"operator {operator.name}: the default of {name} sets {', '.join(own) or 'nothing'}, "
            f"its parameters are {', '.join(grid) or 'none'}",
            hint="make default and parameters of the implementation name the same keys",
        )
    is_excluded = any(own[parameter] not in values for parameter, values in overrides.items())
    if not is_excluded and rules.violation(own) is None:
        return own
    return next((config for config in _walk(grid) if rules.violation(config) is None), None)


def _sampler(search: SearchSettings, rules: Rules, grid: Grid) -> str:
    if search.sampler != "auto":
        return search.sampler
    limit = search.exhaustive_limit
    if grid_size(grid) > max(limit, MAX_LISTED_GRID):
        return GUIDED
    allowed = (config for config in grid_configs(grid) if rules.violation(config) is None)
    count = sum(1 for _ in itertools.islice(allowed, limit + 1))
    return EXHAUSTIVE if count <= limit else GUIDED


def _skipped(space: SearchSpace) -> Iterator[SkippedPoint]:
    if space.sampler == EXHAUSTIVE:
        refused: Iterator[Config] = grid_configs(space.grid)
    elif space.default is None:
        own = space.rules.implementation.default(space.rules.dims, space.rules.facts)
        refused = iter([own])
    else:
        return
    for config in refused:
        violation = space.rules.violation(config)
        if violation is not None:
            yield SkippedPoint(space.point(config), str(violation))


def _walk(grid: Grid, *, scattered: bool = False) -> Iterator[Config]:
    """Yield the grid's configs in its order, or in a fixed order that spreads over the grid."""
    size = grid_size(grid)
    if not scattered:
        yield from grid_configs(grid)
        return
    stride = _coprime_stride(size)
    for step in range(min(size, MAX_SCANNED)):
        yield _config_at(grid, step * stride % size)


def _coprime_stride(size: int) -> int:
    """Return a stride near the golden section of a size that visits every index once."""
    stride = max(1, round(size * 0.618))
    while math.gcd(stride, size) != 1:
        stride += 1
    return stride


def _config_at(grid: Grid, index: int) -> Config:
    """Return the config at an index of the grid's order, without walking there."""
    config: dict[str, Scalar] = {}
    for parameter, values in reversed(list(grid.items())):
        index, position = divmod(index, len(values))
        config[parameter] = values[position]
    return {parameter: config[parameter] for parameter in grid}
