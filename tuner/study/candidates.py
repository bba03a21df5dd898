"""The allowed configs of a space as rows of numbers, as far as a search looks at them."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

import numpy as np

from tuner.domain.identity import Config
from tuner.study.searchable import config_key
from tuner.study.searchable import numbered_values
from tuner.study.searchable import Searchable
from tuner.study.surrogate import Floats

# Configs that are looked at before any was tried; a larger space is taken in as trials use them
# up, and around each new best.
FIRST_CONFIGS = 8192
MORE_CONFIGS = 4096


class Encoding:
    """Turns configs into points: neighbouring values of a number are 1 apart, categories too."""

    def __init__(self, space: Searchable) -> None:
        self._values = numbered_values(space)
        self.dimensions = sum(
            1 if each.is_numeric else len(each.values) for each in self._values.values()
        )

    def point(self, config: Config) -> list[float]:
        """Return a config's coordinates.

        Raises:
            KeyError: A parameter is missing.
            ValueError: A value is none of the space's.
        """
        point: list[float] = []
        for name, numbered in self._values.items():
            position = numbered.position(config[name])
            if numbered.is_numeric:
                point.append(float(position))
            else:  # two categories are 1 apart: half a square in each of two columns
                marks = [0.0] * len(numbered.values)
                marks[position] = 0.5**0.5
                point += marks
        return point

    def points(self, configs: Iterable[Config]) -> Floats:
        """Return the coordinates of several configs, shape (n, dimensions)."""
        rows = [self.point(config) for config in configs]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.dimensions)

    def neighbours(self, config: Config) -> Iterator[Config]:
        """Yield the configs that differ in one parameter, whether allowed or not."""
        for name, numbered in self._values.items():
            for value in numbered.values:
                if value != config[name]:
                    yield {**config, name: value}


class Candidates:
    """Configs with their points and what is expected of them; grows as a search needs more.

    Args:
        space: Where they come from.
        expect: Gives the expected logarithm of the time of configs at points, up to a constant.
    """

    def __init__(self, space: Searchable, expect: Callable[[list[Config], Floats], Floats]) -> None:
        self._space = space
        self._expect = expect
        self._encoding = Encoding(space)
        self._source = space.allowed()
        self._rows: dict[str, int] = {}
        self.configs: list[Config] = []
        self.keys: list[str] = []
        self.points: Floats = np.empty((0, self._encoding.dimensions))
        self.expected: Floats = np.empty(0)
        self.is_whole = False
        self.grow(FIRST_CONFIGS)

    def __len__(self) -> int:
        return len(self.configs)

    def grow(self, count: int = MORE_CONFIGS) -> None:
        """Take in that many more of the space, or all there are."""
        fresh: list[Config] = []
        while len(fresh) < count:
            config = next(self._source, None)
            if config is None:
                self.is_whole = True
                break
            if config_key(config) not in self._rows:
                fresh.append(config)
        self._append(fresh)

    def take_in(self, config: Config) -> int | None:
        """Return the row of any config of the grid, added where needed; None where it is none."""
        key = config_key(config)
        if key not in self._rows:
            try:
                self._encoding.point(config)
            except (KeyError, ValueError):  # tried under another grid
                return None
            self._append([config])
        return self._rows[key]

    def take_in_neighbours(self, config: Config) -> None:
        """Add the allowed configs that differ in one parameter."""
        if not self.is_whole:
            self._append(
                each
                for each in self._encoding.neighbours(config)
                if config_key(each) not in self._rows and self._space.is_allowed(each)
            )

    def _append(self, configs: Iterable[Config]) -> None:
        fresh = list(configs)
        if not fresh:
            return
        for config in fresh:
            key = config_key(config)
            self._rows[key] = len(self.configs)
            self.configs.append(config)
            self.keys.append(key)
        points = self._encoding.points(fresh)
        self.points = np.concatenate([self.points, points])
        self.expected = np.concatenate([self.expected, self._expect(fresh, points)])
