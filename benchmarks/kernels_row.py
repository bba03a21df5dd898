"""What benchmarks/kernels.py has measured of one cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.domain.workload import Workload

UNFUSED = "triton-unfused"
COPIES = ("copy", "copy-triton")
PEERS = ("torch", "torch.compile", "torch.compile-max", "liger", "quack")


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the benchmark.

    Attributes:
        workload: What was computed.
        cache: ``hot`` or ``cold``.
        times_us: Median microseconds a launch by contender.
        configs: The config of each of ours.
        worst_error: Largest error of ours, as a multiple of the tolerance.
    """

    workload: Workload
    cache: str
    times_us: Mapping[str, float]
    configs: Mapping[str, str]
    worst_error: float

    @property
    def best(self) -> str:
        """Our fastest implementation."""
        fused = [name for name in self.configs if name != UNFUSED]
        return min(fused, key=self.times_us.__getitem__)

    @property
    def best_peer(self) -> str | None:
        """The fastest peer, if there is one."""
        present = [name for name in PEERS if name in self.times_us]
        return min(present, key=self.times_us.__getitem__, default=None)

    @property
    def of_copy(self) -> float:
        """Our best as a fraction of the speed of the faster copy of the same size."""
        copy_us = min(self.times_us[name] for name in COPIES if name in self.times_us)
        return copy_us / self.times_us[self.best]

    @property
    def gain(self) -> float | None:
        """How many times as fast as the best peer ours is."""
        peer = self.best_peer
        return None if peer is None else self.times_us[peer] / self.times_us[self.best]

    @property
    def hip_of_triton(self) -> float | None:
        """The speed of our best HIP kernel as a fraction of our best fused Triton kernel's."""
        hip_us, triton_us = self._fastest_us("hip-"), self._fastest_us("triton-")
        return None if hip_us is None or triton_us is None else triton_us / hip_us

    @property
    def fusion_gain(self) -> float | None:
        """How many times as fast as our unfused kernels ours is."""
        unfused_us = self.times_us.get(UNFUSED)
        return unfused_us and unfused_us / self.times_us[self.best]

    def _fastest_us(self, language: str) -> float | None:
        fused = [name for name in self.configs if name != UNFUSED]
        times_us = [self.times_us[name] for name in fused if name.startswith(language)]
        return min(times_us, default=None)
