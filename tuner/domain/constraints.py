"""Constraints that hold for every kernel of a language, and factories for common ones."""

from __future__ import annotations

from collections.abc import Callable

from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.job import LaunchGeometry
from tuner.domain.space import Constraint
from tuner.domain.space import Dims
from tuner.domain.space import is_power_of_two

# Triton refuses tensors of more elements (triton.language.core.TRITON_MAX_TENSOR_NUMEL).
TRITON_MAX_BLOCK_ELEMENTS = 1_048_576

INT_LIMITS = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def power_of_two(*parameters: str) -> Constraint:
    """Require parameters to be whole powers of two."""

    def check(config: Config, _dims: Dims, _facts: DeviceFacts) -> str:
        for name in parameters:
            if not is_power_of_two(config[name]):
                return f"{name}={config[name]!r} is not a power of two"
        return ""

    return Constraint("power_of_two", check)


def hip_threads(geometry: Callable[[Config, Dims], LaunchGeometry]) -> Constraint:
    """Require a HIP block to fit the device's thread limit."""

    def check(config: Config, dims: Dims, facts: DeviceFacts) -> str:
        threads = geometry(config, dims).threads
        if threads > facts.max_threads_per_block:
            return f"threads {threads} > {facts.max_threads_per_block} of the device"
        return ""

    return Constraint("threads_per_block", check)


def triton_threads(config: Config, _dims: Dims, facts: DeviceFacts) -> str:
    """Require num_warps to be a power of two and to fit the limit at the device's wave size."""
    warps = config.get("num_warps", 4)
    if not is_power_of_two(warps):
        return f"num_warps={warps!r} is not a power of two"
    threads = int(warps) * facts.wave_size
    if threads > facts.max_threads_per_block:
        return (
            f"threads {threads} > {facts.max_threads_per_block} "
            f"(num_warps {warps} at wave size {facts.wave_size})"
        )
    return ""


def shared_memory(geometry: Callable[[Config, Dims], LaunchGeometry]) -> Constraint:
    """Require dynamic shared memory (LDS) to fit a block of the device."""

    def check(config: Config, dims: Dims, facts: DeviceFacts) -> str:
        shared_bytes = geometry(config, dims).shared_bytes
        if shared_bytes > facts.max_shared_bytes:
            return f"LDS {shared_bytes} > {facts.max_shared_bytes} bytes of the device"
        return ""

    return Constraint("shared_memory", check)


def grid_limits(geometry: Callable[[Config, Dims], LaunchGeometry], language: str) -> Constraint:
    """Require the grid to fit the device, and grid.x * block.x too (2^32 - 1 on AMD)."""

    def check(config: Config, dims: Dims, facts: DeviceFacts) -> str:
        launch = geometry(config, dims)
        for axis, size, limit in zip("xyz", launch.grid, facts.max_grid, strict=True):
            if size > limit:
                return f"grid.{axis} {size} > {limit} of the device"
        triton_block = int(config.get("num_warps", 4)) * facts.wave_size
        block = triton_block if language == "triton" else launch.threads
        if launch.grid[0] * block > facts.max_grid_threads:
            return f"grid.x * block.x {launch.grid[0] * block} > {facts.max_grid_threads}"
        return ""

    return Constraint("grid", check)


def triton_block(elements: Callable[[Config, Dims], int]) -> Constraint:
    """Require a Triton block of at most 1,048,576 elements."""

    def check(config: Config, dims: Dims, _facts: DeviceFacts) -> str:
        count = elements(config, dims)
        if count > TRITON_MAX_BLOCK_ELEMENTS:
            return f"block {count} > {TRITON_MAX_BLOCK_ELEMENTS} elements"
        return ""

    return Constraint("triton_block", check)


def registers_plausible(elements: Callable[[Config, Dims], int]) -> Constraint:
    """Require that a thread's share of the block can be held in registers at all.

    A block whose elements alone exceed the register file of its threads is sure to spill and
    slow to compile; it is not worth a build.
    """

    def check(config: Config, dims: Dims, facts: DeviceFacts) -> str:
        if facts.max_registers_per_thread is None:
            return ""
        threads = int(config.get("num_warps", 4)) * facts.wave_size
        per_thread = -(-elements(config, dims) // threads)
        if per_thread > facts.max_registers_per_thread:
            return (
                f"{per_thread} elements a thread > {facts.max_registers_per_thread} registers "
                "of the device"
            )
        return ""

    return Constraint("registers_plausible", check)
