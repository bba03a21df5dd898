"""The configs an implementation allows, and named constraints that say why one is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import Scalar

Dims: TypeAlias = Mapping[str, int]
Grid: TypeAlias = Mapping[str, Sequence[Scalar]]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A named rule. ``check`` returns why the config is refused, or "" where it is allowed."""

    name: str
    check: Callable[[Config, Dims, DeviceFacts], str]


@dataclass(frozen=True, slots=True)
class Violation:
    """The constraint a config breaks, and the reason in words."""

    constraint: str
    reason: str

    def __str__(self) -> str:
        return f"{self.constraint}: {self.reason}"


def grid_size(grid: Grid) -> int:
    """Return how many configs a grid of parameter values has."""
    return math.prod(len(values) for values in grid.values())


def grid_configs(grid: Grid) -> Iterator[dict[str, Scalar]]:
    """Yield every combination of the parameters' values, the last parameter fastest."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def first_violation(
    config: Config, dims: Dims, facts: DeviceFacts, constraints: Sequence[Constraint]
) -> Violation | None:
    """Return the first constraint the config breaks, or None."""
    for constraint in constraints:
        reason = constraint.check(config, dims, facts)
        if reason:
            return Violation(constraint.name, reason)
    return None


def next_power_of_two(value: int) -> int:
    """Return the smallest power of two that is at least ``value``."""
    return 1 << max(0, value - 1).bit_length()


def is_power_of_two(value: Scalar) -> bool:
    """Tell whether a value is a whole number 1, 2, 4, 8, ... (True is not a number here)."""
    return type(value) is int and value > 0 and value & (value - 1) == 0
