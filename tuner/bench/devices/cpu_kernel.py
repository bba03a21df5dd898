"""Loads a HIP kernel that was built as a shared library, and calls it."""

from __future__ import annotations

import _ctypes
import ctypes
import tempfile
import weakref
from collections.abc import Callable

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import Launch
from tuner.bench.devices.packing import PackedArguments
from tuner.domain.job import KernelArgument
from tuner.errors import BuildFailed
from tuner.errors import LaunchFailed

_ERROR_BYTES = 512
_SIGNATURE_BYTES = 1024
_UnsignedTriple = ctypes.c_uint * 3


class HipOnCpuKernel:
    """A kernel in a shared library that ``hip_on_cpu.h`` turned it into.

    The library is unloaded, and the stacks of its threads given back, with this object.

    Args:
        code: The library as built by ``HostCompiler``.
        wave_size: Threads of a wave, 32 or 64: chosen here, not when it was built.

    Raises:
        BuildFailed: The system's loader refuses the library.
    """

    def __init__(self, code: CodeObject, wave_size: int) -> None:
        self.name = code.entry
        self._wave_size = wave_size
        self._library = _load_library(code)
        # Tied to this object, not to the library's: that one is in a cycle with its functions.
        unload = weakref.finalize(self, _ctypes.dlclose, self._library._handle)
        unload.atexit = False  # at exit the process goes as a whole
        self._signature = self._read_signature()

    @property
    def static_shared_bytes(self) -> int:
        """Size of the kernel's ``__shared__`` variables, without dynamic shared memory."""
        function = self._library.tuner_static_shared_bytes
        function.restype = ctypes.c_size_t
        return int(function())

    def launch(self, launch: Launch) -> None:
        """Run the whole grid and return.

        Raises:
            LaunchFailed: The arguments are not those the kernel declares, or its threads can't
                go on (not all reach the same barrier).
        """
        self.bind(launch)()

    def bind(self, launch: Launch) -> Callable[[], None]:
        """Return a launch with its arguments converted, so that a timer sees the kernel only.

        Raises:
            LaunchFailed: The arguments are not those the kernel declares, or do not fit.
        """
        self._check_arguments(launch.arguments)
        packed = PackedArguments(launch)
        grid = _UnsignedTriple(*launch.geometry.grid)
        block = _UnsignedTriple(launch.geometry.threads, 1, 1)
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        function = self._library.tuner_launch
        arguments = (
            grid,
            block,
            ctypes.c_size_t(launch.geometry.shared_bytes),
            ctypes.c_int(self._wave_size),
            ctypes.c_void_p(packed.address),
            error,
            ctypes.c_size_t(_ERROR_BYTES),
        )

        # The default keeps the arguments alive as long as what points to them.
        def call(_packed: PackedArguments = packed) -> None:
            if function(*arguments) != 0:
                text = error.value.decode("utf-8", "replace")
                raise LaunchFailed(f"kernel {self.name}: {text}")

        return call

    def _read_signature(self) -> tuple[str, ...]:
        text = ctypes.create_string_buffer(_SIGNATURE_BYTES)
        self._library.tuner_signature(text, ctypes.c_size_t(_SIGNATURE_BYTES))
        return tuple(text.value.decode("ascii").split())

    def _check_arguments(self, arguments: tuple[KernelArgument, ...]) -> None:
        given = tuple(argument.type for argument in arguments)
        if len(given) != len(self._signature):
            raise LaunchFailed(
                f"kernel {self.name} takes {len(self._signature)} arguments, {len(given)} given"
            )
        for argument, declared in zip(arguments, self._signature, strict=True):
            if argument.type != declared:
                raise LaunchFailed(
                    f"kernel {self.name} declares {argument.name} as {declared}, "
                    f"it is given as {argument.type}"
                )


def _load_library(code: CodeObject) -> ctypes.CDLL:
    # The loader takes files only, and knows a library by its path and inode: a new file each
    # time, which may be removed at once since the mapping keeps the inode.
    with tempfile.NamedTemporaryFile(prefix="tuner-kernel-", suffix=".so") as file:
        file.write(code.content)
        file.flush()
        try:
            return ctypes.CDLL(file.name)
        except OSError as error:
            raise BuildFailed(f"kernel {code.entry} can't be loaded: {error}") from error
