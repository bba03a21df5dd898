"""The HIP runtime on one device: its context and one stream. Only ``amd`` uses it.

Nothing here has run on AMD hardware yet: the calls are checked against hip-python's signatures
and by tests with a recording stand-in.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tuner.bench.devices.gpu import FunctionFacts
from tuner.bench.devices.gpu import Submit
from tuner.bench.devices.packing import PackedArguments
from tuner.bench.devices.vendor import CheckedCalls
from tuner.domain.job import LaunchGeometry
from tuner.errors import DeviceFault
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources
from tuner.errors import TrialError

_STREAM_NON_BLOCKING = 1  # hipStreamNonBlocking: a macro, absent from old hip-python releases
_GRAPH_DEFAULT = 0

_FAULTS = (
    "IllegalAddress",
    "LaunchFailure",
    "LaunchTimeOut",
    "Assert",
    "IllegalState",
    "ECCNotCorrectable",
    "ContextIsDestroyed",
)
ERRORS: dict[str, type[TrialError]] = {
    "hipErrorOutOfMemory": OutOfDeviceMemory,
    "hipErrorMemoryAllocation": OutOfDeviceMemory,
    "hipErrorLaunchOutOfResources": OutOfResources,
    **{f"hipError{name}": DeviceFault for name in _FAULTS},
}


def checked_calls(hip: Any) -> CheckedCalls:
    """Return checked calls of hip-python's ``hip`` module."""

    def describe(status: Any) -> str:
        # Releases differ: a text, bytes, or a tuple of a status and a C string.
        answer = hip.hipGetErrorString(status)
        text = answer[-1] if isinstance(answer, tuple) else answer
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)

    return CheckedCalls(hip, ERRORS, describe)


class HipApi:
    """``gpu.GpuApi`` over hip-python.

    Args:
        hip: The binding module.
        calls: Checked calls of it; shares its sticky fault.
        index: Device ordinal.
    """

    def __init__(self, hip: Any, calls: CheckedCalls, index: int) -> None:
        self._hip = hip
        self._calls = calls
        self._closed = False
        calls("hipSetDevice", index)
        self._stream = calls("hipStreamCreateWithFlags", _STREAM_NON_BLOCKING)

    @property
    def fault(self) -> str:
        """What broke the context, or ""."""
        return self._calls.fault

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        return int(self._calls("hipMalloc", size_bytes))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._calls("hipFree", ctypes.c_void_p(address))

    def copy_in(self, address: int, host_address: int, size_bytes: int) -> None:
        """Queue a copy from the host."""
        self._copy(address, host_address, size_bytes, "hipMemcpyHostToDevice")

    def copy_out(self, host_address: int, address: int, size_bytes: int) -> None:
        """Queue a copy to the host."""
        self._copy(host_address, address, size_bytes, "hipMemcpyDeviceToHost")

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue a memset."""
        self._calls("hipMemsetAsync", ctypes.c_void_p(address), byte, size_bytes, self._stream)

    def synchronize(self) -> None:
        """Wait for everything queued."""
        self._calls("hipStreamSynchronize", self._stream)

    def load_module(self, content: bytes) -> Any:
        """Load a code object."""
        return self._calls("hipModuleLoadData", content)

    def unload_module(self, module: Any) -> None:
        """Unload it; never raises."""
        if not self._closed:
            self._calls.quiet("hipModuleUnload", module)

    def function(self, module: Any, entry: str) -> Any | None:
        """Return a kernel of a module, or None where there is none of that name."""
        self._calls.raise_if_broken()
        status, function = self._hip.hipModuleGetFunction(module, entry.encode())
        if status == self._hip.hipError_t.hipErrorNotFound:
            return None
        if status:
            self._calls.fail("hipModuleGetFunction", status)
        return function

    def function_facts(self, function: Any) -> FunctionFacts:
        """Return what the runtime knows of a kernel: VGPRs, scratch and static LDS."""
        kinds = self._hip.hipFunction_attribute

        def read(name: str) -> int:
            return int(self._calls("hipFuncGetAttribute", getattr(kinds, name), function))

        return FunctionFacts(
            registers=read("HIP_FUNC_ATTRIBUTE_NUM_REGS"),
            spill_bytes=read("HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"),
            shared_bytes=read("HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES"),
        )

    def allow_dynamic_shared(self, function: Any, static_bytes: int, size_bytes: int) -> None:
        """Do nothing: on AMD the whole LDS a block can have needs no opt-in."""

    def launcher(self, function: Any, geometry: LaunchGeometry, packed: PackedArguments) -> Submit:
        """Return what queues one launch.

        ``kernelParams`` and not ``extra``: hip-python would copy and align every value again
        at each launch, while an address passes straight through.
        """
        calls = self._calls
        launch = self._hip.hipModuleLaunchKernel
        parameters = ctypes.c_void_p(packed.address)
        shape = (*geometry.grid, geometry.threads, 1, 1, geometry.shared_bytes, self._stream)

        def submit(_keep: PackedArguments = packed) -> None:
            (status,) = launch(function, *shape, parameters, None)
            if status:
                calls.fail("hipModuleLaunchKernel", status)

        calls.raise_if_broken()
        return submit

    def create_event(self) -> Any:
        """Return a timing event."""
        return self._calls("hipEventCreate")

    def record(self, event: Any) -> None:
        """Queue the recording of an event."""
        self._calls("hipEventRecord", event, self._stream)

    def hold(self) -> None:
        """Do nothing: hipStreamWaitValue32 would do it, and no AMD device was here to try it on."""

    def release(self) -> None:
        """Do nothing, as `hold`."""

    def elapsed_us(self, start: Any, stop: Any) -> float:
        """Wait for ``stop`` and return the device time between two recorded events.

        The value is handed on as it is: HIP has given small negative ones, which the caller
        must see and refuse.
        """
        self._calls("hipEventSynchronize", stop)
        return float(self._calls("hipEventElapsedTime", start, stop)) * 1000.0

    def capture(self, submits: Sequence[Submit]) -> Any:
        """Return an uploaded, executable graph of the launches in sequence."""
        mode = self._hip.hipStreamCaptureMode.hipStreamCaptureModeThreadLocal
        self._calls("hipStreamBeginCapture", self._stream, mode)
        try:
            for submit in submits:
                submit()
        except TrialError:
            self._calls.quiet("hipStreamEndCapture", self._stream)
            raise
        graph = self._calls("hipStreamEndCapture", self._stream)
        try:
            executable = self._calls("hipGraphInstantiateWithFlags", graph, _GRAPH_DEFAULT)
        finally:
            self._calls.quiet("hipGraphDestroy", graph)
        self._calls("hipGraphUpload", executable, self._stream)
        self.synchronize()
        return executable

    def launch_graph(self, graph: Any) -> None:
        """Queue a graph."""
        self._calls("hipGraphLaunch", graph, self._stream)

    def destroy_graph(self, graph: Any) -> None:
        """Free a graph; never raises."""
        if not self._closed:
            self._calls.quiet("hipGraphExecDestroy", graph)

    def close(self, events: Sequence[Any]) -> None:
        """Free events and stream; never raises. The runtime keeps its context to the end."""
        self._closed = True
        for event in events:
            self._calls.quiet("hipEventDestroy", event)
        self._calls.quiet("hipStreamDestroy", self._stream)

    def _copy(self, target: int, source: int, size_bytes: int, kind: str) -> None:
        self._calls(
            "hipMemcpyAsync",
            ctypes.c_void_p(target),
            ctypes.c_void_p(source),
            size_bytes,
            getattr(self._hip.hipMemcpyKind, kind),
            self._stream,
        )
