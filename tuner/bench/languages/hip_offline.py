"""Compiles HIP for AMD GPUs with a clang of this machine: no GPU and no ROCm needed.

The kernel gets ``hip_offline.h`` in place of ROCm's headers and device libraries, which lag
behind the compiler in distributions (Debian 12's know no gfx1100 or gfx1201). So the code is
close to hiprtc's, not equal to it: what this gives is shown and checked, never timed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.host_compiler import compiler_version
from tuner.bench.host_compiler import first_program
from tuner.bench.host_compiler import macro_flags
from tuner.bench.host_compiler import prints
from tuner.bench.host_compiler import run_compiler
from tuner.bench.host_compiler import write_sources
from tuner.errors import BuildFailed
from tuner.errors import MissingDependency

_HEADER: Final = Path(__file__).with_name("hip_offline.h")
_HINT: Final = (
    "install clang 17 or newer with the amdgcn target and its lld (Debian: clang-19 lld-19)"
)
# Numbered names first, newest first: distributions keep `clang++` at an older release.
_NEWEST, _OLDEST = 30, 17
_PROGRAMS: Final = (
    *(f"clang++-{version}" for version in range(_NEWEST, _OLDEST - 1, -1)),
    "clang++",
    "amdclang++",
    "/opt/rocm/llvm/bin/clang++",
)
_REMARK: Final = re.compile(
    r"remark:\s+(?:\S+:\d+:\d+:\s+)?(?P<name>[A-Z][^:\n]*): (?P<value>\S+) \[-Rpass-analysis="
)


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What the compiler tells of a kernel's needs; None where it does not.

    Attributes:
        symbol: The kernel's name in the code object.
        registers: Vector registers per thread.
        spills: Vector registers spilled, per thread.
        scratch_bytes: Scratch memory per thread.
        shared_bytes: Static shared memory (LDS) per block.
    """

    symbol: str
    registers: int | None
    spills: int | None
    scratch_bytes: int | None
    shared_bytes: int | None


@cache
def find_amd_compiler() -> str | None:
    """Return the newest clang++ here that has the amdgcn target and a linker, or None."""
    for program in _PROGRAMS:
        path = first_program((program,))
        if path is None or "amdgcn" not in prints(path, "--print-targets"):
            continue
        linker = prints(path, "-print-prog-name=ld.lld").strip()
        if first_program((linker,)):
            return path
    return None


def compile_offline(source: HipSource, architecture: str, wave_size: int) -> CodeObject:
    """Compile a HIP kernel to a code object (hsaco, code object version 5).

    Args:
        source: The kernel.
        architecture: ``gfx1201``, ``gfx942``, ...
        wave_size: 32 or 64.

    Raises:
        BuildFailed: The compiler refused it, or the architecture has no such wave size.
        MissingDependency: No clang with the amdgcn target is installed.
    """
    compiler = find_amd_compiler()
    if compiler is None:
        raise MissingDependency(
            f"no clang++ with the amdgcn target found to compile HIP for {architecture}", hint=_HINT
        )
    options = (
        f"--offload-arch={architecture}",
        "-O3",
        "-std=c++17",
        "-mcode-object-version=5",
        *_wave_flags(architecture, wave_size),
        *macro_flags(source.macros),
        *source.flags,
    )
    content, log = _build(compiler, source, options)
    found = _resources_of(source.entry, log)
    return CodeObject(
        content=content,
        entry=found.symbol,
        compiler=compiler_version(compiler),
        options=options,
        log=log,
        registers=found.registers,
        spills=found.spills,
        spill_bytes=found.scratch_bytes,
        shared_bytes=found.shared_bytes,
    )


def parse_resources(log: str) -> dict[str, KernelResources]:
    """Read clang's ``kernel-resource-usage`` remarks, by kernel symbol."""
    by_symbol: dict[str, dict[str, int]] = {}
    symbol = ""
    for match in _REMARK.finditer(log):
        name, value = match["name"].strip(), match["value"]
        if name == "Function Name":
            symbol = value
            by_symbol[symbol] = {}
        elif symbol and value.isdigit():
            by_symbol[symbol][name] = int(value)
    return {name: _resources(name, fields) for name, fields in by_symbol.items()}


def _resources(symbol: str, fields: Mapping[str, int]) -> KernelResources:
    return KernelResources(
        symbol=symbol,
        registers=fields.get("VGPRs"),
        spills=fields.get("VGPRs Spill"),
        scratch_bytes=fields.get("ScratchSize [bytes/lane]"),
        shared_bytes=fields.get("LDS Size [bytes/block]"),
    )


def _resources_of(entry: str, log: str) -> KernelResources:
    """Find the entry among the kernels the compiler reported: by name, or mangled."""
    reported = parse_resources(log)
    mangled = f"_Z{len(entry)}{entry}"
    for symbol, found in reported.items():
        if symbol == entry or symbol.startswith(mangled):
            return found
    known = ", ".join(sorted(reported)) or "none"
    raise BuildFailed(f"the source has no kernel {entry!r}; it has: {known}", log=log)


def _wave_flags(architecture: str, wave_size: int) -> tuple[str, ...]:
    is_gcn = re.fullmatch(r"gfx[6-9][0-9a-f]{2}(:.*)?", architecture) is not None
    if wave_size not in (32, 64) or (is_gcn and wave_size != 64):
        raise BuildFailed(f"{architecture} has no wave size {wave_size}")
    return ("-mwavefrontsize64",) if wave_size == 64 and not is_gcn else ()


def _build(compiler: str, source: HipSource, options: tuple[str, ...]) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="tuner-build-") as name:
        directory = Path(name)
        write_sources(directory, {"hip_offline.h": _HEADER.read_text("utf-8")})
        # Kernels may include the runtime's header, as hiprtc allows; it adds nothing here.
        write_sources(directory / "source", {"hip/hip_runtime.h": "#pragma once\n"})
        write_sources(directory / "source", source.files)
        command = [
            compiler,
            "-x",
            "hip",
            "--cuda-device-only",
            "--no-gpu-bundle-output",
            "-nogpuinc",
            "-nogpulib",
            "-fuse-cuid=none",  # else a symbol is named after the temporary directory
            "-Rpass-analysis=kernel-resource-usage",
            *options,
            "-I",
            "source",
            "-include",
            "hip_offline.h",
            f"source/{source.main}",
            "-o",
            "kernel.hsaco",
        ]
        log = run_compiler(command, directory)
        return (directory / "kernel.hsaco").read_bytes(), log
