"""What a search needs to know of a space, be it planned or replayed from a stored study."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from typing import TypeAlias

from tuner.domain.identity import canonical_json
from tuner.domain.identity import Config
from tuner.domain.identity import content_hash
from tuner.domain.identity import Scalar
from tuner.domain.space import Grid
from tuner.domain.workload import Workload

# Configs tried before, in order, with the median each gave in microseconds; None where it failed.
History: TypeAlias = Sequence[tuple[Config, float | None]]


class Searchable(Protocol):
    """The configs of one implementation on one workload."""

    @property
    def workload(self) -> Workload:
        """What is to be solved."""

    @property
    def implementation(self) -> str:
        """Name of the implementation."""

    @property
    def grid(self) -> Grid:
        """Values of each parameter."""

    @property
    def default(self) -> Config | None:
        """Tried first; None where there is none."""

    @property
    def trials(self) -> int:
        """How many configs will be tried."""

    def is_allowed(self, config: Config) -> bool:
        """Tell whether no constraint refuses a config."""

    def allowed(self) -> Iterator[Config]:
        """Yield the allowed configs once each, the default first."""

    def prior(self, config: Config) -> float:
        """Return the logarithm of the expected time, up to a constant; 0.0 where nothing is."""


@dataclass(frozen=True, slots=True)
class NumberedValues:
    """The values of a parameter in the order in which a search sees them.

    Attributes:
        values: Numbers in order, other values as given.
        is_numeric: All are numbers: neighbours in the list are alike.
    """

    values: tuple[Scalar, ...]
    is_numeric: bool

    def position(self, value: Scalar) -> int:
        """Return where a value is; 1, 1.0 and true differ.

        Raises:
            ValueError: It is not there.
        """
        for position, candidate in enumerate(self.values):
            if type(candidate) is type(value) and candidate == value:
                return position
        raise ValueError(value)


def numbered_values(space: Searchable) -> dict[str, NumberedValues]:
    """Return each parameter's values, with the default's added where it is missing."""
    numbered = {}
    for name, given in space.grid.items():
        values = list(given)
        if space.default is not None and space.default[name] not in values:
            values.append(space.default[name])
        is_numeric = all(type(value) in (int, float) for value in values)
        ordered = sorted(values, key=float) if is_numeric else values
        numbered[name] = NumberedValues(tuple(ordered), is_numeric)
    return numbered


def config_key(config: Config) -> str:
    """Return a text that is equal for equal configs only; 1, 1.0 and true differ."""
    return canonical_json(dict(config))


def derived_seed(space: Searchable, seed: int, told: int) -> int:
    """Return a seed that differs between spaces and between the parts of a resumed search."""
    digest = content_hash([seed, space.workload.key, space.implementation, told])
    return int(digest[:8], 16)  # NumPy takes 32 bits
