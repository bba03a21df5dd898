"""Runs Triton kernels on the CPU through Triton's interpreter, on our buffers and without torch.

The interpreter computes with NumPy, one program after another. It checks what a kernel computes,
not how fast: num_warps and num_stages mean nothing to it, and its times are never compared with
a GPU's.

Stores of float32 values to bfloat16 round to nearest even here, as in compiled kernels; left alone,
Triton's interpreter (3.6 to 3.9) cuts the lower bits off.

With NumPy 2.4 and newer, Triton 3.6's interpreter can't loop up to a run-time bound (``range`` over
an argument); 3.9's can. Such a kernel then ends as a launch error.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from typing import Self

import numpy as np

from tuner.bench.devices.base import Launch
from tuner.bench.inputs import numpy_dtype
from tuner.domain.identity import Scalar
from tuner.domain.job import KernelArgument
from tuner.errors import LaunchFailed

MAX_LOG_CHARACTERS = 64_000


class HostTensor:
    """What Triton's interpreter needs of a tensor, over memory it can address.

    The interpreter copies its arguments to the host, runs, and copies them back. All memory is
    the host's here: tensor, storage and host copy are this one object, and copying does nothing.
    """

    __slots__ = ("_address", "dtype")

    def __init__(self, address: int, dtype: str) -> None:
        self._address = address
        self.dtype = dtype

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._address

    def untyped_storage(self) -> Self:
        """Return the memory behind the tensor."""
        return self

    def cpu(self) -> Self:
        """Return the memory on the host."""
        return self

    def new_empty(self, *_size: int, **_options: str) -> Self:
        """Return the host's tensor, which ``set_`` would point at the storage."""
        return self

    def set_(self, *_storage: Any) -> None:
        """Keep pointing at the same memory."""

    def copy_(self, _source: Any) -> None:
        """Copy nothing: source and target are the same memory."""

    def storage_offset(self) -> int:
        """Return the offset of the tensor in its storage."""
        return 0

    def size(self) -> tuple[int, ...]:
        """Return no shape: kernels get addresses."""
        return ()

    def stride(self) -> tuple[int, ...]:
        """Return no strides: kernels get addresses."""
        return ()


@dataclass(frozen=True, slots=True)
class InterpretedKernel:
    """A kernel that Triton's interpreter runs; the ``handle`` of a CPU device's LoadedKernel.

    Attributes:
        function: What ``@triton.jit`` makes of a function while TRITON_INTERPRET=1.
        constants: Values of its constexpr parameters.
    """

    function: Any
    constants: Mapping[str, Scalar]

    def launch(self, launch: Launch) -> None:
        """Run all programs of the grid, one after another.

        Raises:
            LaunchFailed: The interpreter stopped; carries its message and stack trace.
        """
        arguments = [_argument(each, launch) for each in launch.arguments]
        try:
            with _nearest_bfloat16():
                self.function[launch.geometry.grid](*arguments, **self.constants)
        except Exception as error:  # the interpreter passes on whatever the kernel's code raises
            raise LaunchFailed(
                f"Triton interpreter: {_root_message(error)}",
                log=traceback.format_exc()[-MAX_LOG_CHARACTERS:],
            ) from error


@contextmanager
def _nearest_bfloat16() -> Iterator[None]:
    """Let the interpreter's casts from float32 to bfloat16 round to nearest even."""
    from triton import language
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    cast = builder.cast_impl

    def rounding_cast(self: Any, source: Any, target: Any) -> Any:
        if (source.dtype.scalar, target.scalar) != (language.float32, language.bfloat16):
            return cast(self, source, target)
        rounded = source.data.astype(numpy_dtype("bfloat16")).view(np.uint16)
        return interpreter.TensorHandle(rounded, target.scalar)

    builder.cast_impl = rounding_cast
    try:
        yield
    finally:
        builder.cast_impl = cast


def _argument(argument: KernelArgument, launch: Launch) -> HostTensor | float | int | None:
    if argument.type == "buffer":
        return HostTensor(launch.buffers[argument.name].address, argument.dtype)
    return argument.value


def _root_message(error: BaseException) -> str:
    """Return the message of the first error: the interpreter wraps it once per call level."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"
