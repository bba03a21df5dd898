"""Stand-ins for the vendors' bindings: they record every call and run two kernels on the host.

Device memory is host memory, so that packed arguments are read back through the pointers that
the driver would get. Statuses are the vendors' own enumerations.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tuner.domain.job import LaunchGeometry
from tuner.testing.device_contract import FAKE_KERNELS
from tuner.testing.fake_device import FakeCall

GCN_NAME = b"gfx1201:xnack-"
MEMORY_BYTES = 1 << 34
KERNEL_US = 10.0
PARAMETERS = {
    "scale": {
        "out": ctypes.c_uint64,
        "in": ctypes.c_uint64,
        "count": ctypes.c_int64,
        "factor": ctypes.c_float,
        "offset": ctypes.c_int32,
    },
    "block_sum": {"out": ctypes.c_uint64, "in": ctypes.c_uint64},
}


class Machine:
    """One simulated device. ``fail`` gives the status of the next call of a name."""

    def __init__(self, ok: Any, not_found: Any) -> None:
        self.ok = ok
        self.not_found = not_found
        self.calls: list[str] = []
        self.arguments: dict[str, tuple[Any, ...]] = {}
        self.fail: dict[str, Any] = {}
        self.memory: dict[int, Any] = {}
        self.clock_us = 100.0
        self.capturing: list[Callable[[], None]] | None = None

    def namespace(self, functions: dict[str, Callable[..., Any]], **others: Any) -> Any:
        """Return a module-like object whose functions record themselves and give a status."""
        return SimpleNamespace(
            **{name: self._recorded(name, function) for name, function in functions.items()},
            **others,
        )

    def _recorded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            self.arguments[name] = arguments
            status = self.fail.pop(name, self.ok)
            if status:  # as the bindings do: a null result, but none at all for a launch
                return (status,) if name.endswith("LaunchKernel") else (status, None)
            payload = function(*arguments)
            return (status,) if payload is None else (status, payload)

        return call

    def allocate(self, size_bytes: int) -> int:
        content = ctypes.create_string_buffer(size_bytes + 256)
        address = (ctypes.addressof(content) + 255) // 256 * 256
        self.memory[address] = content
        return address

    def free(self, address: Any) -> None:
        del self.memory[_number(address)]

    def copy(self, target: Any, source: Any, size_bytes: int, *_rest: Any) -> None:
        ctypes.memmove(_number(target), _number(source), size_bytes)

    def fill(self, address: Any, byte: int, size_bytes: int, _stream: Any) -> None:
        ctypes.memset(_number(address), byte, size_bytes)

    def load(self, content: bytes) -> dict[str, Any]:
        return json.loads(bytes(content))

    def function(self, module: dict[str, Any], name: bytes) -> Any:
        return SimpleNamespace(name=name.decode(), macros=module["macros"])

    def launch(self, function: Any, *arguments: Any) -> None:
        gx, gy, gz, tx, _ty, _tz, shared, _stream, parameters, _extra = arguments
        names = PARAMETERS[function.name]
        pointers = (ctypes.c_void_p * len(names)).from_address(_number(parameters))
        values = {
            name: kind.from_address(pointer).value
            for (name, kind), pointer in zip(names.items(), pointers, strict=True)
        }
        arrays = {name: values.pop(name) for name in ("out", "in")}
        size_bytes = int(values.get("count", gx * tx)) * 4
        views = {
            name: np.frombuffer((ctypes.c_uint8 * size_bytes).from_address(address), np.uint8)
            for name, address in arrays.items()
        }
        geometry = LaunchGeometry((gx, gy, gz), tx, shared)
        call = FakeCall(geometry, function.macros, values, views, 0)

        def run() -> None:
            FAKE_KERNELS[function.name](call)
            self.clock_us += KERNEL_US

        if self.capturing is None:
            run()
        else:
            self.capturing.append(run)

    def begin_capture(self, *_: Any) -> None:
        self.capturing = []

    def end_capture(self, _stream: Any) -> list[Callable[[], None]]:
        graph, self.capturing = self.capturing or [], None
        return graph

    def launch_graph(self, graph: list[Callable[[], None]], _stream: Any) -> None:
        for run in graph:
            run()

    def record(self, event: Any, _stream: Any) -> None:
        event.us = self.clock_us

    def elapsed_ms(self, start: Any, stop: Any) -> float:
        return (stop.us - start.us) / 1000


def _number(address: Any) -> int:
    return int(getattr(address, "value", address))


def nothing(*_: Any) -> None:
    """Do nothing."""


def new_event(*_: Any) -> Any:
    """Return an event that was not recorded."""
    return SimpleNamespace(us=None)


def cuda(machine: Machine, enums: Any) -> Any:
    """Return a stand-in for ``cuda.bindings.driver``; ``enums`` is the real one."""
    attributes = {
        "COMPUTE_CAPABILITY_MAJOR": 9,
        "COMPUTE_CAPABILITY_MINOR": 0,
        "MULTIPROCESSOR_COUNT": 132,
        "WARP_SIZE": 32,
        "MAX_THREADS_PER_BLOCK": 1024,
        "MAX_GRID_DIM_X": 2**31 - 1,
        "MAX_GRID_DIM_Y": 65535,
        "MAX_GRID_DIM_Z": 65535,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
        "L2_CACHE_SIZE": 1 << 20,
    }
    named = {
        getattr(enums.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"): value
        for name, value in attributes.items()
    }
    shared_kind = enums.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    functions: dict[str, Callable[..., Any]] = {
        "cuInit": nothing,
        "cuDeviceGetCount": lambda: 1,
        "cuDeviceGet": lambda index: index,
        "cuDeviceGetAttribute": lambda kind, _device: named[kind],
        "cuDeviceGetName": lambda _length, _device: b"Stand-in GPU\0\0",
        "cuDeviceTotalMem": lambda _device: MEMORY_BYTES,
        "cuDeviceGetPCIBusId": lambda _length, _device: b"0000:FF:00.0\0",
        "cuDriverGetVersion": lambda: 13000,
        "cuDevicePrimaryCtxRetain": lambda _device: "context",
        "cuCtxSetCurrent": nothing,
        "cuDevicePrimaryCtxRelease": nothing,
        "cuStreamCreate": lambda _flags: "stream",
        "cuStreamSynchronize": nothing,
        "cuStreamDestroy": nothing,
        "cuMemAlloc": machine.allocate,
        "cuMemFree": machine.free,
        "cuMemcpyHtoDAsync": machine.copy,
        "cuMemcpyDtoHAsync": machine.copy,
        "cuMemsetD8Async": machine.fill,
        "cuModuleLoadData": machine.load,
        "cuModuleUnload": nothing,
        "cuModuleGetFunction": machine.function,
        "cuFuncGetAttribute": lambda kind, _function: 0 if kind == shared_kind else 24,
        "cuFuncSetAttribute": nothing,
        "cuLaunchKernel": machine.launch,
        "cuEventCreate": new_event,
        "cuEventRecord": machine.record,
        "cuEventSynchronize": nothing,
        "cuEventElapsedTime": machine.elapsed_ms,
        "cuMemHostAlloc": lambda _size, _flags: machine.allocate(4),
        "cuMemFreeHost": machine.free,
        "cuStreamWaitValue32": nothing,
        "cuEventDestroy": nothing,
        "cuStreamBeginCapture": machine.begin_capture,
        "cuStreamEndCapture": machine.end_capture,
        "cuGraphInstantiate": lambda graph, _flags: graph,
        "cuGraphUpload": nothing,
        "cuGraphLaunch": machine.launch_graph,
        "cuGraphDestroy": nothing,
        "cuGraphExecDestroy": nothing,
        "cuGetErrorString": lambda status: f"text of {status.name}".encode(),
    }
    kept = ("CUresult", "CUstream_flags", "CUevent_flags", "CUstreamCaptureMode")
    kept += ("CUfunction_attribute", "CUdevice_attribute", "CUstreamWaitValue_flags")
    return machine.namespace(functions, **{name: getattr(enums, name) for name in kept})


def hip(machine: Machine, enums: Any) -> Any:
    """Return a stand-in for hip-python's ``hip``; ``enums`` is the real one."""
    attributes = {
        "MultiprocessorCount": 32,
        "PhysicalMultiProcessorCount": 64,
        "WarpSize": 32,
        "MaxThreadsPerBlock": 1024,
        "MaxGridDimX": 2**31 - 1,
        "MaxGridDimY": 65535,
        "MaxGridDimZ": 65535,
        "MaxSharedMemoryPerBlock": 65536,
        "L2CacheSize": 8 << 20,
        "PciDomainID": 0,
        "PciBusId": 255,
        "PciDeviceId": 0,
    }
    named = {
        getattr(enums.hipDeviceAttribute_t, f"hipDeviceAttribute{name}"): value
        for name, value in attributes.items()
    }
    shared_kind = enums.hipFunction_attribute.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    properties = SimpleNamespace(gcnArchName=GCN_NAME, name=b"Stand-in Radeon")
    functions: dict[str, Callable[..., Any]] = {
        "hipGetDeviceCount": lambda: 1,
        "hipGetDeviceProperties": lambda _index: properties,
        "hipDeviceGetAttribute": lambda kind, _index: named[kind],
        "hipDeviceTotalMem": lambda _index: MEMORY_BYTES,
        "hipRuntimeGetVersion": lambda: 60443484,
        "hipSetDevice": nothing,
        "hipStreamCreateWithFlags": lambda _flags: "stream",
        "hipStreamSynchronize": nothing,
        "hipStreamDestroy": nothing,
        "hipMalloc": machine.allocate,
        "hipFree": machine.free,
        "hipMemcpyAsync": machine.copy,
        "hipMemsetAsync": machine.fill,
        "hipModuleLoadData": machine.load,
        "hipModuleUnload": nothing,
        "hipModuleGetFunction": machine.function,
        "hipFuncGetAttribute": lambda kind, _function: 0 if kind == shared_kind else 24,
        "hipModuleLaunchKernel": machine.launch,
        "hipEventCreate": new_event,
        "hipEventRecord": machine.record,
        "hipEventSynchronize": nothing,
        "hipEventElapsedTime": machine.elapsed_ms,
        "hipEventDestroy": nothing,
        "hipStreamBeginCapture": machine.begin_capture,
        "hipStreamEndCapture": machine.end_capture,
        "hipGraphInstantiateWithFlags": lambda graph, _flags: graph,
        "hipGraphUpload": nothing,
        "hipGraphLaunch": machine.launch_graph,
        "hipGraphDestroy": nothing,
        "hipGraphExecDestroy": nothing,
        "hipGetErrorString": lambda status: f"text of {status.name}",
    }
    kept = ("hipError_t", "hipMemcpyKind", "hipStreamCaptureMode")
    kept += ("hipFunction_attribute", "hipDeviceAttribute_t")
    return machine.namespace(functions, **{name: getattr(enums, name) for name in kept})


class Compiler:
    """NVRTC or hiprtc: "compiles" a source to JSON of what it was given."""

    def __init__(self, prefix: str, code: str, ok: Any, failed: Any) -> None:
        self._ok = ok
        self._failed = failed
        self.programs: list[SimpleNamespace] = []
        self.destroyed = 0
        for name, function in {
            "Version": lambda: (ok, 13, 0),
            "CreateProgram": self._create,
            "CompileProgram": self._compile,
            "GetProgramLogSize": lambda program: (ok, len(program.log)),
            "GetProgramLog": lambda program, out: self._copy(out, program.log),
            f"Get{code}Size": lambda program: (ok, len(program.code)),
            f"Get{code}": lambda program, out: self._copy(out, program.code),
            "DestroyProgram": self._destroy,
        }.items():
            setattr(self, prefix + name, function)

    def _create(self, text: bytes, name: bytes, count: int, texts: Any, names: Any) -> Any:
        headers = dict(zip(names, texts, strict=True))
        assert count == len(headers)
        program = SimpleNamespace(text=text.decode(), name=name, headers=headers, log=b"\0")
        program.createRef = lambda: program
        self.programs.append(program)
        return (self._ok, program)

    def _compile(self, program: Any, count: int, options: list[bytes]) -> tuple[Any]:
        assert count == len(options)
        program.options = [option.decode() for option in options]
        errors = [line for line in program.text.splitlines() if line.startswith("#error")]
        if errors:
            program.log = "\n".join([*errors, "1 error"]).encode() + b"\0"
            return (self._failed,)
        given = dict(o[2:].split("=") for o in program.options if o.startswith("-D"))
        macros = {name: int(value) for name, value in given.items()}
        program.code = json.dumps({"text": program.text, "macros": macros}).encode()
        return (self._ok,)

    def _copy(self, out: bytearray, content: bytes) -> tuple[Any]:
        out[:] = content
        return (self._ok,)

    def _destroy(self, _program: Any) -> tuple[Any]:
        self.destroyed += 1
        return (self._ok,)
