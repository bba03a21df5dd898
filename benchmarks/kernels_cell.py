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


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """A torch tensor as a buffer of ours."""

    tensor: torch.Tensor

    @property
    def size_bytes(self) -> int:
        """Size of the tensor."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def address(self) -> int:
        """Address of its first element."""
        return int(self.tensor.data_ptr())


class Cell:
    """A workload with its tensors: one set where the cache is hot, several where it is cold."""

    def __init__(self, workload: Workload, problem: Problem, cache: str, cache_bytes: int) -> None:
        self.workload, self.problem, self.cache = workload, problem, cache
        self.rows, self.cols = workload.shape
        generator = torch.Generator("cuda").manual_seed(self.cols)
        dtype = getattr(torch, workload.dtype)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device="cuda", generator=generator).to(dtype)

        set_bytes = 2 * self.rows * self.cols * dtype.itemsize
        count = 1 if cache == "hot" else -(-3 * cache_bytes // set_bytes) + 1
        self.weight = normal(self.cols)
        inputs = [normal(self.rows, self.cols) for _ in range(count)]
        self.sets: list[Tensors] = [(each, torch.empty_like(each)) for each in inputs]
        # Scratch is zero between launches; what steps pass on is of no interest after them.
        self.extra: dict[str, torch.Tensor] = {}

    def launches(self, executable: Executable, count: int) -> list[Any]:
        """Return ``count`` runs of an executable, all its steps, going round the sets."""
        for spec in self.problem.arrays:
            is_extra = spec.role in ("scratch", "intermediate")
            if is_extra and spec.name in executable.array_names and spec.name not in self.extra:
                self.extra[spec.name] = _tensor(spec)
        bound = []
        for x, y in self.sets:
            tensors = {"x": x, "w": self.weight, "y": y, **self.extra}
            buffers = {name: TensorBuffer(tensor) for name, tensor in tensors.items()}
            bound.append(executable.bind(buffers))
        return [step for index in range(count) for step in bound[index % len(bound)]]

    def worst_error(self) -> float:
        """Return how far the first output is from the reference, in tolerances."""
        tolerance = self.problem.tolerance
        x, y = self.sets[0]
        wide = x.double()
        scale = torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON)
        expected = wide.mul_(scale).mul_(self.weight.double())
        error = (y.double() - expected).abs_()
        allowed = expected.abs_().mul_(tolerance.relative).add_(tolerance.absolute)
        return float(error.div_(allowed).max())


def _tensor(spec: ArraySpec) -> torch.Tensor:
    words = {"uint64": torch.int64}  # as many bytes: torch fills few unsigned types
    dtype = words.get(spec.dtype) or getattr(torch, spec.dtype)
    return torch.zeros(*spec.shape, dtype=dtype, device="cuda")


def fault(cell: Cell, contender: Contender) -> tuple[float, str]:
    """Run a contender of ours on NaN-filled outputs.

    Returns:
        Its error in tolerances, and what is wrong with it or "".
    """
    cell.sets[0][1].fill_(float("nan"))
    torch.cuda.synchronize()
    contender.replay()
    error = cell.worst_error()
    if not error <= 1.0:
        return error, f"wrong, {error} tolerances off"
    for spec in cell.problem.arrays:
        words = cell.extra.get(spec.name)
        if spec.role == "scratch" and words is not None and int(words.count_nonzero()):
            return error, f"leaves {spec.name} not zero"
    return error, ""
