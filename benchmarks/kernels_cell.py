"""One cell of benchmarks/kernels.py: a workload's tensors, and whether what is written is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from kernels_contender import Contender
from kernels_contender import Tensors

from tuner.bench.languages.base import Executable
from tuner.domain.job import ArraySpec
from tuner.domain.job import Problem
from tuner.domain.workload import Workload

EPSILON = 1e-5
CHECKED_ELEMENTS = 2**26  # compared at a time: a handful of float64 tensors of 512 MiB
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """A torch tensor as a buffer of ours."""

    tensor: torch.Tensor

    @property
    def size_bytes(self) -> int:
        """Size of the tensor."""
        return int(self.tensor.numel()) * int(self.tensor.element_size())

    @property
    def address(self) -> int:
        """Address of its first element."""
        return int(self.tensor.data_ptr())


class Cell:
    """A workload with its tensors: one set where the cache is hot, several where it is cold.

    Args:
        workload: What is computed.
        problem: How it is checked.
        cache: ``hot`` or ``cold``.
        cache_bytes: Last-level cache.
        device: Where the tensors are.

    Attributes:
        sets: Inputs and outputs.
        stored: The same with what lies between the rows, which is NaN in the inputs.
        weight: One for all sets.
    """

    def __init__(
        self,
        workload: Workload,
        problem: Problem,
        cache: str,
        cache_bytes: int,
        device: str = "cuda",
    ) -> None:
        self.workload, self.problem, self.cache = workload, problem, cache
        self.rows, self.cols = workload.shape
        self._device = device
        generator = torch.Generator(device).manual_seed(self.cols)
        dtype = getattr(torch, workload.dtype)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device=device, generator=generator).to(dtype)

        stored_shape = (self.rows, workload.row_stride)
        set_bytes = 2 * self.rows * self.cols * dtype.itemsize
        count = 1 if cache == "hot" else -(-3 * cache_bytes // set_bytes) + 1
        self.weight = normal(self.cols)
        self.stored: list[Tensors] = []
        for _ in range(count):
            x = normal(*stored_shape)
            x[:, self.cols :] = NAN
            self.stored.append((x, torch.empty_like(x)))
        self.sets = [(x[:, : self.cols], y[:, : self.cols]) for x, y in self.stored]
        self._extra: dict[str, torch.Tensor] = {}

    @property
    def estimate_us(self) -> float:
        """About what a launch takes at the speed of an H200's memory."""
        return 2 * self.rows * self.cols * int(self.weight.element_size()) / 4.0e6 + 1.0

    def launches(self, executable: Executable, count: int) -> list[Any]:
        """Return ``count`` runs of an executable, all its steps, going round the sets."""
        for spec in self.problem.arrays:
            is_extra = spec.role in ("scratch", "intermediate")
            if is_extra and spec.name in executable.array_names and spec.name not in self._extra:
                self._extra[spec.name] = _tensor(spec, self._device)
        self._settle()
        bound = []
        for x, y in self.sets[:count]:
            tensors = {"x": x, "w": self.weight, "y": y, **self._extra}
            buffers = {name: TensorBuffer(tensor) for name, tensor in tensors.items()}
            bound.append(executable.bind(buffers))
        return [step for index in range(count) for step in bound[index % len(bound)]]

    def clear(self) -> None:
        """Zero the scratch, which a faulty kernel may have left otherwise."""
        for _, words in self._scratch():
            words.zero_()
        self._settle()

    def fault(self, contender: Contender) -> tuple[float, str]:
        """Run a contender of ours on NaN-filled outputs.

        Returns:
            Its error in tolerances, and what is wrong with it or "".
        """
        y = self.stored[0][1]
        y.fill_(NAN)
        self.clear()
        contender.replay()
        error = self._worst_error()
        if not error <= 1.0:
            return error, f"wrong, {error} tolerances off"
        if not bool(y[:, self.cols :].isnan().all()):
            return error, "writes between the rows"
        for name, words in self._scratch():
            if int(words.count_nonzero()):
                return error, f"leaves {name} not zero"
        return error, ""

    def _worst_error(self) -> float:
        """Return how far the first output is from the reference, in tolerances; may be NaN."""
        tolerance, weight = self.problem.tolerance, self.weight.double()
        step = max(1, CHECKED_ELEMENTS // self.cols)
        worst = []
        for x, y in zip(*(each.split(step) for each in self.sets[0]), strict=True):
            wide = x.double()
            scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON)
            expected = wide.mul_(scale).mul_(weight)
            error = (y.double() - expected).abs_()
            allowed = expected.abs_().mul_(tolerance.relative).add_(tolerance.absolute)
            worst.append(error.div_(allowed).max())
        return float(torch.stack(worst).max())

    def _settle(self) -> None:
        """Wait for what PyTorch has begun: our kernels run on a stream of their own."""
        if self._device == "cuda":
            torch.cuda.synchronize()

    def _scratch(self) -> list[tuple[str, torch.Tensor]]:
        names = [spec.name for spec in self.problem.arrays if spec.role == "scratch"]
        return [(name, self._extra[name]) for name in names if name in self._extra]


def _tensor(spec: ArraySpec, device: str) -> torch.Tensor:
    words = {"uint64": torch.int64}  # as many bytes: torch fills few unsigned types
    dtype = words.get(spec.dtype) or getattr(torch, spec.dtype)
    return torch.zeros(*spec.shape, dtype=dtype, device=device)
