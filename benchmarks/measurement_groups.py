"""What benchmarks/measurement.py measures: configs that are confirmed together."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import measurement_page as page

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import config_text
from tuner.domain.job import Kernel
from tuner.domain.job import TrialJob
from tuner.domain.protocol import Protocol
from tuner.operator import Operator
from tuner.study.confirm import sampling_of
from tuner.study.plan import make_plan
from tuner.study.spec import parse_study

SEED = 7
STUDY = """schema = 1
name = "measurement"
operator = "rmsnorm"
shapes = ["{shape}"]
dtype = "{dtype}"
[search]
sampler = "random"
[protocol]
{protocol}
cache = "{cache}"
{spaces}
"""
FULL = ""  # the protocol's defaults
BRIEF = "samples = 10\nprocesses = 2\ntarget_sample_us = 100.0"


@dataclasses.dataclass(frozen=True)
class Group:
    """Configs that are confirmed together.

    Attributes:
        shape: Of the workload.
        dtype: Of the arrays.
        cache: ``hot`` or ``cold``.
        implementations: Whose configs: the default of each, then others at random, in turns.
        configs: How many in all; each is entered twice.
    """

    shape: str
    dtype: str
    cache: str
    implementations: tuple[str, ...]
    configs: int = 8


# From the shortest launches there are to several hundred microseconds (hip-serial). No larger
# shapes: the host's comparison of each entry's output in each process would take the time.
GPU_GROUPS = (
    Group("33x257", "float32", "hot", ("hip-vector", "triton-row", "hip-block")),
    Group("1024x4096", "float32", "hot", ("hip-vector", "triton-row", "hip-block")),
    Group("1024x4096", "bfloat16", "cold", ("hip-vector", "triton-row")),
    Group("1024x1024", "float32", "cold", ("hip-vector", "triton-row", "hip-serial")),
    Group("8192x1024", "float32", "cold", ("hip-vector", "triton-row", "hip-block")),
    Group("64x65536", "float32", "cold", ("hip-vector", "hip-split")),
    Group("2048x8192", "float32", "cold", ("hip-vector", "triton-row"), 4),
)
CPU_GROUPS = (
    Group("3x13", "float32", "hot", ("hip-vector", "triton-row"), 3),
    Group("2x16384", "float32", "cold", ("hip-split", "hip-block"), 2),
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A config of a group, with its kernel."""

    implementation: str
    config: Config
    kernel: Kernel
    is_default: bool


class Measured:
    """A group with what a confirmation of it needs."""

    def __init__(
        self, group: Group, operator: Operator, facts: DeviceFacts, protocol_text: str
    ) -> None:
        self.group, self.operator = group, operator
        spaces = "\n".join(f"[space.{name}]" for name in group.implementations)
        text = STUDY.format(**dataclasses.asdict(group), spaces=spaces, protocol=protocol_text)
        spec = parse_study(text, "measurement")
        self.protocol: Protocol = spec.protocol
        self.workload = spec.workloads(operator)[0]
        self.problem = operator.problem(self.workload)
        chance = random.Random(f"{SEED} {group}")
        drawn: dict[str, list[Config]] = {}
        for space in make_plan(spec, operator, facts).spaces:
            allowed = list(space.allowed())
            if allowed:
                default, *others = allowed
                few = chance.sample(others, min(group.configs, len(others)))
                drawn[space.implementation] = [default, *few]
        self.entries: list[Entry] = [
            self._entry(name, configs[turn], is_default=turn == 0)
            for turn in range(group.configs)
            for name, configs in drawn.items()
            if turn < len(configs)
        ][: group.configs]

    @property
    def label(self) -> str:
        """How it is named in messages."""
        return f"{self.group.shape} {self.group.dtype} {self.group.cache}"

    def pair(self, kind: str, entry: Entry, first_us: float, second_us: float) -> page.Pair:
        """Return two times of an entry."""
        group = self.group
        return page.Pair(
            kind, group.shape, group.dtype, group.cache,
            entry.implementation, config_text(entry.config), first_us, second_us,
        )  # fmt: skip

    def trial(self, entry: Entry, **sampling: Any) -> TrialJob:
        """Return an entry's trial with the timed input case alone."""
        problem = dataclasses.replace(self.problem, cases=self.problem.cases[:1])
        changed = dataclasses.replace(sampling_of(self.protocol), **sampling)
        return TrialJob(entry.kernel, problem, changed)

    def _entry(self, name: str, config: Config, *, is_default: bool) -> Entry:
        implementation = self.operator.implementation(name)
        source = self.operator.source(implementation)
        kernel = self.operator.kernel(implementation, source, config, self.workload)
        return Entry(name, config, kernel, is_default)
