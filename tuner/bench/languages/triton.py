"""The Triton language: compiled for a GPU's target, or interpreted on the CPU.

Triton is a compiler to us. It turns a kernel into a cubin or hsaco for a stated target, with or
without a GPU of it, and our own device launches the result.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import LoadedKernel
from tuner.bench.devices.base import Toolchain
from tuner.bench.devices.base import TritonTarget
from tuner.bench.languages.base import build_steps
from tuner.bench.languages.base import BuiltStep
from tuner.bench.languages.base import Executable
from tuner.bench.languages.triton_interpreter import InterpretedKernel
from tuner.bench.languages.triton_resources import amd_parameters
from tuner.bench.languages.triton_resources import amd_resources
from tuner.bench.languages.triton_resources import nvidia_parameters
from tuner.bench.languages.triton_resources import nvidia_resources
from tuner.bench.languages.triton_resources import Resources
from tuner.bench.languages.triton_source import load_kernel_function
from tuner.domain.identity import bytes_hash
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.records import BuildReport
from tuner.errors import BuildFailed
from tuner.errors import MissingDependency
from tuner.errors import OutOfResources
from tuner.errors import UsageError

_POINTERS = {
    "float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16", "float64": "*fp64",
    "int32": "*i32", "uint32": "*u32", "int64": "*i64", "uint64": "*u64",
}  # fmt: skip
_SCALARS = {"int32": "i32", "int64": "i64", "float32": "fp32"}
_DIVISIBILITY = 16  # what Triton's own launcher specialises for
# Null pointers that Triton's own launcher appends: its scratch memory and its profiler's.
_SCRATCH_ARGUMENTS = ("global_scratch", "profile_scratch")


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A code object with what is needed to launch it.

    Attributes:
        code: The cubin or hsaco.
        threads: Threads of a block.
        shared_bytes: Dynamic shared memory of a block.
        arguments: The kernel's parameters with Triton's own appended.
    """

    code: CodeObject
    threads: int
    shared_bytes: int
    arguments: tuple[KernelArgument, ...]


class TritonLanguage:
    """Builds Triton kernels. See ``tuner.bench.languages.base.Language``."""

    def load(self) -> None:
        """Import Triton, and have it compute what every key of its cache begins with.

        That is a hash over its own files, 0.5 GB: 0.3 s where they are in memory, 0.9 s where
        not (Triton 3.9, 2-core x86-64, 2026-12-03).

        Raises:
            MissingDependency: Triton is not installed.
        """
        triton = _import_triton()
        if triton.knobs.runtime.interpret:
            return
        with contextlib.suppress(ImportError):  # it may move; then the first build takes longer
            from triton.compiler import code_generator  # noqa: F401 - loaded by each compilation
            from triton.runtime.cache import triton_key

            triton_key()

    def build(self, kernel: Kernel, device: Device) -> Executable:
        """Compile and load a kernel, all its launches, for a GPU or for the interpreter.

        Raises:
            BuildFailed: Triton refused it; carries its log.
            OutOfResources: It needs more shared memory or threads than the device has.
            MissingDependency: Triton is not installed.
        """
        return build_steps(kernel, partial(self._build, device))

    def _build(self, device: Device, kernel: Kernel) -> BuiltStep:
        started = time.perf_counter()
        target = device.triton_target
        if target is None:
            return _interpreted(kernel, started)
        compiled = _compile(kernel, target, will_load=True)
        limit = device.facts.max_threads_per_block
        if compiled.threads > limit:
            raise OutOfResources(f"threads {compiled.threads} > {limit} of the device")
        code = compiled.code
        loaded = device.load(code, compiled.shared_bytes)
        report = BuildReport(
            build_s=time.perf_counter() - started,
            binary_hash=bytes_hash(code.content),
            compiler=code.compiler,
            options=code.options,
            registers=code.registers if loaded.registers is None else loaded.registers,
            spills=code.spills,
            spill_bytes=code.spill_bytes if loaded.spill_bytes is None else loaded.spill_bytes,
            shared_bytes=compiled.shared_bytes + (loaded.shared_bytes or 0),
            code_bytes=len(code.content),
            cached=code.cached,
        )
        geometry = replace(
            kernel.geometry, threads=compiled.threads, shared_bytes=compiled.shared_bytes
        )
        return BuiltStep(loaded, geometry, compiled.arguments, report)

    def compile(self, kernel: Kernel, toolchain: Toolchain) -> CodeObject | None:
        """Compile a kernel into Triton's cache; None where the interpreter runs it.

        Raises:
            BuildFailed: Triton refused it; carries its log.
            OutOfResources: It needs more than the device has.
            MissingDependency: Triton is not installed.
        """
        target = toolchain.triton_target
        return None if target is None else _compile(kernel, target, will_load=True).code

    def compile_for(self, kernel: Kernel, architecture: str, wave_size: int) -> CodeObject:
        """Compile for ``gfx*`` or ``sm_*`` without a device of it.

        The shared memory of a Triton kernel is dynamic; ``shared_bytes`` tells all of it.

        Raises:
            BuildFailed: Triton refused it; carries its log.
            OutOfResources: It needs more than the architecture has.
            MissingDependency: Triton is not installed.
            UsageError: Triton has no target of that name.
        """
        compiled = _compile(kernel, triton_target(architecture, wave_size), will_load=False)
        return replace(compiled.code, shared_bytes=compiled.shared_bytes)


def triton_target(architecture: str, wave_size: int) -> TritonTarget:
    """Return Triton's target for ``gfx1201`` or ``sm_90``.

    Raises:
        UsageError: The architecture is of neither kind.
    """
    if architecture.startswith("gfx"):
        return TritonTarget("hip", architecture, wave_size)
    digits = architecture.removeprefix("sm_").rstrip("af")
    if architecture.startswith("sm_") and digits.isdigit():
        return TritonTarget("cuda", int(digits), wave_size)
    raise UsageError(
        f"Triton has no target for the architecture {architecture!r}",
        hint="name one such as gfx1201, gfx942 or sm_90",
    )


def _import_triton() -> ModuleType:
    try:
        import triton
    except ImportError as error:
        raise MissingDependency(
            f"Triton can't be imported: {error}", hint="pip install 'tuner[triton]'"
        ) from error
    return triton  # type: ignore[no-any-return]


def _interpreted(kernel: Kernel, started: float) -> BuiltStep:
    triton = _import_triton()
    if not triton.knobs.runtime.interpret:
        raise BuildFailed(
            "Triton's interpreter is off: TRITON_INTERPRET=1 must be set when the worker starts"
        )
    function = load_kernel_function(kernel)
    _check_parameters(kernel, list(function.arg_names))
    report = BuildReport(
        build_s=time.perf_counter() - started,
        binary_hash=None,
        compiler=f"triton {triton.__version__} interpreter",
        options=_option_texts(kernel),
    )
    handle = InterpretedKernel(function, kernel.constants)
    return BuiltStep(LoadedKernel(handle), kernel.geometry, kernel.arguments, report)


def _compile(kernel: Kernel, target: TritonTarget, *, will_load: bool) -> _Compiled:
    triton = _import_triton()
    if triton.knobs.runtime.interpret:
        raise BuildFailed(
            "Triton can't compile while TRITON_INTERPRET=1 is set; use a worker without it"
        )
    function = load_kernel_function(kernel)
    names = _check_parameters(kernel, list(function.arg_names))
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = dict.fromkeys(function.arg_names, "constexpr")
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for name, argument in zip(names, kernel.arguments, strict=True):
        signature[name] = _type_name(argument)
        if _is_divisible(argument):
            index = function.arg_names.index(name)
            attributes[(index,)] = [["tt.divisibility", _DIVISIBILITY]]
    source = ASTSource(function, signature, dict(kernel.constants), attributes)
    gpu = GPUTarget(target.backend, target.arch, target.wave_size)
    cache_hits: list[bool] = []
    with _reproducible(triton, cache_hits):
        binary = _guarded(triton, source, gpu, kernel)
    described = _described(triton, kernel, target, binary, will_load=will_load)
    return replace(described, code=replace(described.code, cached=any(cache_hits)))


def _guarded(triton: ModuleType, source: Any, gpu: Any, kernel: Kernel) -> Any:
    """Run Triton's compiler and turn what it raises into our errors."""
    from triton.runtime.errors import OutOfResources as TritonOutOfResources

    try:
        return triton.compile(source, target=gpu, options=_options(kernel, gpu))
    except BuildFailed:
        raise
    except TritonOutOfResources as error:
        raise OutOfResources(str(error)) from error
    except Exception as error:  # Triton raises anything, from AssertionError to RuntimeError
        kind = OutOfResources if "too much shared data" in str(error) else BuildFailed  # ptxas
        raise kind(f"Triton: {_summary(error)}", log=traceback.format_exc()) from error


def _options(kernel: Kernel, gpu: Any) -> dict[str, Any]:
    """Return the compiler's options; refuse those that Triton would silently ignore."""
    from triton.compiler.compiler import make_backend

    # Stated, because its default changes in Triton 3.10: equal configs would be other code.
    options = {"enable_fp_fusion": True, **kernel.options}
    known = vars(make_backend(gpu).parse_options({"enable_fp_fusion": True}))
    for name in options:
        if name not in known:
            raise BuildFailed(f"Triton has no option {name!r} for {gpu.backend}:{gpu.arch}")
    return options


def _summary(error: BaseException) -> str:
    """Return one line that says what is wrong.

    Errors in a kernel's code are wrapped once per call level, each level quoting its source
    before the reason; other errors put the reason first.
    """
    from triton.compiler.errors import CompilationError

    while isinstance(error, CompilationError) and error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or ["no message"]
    reason = lines[-1] if isinstance(error, CompilationError) else lines[0]
    return f"{type(error).__name__}: {reason}"


@contextmanager
def _reproducible(triton: ModuleType, cache_hits: list[bool]) -> Iterator[None]:
    """Compile without line tables, and note whether the binary came from Triton's cache.

    Line tables change with every comment above a kernel, and would give equal machine code
    different hashes.
    """
    knobs = triton.knobs.compilation
    with knobs.scope():
        knobs.disable_line_info = True
        knobs.listener = lambda **event: cache_hits.append(bool(event["cache_hit"]))
        yield


def _described(
    triton: ModuleType, kernel: Kernel, target: TritonTarget, binary: Any, *, will_load: bool
) -> _Compiled:
    metadata = binary.metadata
    scratch_bytes = int(getattr(metadata, "global_scratch_size", 0) or 0)
    if scratch_bytes:
        raise BuildFailed(f"the kernel needs {scratch_bytes} bytes of global scratch memory")
    if target.backend == "hip":
        content, text = binary.asm["hsaco"], binary.asm["amdgcn"]
        resources, parameters = amd_resources(text), amd_parameters(text)
    else:
        content, text = binary.asm["cubin"], binary.asm["ptx"]
        # A driver that loads the code tells the same without the process that this starts.
        resources = Resources() if will_load else nvidia_resources(content)
        parameters = nvidia_parameters(text)
    appended = parameters - len(kernel.arguments)
    if not 0 <= appended <= len(_SCRATCH_ARGUMENTS):
        raise BuildFailed(
            f"the compiled kernel has {parameters} parameters, {len(kernel.arguments)} are passed"
        )
    nulls = tuple(KernelArgument(name, "int64", 0) for name in _SCRATCH_ARGUMENTS[:appended])
    code = _code_object(triton, kernel, target, binary, content, resources)
    return _Compiled(
        code=code,
        threads=int(metadata.num_warps) * target.wave_size,
        shared_bytes=int(metadata.shared),
        arguments=(*kernel.arguments, *nulls),
    )


def _code_object(
    triton: ModuleType,
    kernel: Kernel,
    target: TritonTarget,
    binary: Any,
    content: bytes,
    resources: Resources,
) -> CodeObject:
    return CodeObject(
        content=content,
        entry=str(binary.metadata.name),
        compiler=f"triton {triton.__version__}",
        options=(
            f"target={target.backend}:{target.arch}:{target.wave_size}",
            f"enable_fp_fusion={binary.metadata.enable_fp_fusion}",
            *_option_texts(kernel),
        ),
        registers=resources.registers,
        spills=resources.spills,
        spill_bytes=resources.spill_bytes,
        shared_bytes=resources.shared_bytes,
    )


def _check_parameters(kernel: Kernel, names: list[str]) -> list[str]:
    """Return the names of the run-time parameters, in the order of the kernel's arguments.

    Raises:
        BuildFailed: Constants and arguments do not fit the function's parameters.
    """
    for name in kernel.constants:
        if name not in names:
            raise BuildFailed(f"{kernel.entry} has no parameter {name!r}; it has {names}")
    runtime = [name for name in names if name not in kernel.constants]
    if len(runtime) != len(kernel.arguments):
        passed = [each.name for each in kernel.arguments]
        raise BuildFailed(f"{kernel.entry} takes {runtime}, the operator passes {passed}")
    return runtime


def _type_name(argument: KernelArgument) -> str:
    if argument.type != "buffer":
        return _SCALARS[argument.type]
    if argument.dtype not in _POINTERS:
        raise BuildFailed(f"Triton: no pointer type for {argument.name} of {argument.dtype!r}")
    return _POINTERS[argument.dtype]


def _is_divisible(argument: KernelArgument) -> bool:
    """Tell whether Triton may take a multiple of 16 for granted: it then loads 16 bytes at once.

    Buffers are aligned to 256 bytes by the device's contract.
    """
    if argument.type == "buffer":
        return True
    return isinstance(argument.value, int) and argument.value % _DIVISIBILITY == 0


def _option_texts(kernel: Kernel) -> tuple[str, ...]:
    values = {**kernel.constants, **kernel.options}
    return tuple(f"{name}={value}" for name, value in values.items())
