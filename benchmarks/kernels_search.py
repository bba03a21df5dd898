"""Finds a good config of each implementation for one cell of benchmarks/kernels.py.

Processes of their own compile ahead, so that the GPU does not wait: the first configs of a cell
(the default, what earlier runs found, see kernels_known.py, what was best in the cells before, and
for HIP, or where this shape is new, neighbours of the default and the likeliest of some thousand at
random by the implementation's cost model) while the cells before it are measured; then, twice, what
is near the best, while the copies and the peers are prepared. A build that is not there in time is
left out and counted, as is one that fails.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent.futures import Executor
from concurrent.futures import Future
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from kernels_builders import Builders
from kernels_builders import compile_ahead
from kernels_known import Known

from tuner.bench.devices.nvidia import NvidiaDevice
from tuner.bench.languages.base import Executable
from tuner.bench.languages.base import Language
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.triton import TritonLanguage
from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import config_text
from tuner.domain.job import Kernel
from tuner.domain.space import Dims
from tuner.domain.space import first_violation
from tuner.domain.space import Grid
from tuner.domain.workload import Workload
from tuner.errors import TrialError
from tuner.operator import Implementation
from tuner.operator import Operator

DRAWS = 12_000


class Effort(NamedTuple):
    """How many configs of an implementation are tried.

    Attributes:
        near_default: Neighbours of the default.
        at_random: The likeliest of those drawn.
        near_best: Those near the best of all these, in each climb.
    """

    near_default: int
    at_random: int
    near_best: int


# Triton's take longer, compiled ahead or not, and its spaces are smaller. H200, 2026-12-02: 1003
# HIP configs compiled and timed in 7 s; a cell with some 170 of Triton's took 12 to 19 s.
EFFORT = {"hip": Effort(24, 320, 64), "triton": Effort(8, 12, 16)}
CLIMBERS = 4  # implementations that try what is near their best config
FINALISTS = 8  # of each implementation: timed once more, in full
KEPT = 4  # of these, later cells begin with the best
PATIENCE_S = 6.0  # for all of a cell's builds, three times: some of Triton's take minutes

TimeUs = Callable[[Executable], float]


@dataclass(slots=True)
class Found:
    """Configs of one implementation on one workload: waiting for their build, and timed."""

    waiting: list[tuple[Config, Future[None]]] = field(default_factory=list)
    timed: dict[str, tuple[float, Config, Executable]] = field(default_factory=dict)

    @property
    def best(self) -> tuple[float, Config, Executable]:
        """The fastest so far."""
        return min(self.timed.values(), key=lambda each: each[0])


@dataclass(frozen=True, slots=True)
class Space:
    """The configs of one implementation on one workload and device."""

    implementation: Implementation
    dims: Dims
    facts: DeviceFacts
    grid: Grid

    def is_legal(self, config: Config) -> bool:
        """Tell whether all values are of the grid and no constraint refuses the config."""
        if config.keys() != self.grid.keys():
            return False  # of another version of the kernel
        if any(value not in self.grid[name] for name, value in config.items()):
            return False
        rules = self.implementation.constraints
        return first_violation(config, self.dims, self.facts, rules) is None

    def near(self, config: Config) -> list[Config]:
        """Return the legal configs that differ in one parameter."""
        others = (
            {**config, name: value}
            for name, values in self.grid.items()
            for value in values
            if value != config[name]
        )
        return [each for each in others if self.is_legal(each)]

    def around(self, config: Config, chance: random.Random) -> list[Config]:
        """Return the legal configs that differ in one parameter, then those that differ in two.

        The latter with the likeliest first.
        """
        near = self.near(config)
        chance.shuffle(near)
        known = {config_text(each) for each in (config, *near)}
        beyond = {config_text(each): each for one in near for each in self.near(one)}
        further = [each for text, each in beyond.items() if text not in known]
        return near + sorted(further, key=self._cost)

    def likely(self, chance: random.Random, count: int) -> list[Config]:
        """Return the up to ``count`` legal configs of some at random that should be fastest."""
        drawn: Iterator[Config] = (
            {name: chance.choice(values) for name, values in self.grid.items()}
            for _ in range(DRAWS)
        )
        legal = {config_text(each): each for each in drawn if self.is_legal(each)}
        return sorted(legal.values(), key=self._cost)[:count]

    def _cost(self, config: Config) -> float:
        return self.implementation.prior(config, self.dims, self.facts)


class Search:
    """Searches all implementations for one workload after the other.

    Args:
        operator: Whose implementations are searched.
        names: Which of them.
        device: Where they run.
        cache_dir: Where builds are kept.
        builders: Compile; see there.
        known: What earlier runs found; a cell begins with it.
    """

    def __init__(
        self,
        operator: Operator,
        names: Sequence[str],
        device: NvidiaDevice,
        cache_dir: Path,
        builders: Builders,
        known: Known,
    ) -> None:
        self._operator = operator
        self._names = names
        self._device = device
        self._cache_dir = cache_dir
        self._builders = builders
        self._known = known
        self._languages: dict[str, Language] = {"hip": HipLanguage(), "triton": TritonLanguage()}
        self._found: dict[str, dict[str, Found]] = {}
        self._seeds: dict[str, dict[tuple[int, ...], list[Config]]] = {}
        self.left_out: Counter[str] = Counter()
        self.built_anew = 0  # though compiled ahead: the builds are looked for in another place

    def begin(self, workload: Workload) -> None:
        """Let the first configs of a workload be compiled, unless they are already."""
        if workload.key in self._found:
            return
        self._found[workload.key] = {}
        for name in self._names:
            space = self._space(workload, name)
            default = dict(space.implementation.default(space.dims, self._device.facts))
            chance = random.Random(workload.key)
            seeds = self._seeds.get(name, {})
            last = list(seeds)[-2:]  # shapes that were measured
            shapes = dict.fromkeys((workload.shape, *last))
            known = [default, *self._known.configs(workload, name)]
            known += [each for shape in shapes for each in seeds.get(shape, [])]
            first = [each for each in known if space.is_legal(each)]
            language = space.implementation.language
            if language == "hip" or workload.shape not in seeds:
                near = space.near(default)
                chance.shuffle(near)
                effort = EFFORT[language]
                first += near[: effort.near_default] + space.likely(chance, effort.at_random)
            if first:
                self._found[workload.key][name] = Found()
                self._submit(self._builders.ahead, workload, name, first)

    def time(self, workload: Workload, time_us: TimeUs) -> None:
        """Time what is compiled, or is within PATIENCE_S."""
        until = time.monotonic() + PATIENCE_S
        for name, found in self._found[workload.key].items():
            waiting, found.waiting = found.waiting, []
            for config, build in waiting:
                try:
                    build.result(max(0.0, until - time.monotonic()))
                except TimeoutError:
                    build.cancel()
                    self.left_out["not compiled in time"] += 1
                    continue
                try:
                    kernel = self._kernel(workload, name, config)
                    executable = self._languages[kernel.language].build(kernel, self._device)
                    self.built_anew += not executable.report.cached
                    entry = (time_us(executable), config, executable)
                except TrialError as error:
                    self.left_out[type(error).__name__] += 1
                    continue
                found.timed[config_text(config)] = entry

    def climb(self, workload: Workload) -> None:
        """Let untried configs near the best be compiled."""
        found = {name: each for name, each in self._found[workload.key].items() if each.timed}
        for name in sorted(found, key=lambda name: found[name].best[0])[:CLIMBERS]:
            _, best, _ = found[name].best
            space = self._space(workload, name)
            near = space.around(best, random.Random(workload.key))
            untried = [each for each in near if config_text(each) not in found[name].timed]
            effort = EFFORT[space.implementation.language]
            self._submit(self._builders.urgent, workload, name, untried[: effort.near_best])

    def best(self, workload: Workload, time_us: TimeUs) -> Iterator[tuple[str, Config, Executable]]:
        """Yield the best of each implementation, and forget the workload.

        The fastest few are timed once more: among hundreds, some look faster than they are.
        """
        for name, found in self._found.pop(workload.key).items():
            finalists = sorted(found.timed.values(), key=lambda each: each[0])[:FINALISTS]
            if len(finalists) > 1:
                timed = [(time_us(each[2]), *each[1:]) for each in finalists]
                finalists = sorted(timed, key=lambda each: each[0])
            if finalists:
                seeds = self._seeds.setdefault(name, {})
                seeds.pop(workload.shape, None)  # so that the last measured is the last one
                seeds[workload.shape] = [config for _, config, _ in finalists[:KEPT]]
                _, config, executable = finalists[0]
                yield name, config, executable

    def _submit(
        self, pool: Executor, workload: Workload, name: str, configs: Sequence[Config]
    ) -> None:
        found = self._found[workload.key][name]
        taken = {*found.timed, *(config_text(config) for config, _ in found.waiting)}
        for config in configs:
            if config_text(config) in taken:
                continue
            taken.add(config_text(config))
            kernel = self._kernel(workload, name, config)
            architecture = self._device.facts.architecture
            build = pool.submit(compile_ahead, kernel, architecture, self._cache_dir)
            found.waiting.append((config, build))

    def _kernel(self, workload: Workload, name: str, config: Config) -> Kernel:
        implementation = self._operator.implementation(name)
        source = self._operator.source(implementation)
        return self._operator.kernel(implementation, source, config, workload)

    def _space(self, workload: Workload, name: str) -> Space:
        implementation = self._operator.implementation(name)
        dims = self._operator.dimensions(workload)
        return Space(implementation, dims, self._device.facts, implementation.parameters(dims))
