"""The CUDA driver on one device: one context, one stream. Only ``nvidia`` uses it.

Low-level bindings rather than cuda.core: a launch is one call on packed arguments, each status
code is seen, and the calls used here are the same in cuda-bindings 12 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.bench.devices.gpu import FunctionFacts
from tuner.bench.devices.gpu import Submit
from tuner.bench.devices.nvidia_gate import StreamGate
from tuner.bench.devices.packing import PackedArguments
from tuner.bench.devices.vendor import CheckedCalls
from tuner.domain.job import LaunchGeometry
from tuner.errors import DeviceFault
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources
from tuner.errors import TrialError

# A kernel must ask for more dynamic shared memory than this (CUDA programming guide, "compute
# capability 7.x" and later).
_SHARED_WITHOUT_OPT_IN_BYTES = 48 * 1024

_FAULTS = (
    "ILLEGAL_ADDRESS",
    "MISALIGNED_ADDRESS",
    "LAUNCH_FAILED",
    "ASSERT",
    "ILLEGAL_INSTRUCTION",
    "HARDWARE_STACK_ERROR",
    "INVALID_PC",
    "INVALID_ADDRESS_SPACE",
    "LAUNCH_TIMEOUT",
    "ECC_UNCORRECTABLE",
    "CONTAINED",
    "CONTEXT_IS_DESTROYED",
)
ERRORS: dict[str, type[TrialError]] = {
    "CUDA_ERROR_OUT_OF_MEMORY": OutOfDeviceMemory,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": OutOfResources,
    **{f"CUDA_ERROR_{name}": DeviceFault for name in _FAULTS},
}


def checked_calls(driver: Any) -> CheckedCalls:
    """Return checked calls of ``cuda.bindings.driver``."""

    def describe(status: Any) -> str:
        _, text = driver.cuGetErrorString(status)
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)

    return CheckedCalls(driver, ERRORS, describe)


class CudaApi:
    """``gpu.GpuApi`` over ``cuda.bindings.driver``.

    The device's primary context is used, as every CUDA library in the process does.

    Args:
        driver: The binding module.
        calls: Checked calls of it; shares its sticky fault.
        device: CUdevice.
    """

    def __init__(self, driver: Any, calls: CheckedCalls, device: Any) -> None:
        self._driver = driver
        self._calls = calls
        self._device = device
        self._closed = False
        calls("cuCtxSetCurrent", calls("cuDevicePrimaryCtxRetain", device))
        # Not the null stream: that one waits for others and can't be captured.
        self._stream = calls("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._gate = StreamGate(driver, calls, self._stream)

    @property
    def fault(self) -> str:
        """What broke the context, or ""."""
        return self._calls.fault

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        return int(self._calls("cuMemAlloc", size_bytes))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._calls("cuMemFree", address)

    def copy_in(self, address: int, host_address: int, size_bytes: int) -> None:
        """Queue a copy from the host."""
        self._calls("cuMemcpyHtoDAsync", address, host_address, size_bytes, self._stream)

    def copy_out(self, host_address: int, address: int, size_bytes: int) -> None:
        """Queue a copy to the host."""
        self._calls("cuMemcpyDtoHAsync", host_address, address, size_bytes, self._stream)

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        """Queue a memset."""
        self._calls("cuMemsetD8Async", address, byte, size_bytes, self._stream)

    def synchronize(self) -> None:
        """Wait for everything queued."""
        self._calls("cuStreamSynchronize", self._stream)

    def load_module(self, content: bytes) -> Any:
        """Load a cubin."""
        return self._calls("cuModuleLoadData", content)

    def unload_module(self, module: Any) -> None:
        """Unload it; never raises."""
        if not self._closed:
            self._calls.quiet("cuModuleUnload", module)

    def function(self, module: Any, entry: str) -> Any | None:
        """Return a kernel of a module, or None where there is none of that name."""
        self._calls.raise_if_broken()
        status, function = self._driver.cuModuleGetFunction(module, entry.encode())
        if status == self._driver.CUresult.CUDA_ERROR_NOT_FOUND:
            return None
        if status:
            self._calls.fail("cuModuleGetFunction", status)
        return function

    def function_facts(self, function: Any) -> FunctionFacts:
        """Return what the driver knows of a kernel."""
        kinds = self._driver.CUfunction_attribute

        def read(name: str) -> int:
            return int(self._calls("cuFuncGetAttribute", getattr(kinds, name), function))

        return FunctionFacts(
            registers=read("CU_FUNC_ATTRIBUTE_NUM_REGS"),
            spill_bytes=read("CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"),
            shared_bytes=read("CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES"),
        )

    def allow_dynamic_shared(self, function: Any, static_bytes: int, size_bytes: int) -> None:
        """Let launches of a kernel ask for that much dynamic shared memory.

        Set only where it is needed, as it may change how L1 and shared memory are split.
        """
        if static_bytes + size_bytes > _SHARED_WITHOUT_OPT_IN_BYTES:
            kind = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._calls("cuFuncSetAttribute", function, kind, size_bytes)

    def launcher(self, function: Any, geometry: LaunchGeometry, packed: PackedArguments) -> Submit:
        """Return what queues one launch."""
        calls = self._calls
        launch = self._driver.cuLaunchKernel
        shape = (*geometry.grid, geometry.threads, 1, 1, geometry.shared_bytes, self._stream)

        def submit(parameters: PackedArguments = packed) -> None:
            (status,) = launch(function, *shape, parameters.address, 0)
            if status:
                calls.fail("cuLaunchKernel", status)

        calls.raise_if_broken()
        return submit

    def create_event(self) -> Any:
        """Return a timing event."""
        return self._calls("cuEventCreate", self._driver.CUevent_flags.CU_EVENT_DEFAULT)

    def record(self, event: Any) -> None:
        """Queue the recording of an event."""
        self._calls("cuEventRecord", event, self._stream)

    def hold(self) -> None:
        """Make what is queued from now on wait for ``release``."""
        self._gate.shut()

    def release(self) -> None:
        """Let what was queued after ``hold`` run; never raises."""
        self._gate.open()

    def elapsed_us(self, start: Any, stop: Any) -> float:
        """Wait for ``stop`` and return the device time between two recorded events."""
        self._calls("cuEventSynchronize", stop)
        return float(self._calls("cuEventElapsedTime", start, stop)) * 1000.0

    def capture(self, submits: Sequence[Submit]) -> Any:
        """Return an uploaded, executable graph of the launches in sequence."""
        # Thread-local: other threads of the process (Triton's compiler) may call CUDA meanwhile.
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._calls("cuStreamBeginCapture", self._stream, mode)
        try:
            for submit in submits:
                submit()
        except TrialError:
            self._calls.quiet("cuStreamEndCapture", self._stream)
            raise
        graph = self._calls("cuStreamEndCapture", self._stream)
        try:
            executable = self._calls("cuGraphInstantiate", graph, 0)
        finally:
            self._calls.quiet("cuGraphDestroy", graph)
        # Without this the first replay would pay for the upload inside the timed region.
        self._calls("cuGraphUpload", executable, self._stream)
        self.synchronize()
        return executable

    def launch_graph(self, graph: Any) -> None:
        """Queue a graph."""
        self._calls("cuGraphLaunch", graph, self._stream)

    def destroy_graph(self, graph: Any) -> None:
        """Free a graph; never raises."""
        if not self._closed:
            self._calls.quiet("cuGraphExecDestroy", graph)

    def close(self, events: Sequence[Any]) -> None:
        """Free events, stream and context; never raises."""
        self._closed = True
        for event in events:
            self._calls.quiet("cuEventDestroy", event)
        self._calls.quiet("cuStreamDestroy", self._stream)
        self._gate.close()
        self._calls.quiet("cuDevicePrimaryCtxRelease", self._device)
