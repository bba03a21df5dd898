"""How a trial is timed: every number and choice of the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import fields
from typing import Literal

from tuner.domain.identity import content_hash
from tuner.domain.identity import Plain

# Raise this when tuner.bench.measure or tuner.bench.validate change what a figure means.
# 1: first protocol.
MEASUREMENT_VERSION = 1

DEFAULT_INPUT_SEED = 20260719
DEFAULT_TARGET_SAMPLE_US = 1000.0


@dataclass(frozen=True, slots=True)
class Protocol:
    """The full measurement of a finalist. Figures of different protocols are never compared.

    Attributes:
        warmup: Untimed samples before the timed ones, per process.
        samples: Timed samples per process.
        processes: Fresh processes.
        launches_per_sample: Kernel launches between one pair of timer readings; None chooses
            the fewest with which a sample lasts ``target_sample_us``.
        target_sample_us: Length of a sample that ``launches_per_sample = None`` aims at.
        cache: ``hot``: the same buffers again and again. ``cold``: the cache is flushed before
            each sample, outside the timed region, and the launches of a sample use different
            buffers.
        submission: ``graph``: the launches of a sample are replayed from a device graph, so
            that host time does not show. ``stream``: launched one by one. ``auto``: graph
            where the device profits from it.
        input_case: Which of the operator's input cases is timed; "" for its first.
        input_seed: Seed of the inputs.
        version: Version of the measuring code.
    """

    warmup: int = 10
    samples: int = 50
    processes: int = 3
    launches_per_sample: int | None = None
    target_sample_us: float = DEFAULT_TARGET_SAMPLE_US
    cache: Literal["hot", "cold"] = "hot"
    submission: Literal["auto", "graph", "stream"] = "auto"
    input_case: str = ""
    input_seed: int = DEFAULT_INPUT_SEED
    version: int = MEASUREMENT_VERSION

    def as_plain(self) -> dict[str, Plain]:
        """Return all fields."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def key(self) -> str:
        """SHA-256 over all fields."""
        return content_hash(self.as_plain())


@dataclass(frozen=True, slots=True)
class QuickStage:
    """The short measurement in the warm worker that ranks configs before confirmation.

    Attributes:
        warmup: Untimed samples.
        samples: Timed samples.
        target_sample_us: As the protocol's, which need not be this short: ranks are decided
            again by the full measurement.
    """

    warmup: int = 2
    samples: int = 7
    target_sample_us: float = 500.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines of one trial."""

    build_timeout_s: float = 60.0
    run_timeout_s: float = 60.0
