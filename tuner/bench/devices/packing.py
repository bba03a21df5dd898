"""Packs kernel arguments once, so that a launch costs the host as little as possible."""

from __future__ import annotations

import ctypes
from typing import Any

from tuner.bench.devices.base import Launch
from tuner.domain.constraints import INT_LIMITS
from tuner.errors import LaunchFailed

# Compilers append parameters of their own: Triton's two scratch pointers, which are null for
# kernels without scratch. The driver reads as many pointers as the kernel has parameters.
_SPARE_NULLS = 4


class PackedArguments:
    """The ``void**`` that both drivers take as kernelParams, and the values it points to.

    Args:
        launch: Whose arguments are packed.

    Raises:
        LaunchFailed: An array argument has no buffer, or an integer does not fit its type.
    """

    __slots__ = ("_pointers", "_values", "address")

    def __init__(self, launch: Launch) -> None:
        values: list[Any] = [_value(launch, position) for position in range(len(launch.arguments))]
        values += [ctypes.c_uint64(0)] * _SPARE_NULLS
        self._values = values
        self._pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self.address = ctypes.addressof(self._pointers)


def _value(launch: Launch, position: int) -> Any:
    argument = launch.arguments[position]
    if argument.type == "buffer":
        buffer = launch.buffers.get(argument.name)
        if buffer is None:
            raise LaunchFailed(f"no buffer is given for the kernel argument {argument.name!r}")
        return ctypes.c_uint64(buffer.address)
    if argument.value is None:
        raise LaunchFailed(f"the kernel argument {argument.name!r} has no value")
    if argument.type == "float32":
        return ctypes.c_float(argument.value)
    number = int(argument.value)
    limit = INT_LIMITS[argument.type]
    if not -limit - 1 <= number <= limit:
        raise LaunchFailed(f"{argument.name} {number} does not fit its {argument.type} argument")
    return ctypes.c_int32(number) if argument.type == "int32" else ctypes.c_int64(number)
