"""Builds a HIP source as a shared library for this machine, with a cache on disk."""

from __future__ import annotations

import platform
import re
import tempfile
from pathlib import Path
from typing import Final

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.code_cache import CodeCache
from tuner.bench.host_compiler import compiler_version
from tuner.bench.host_compiler import first_program
from tuner.bench.host_compiler import macro_flags
from tuner.bench.host_compiler import run_compiler
from tuner.bench.host_compiler import write_sources
from tuner.domain.environment import UNKNOWN_PREFIX
from tuner.domain.identity import content_hash
from tuner.errors import BuildFailed
from tuner.errors import MissingDependency

COMPILERS: Final = ("g++", "clang++")
NO_COMPILER: Final = "no C++ compiler found (looked for g++, clang++)"

# Without -march: a library in the cache runs on every machine of the architecture that shares
# the cache. -D_FORTIFY_SOURCE=0: its longjmp refuses to jump between stacks.
_FLAGS: Final = (
    "-O2",
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=0",
)
# Shadow stacks do not follow a jump between stacks either; distributions turn them on.
_X86_FLAGS: Final = ("-fcf-protection=none",)

_HEADERS: Final = (
    "hip_on_cpu.h",
    "hip_on_cpu_types.h",
    "hip_on_cpu_fibers.h",
    "hip_on_cpu_builtins.h",
)
_ENTRY_FILE: Final = "entry.cpp"
_LIBRARY: Final = "kernel.so"

_DYNAMIC_SHARED: Final = re.compile(
    r"\bextern\s+__shared__\s+(?P<type>[^;\[\]{}()=]*(?:\([^()]*\)[^;\[\]{}()=]*)?[\s>*])"
    r"(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
_STATIC_SHARED: Final = re.compile(r"\bstatic\s+__shared__\b|\b__shared__\s+static\b")


def find_compiler(preferred: str | None = None) -> str | None:
    """Return the path of a C++ compiler, or None where there is none.

    Args:
        preferred: Name or path to take instead of looking for g++ and clang++.
    """
    return first_program((preferred,) if preferred else COMPILERS)


def rewrite_shared_memory(text: str) -> str:
    """Put declarations of shared memory into words that the host's compiler has.

    ``extern __shared__ T name[];`` becomes a pointer to the one buffer that the header has for
    dynamic shared memory. No macro can do this: ``__shared__`` stands for ``static`` storage,
    which does not go with ``extern``, and the name comes after the type. Line numbers stay.
    """

    def pointer(match: re.Match[str]) -> str:
        element, name = match["type"].strip(), match["name"]
        lines = "\n" * match[0].count("\n")
        return (
            f"{element}* const {name} = "
            f"reinterpret_cast<{element}*>(tuner_hip::dynamic_shared);{lines}"
        )

    return _STATIC_SHARED.sub("__shared__", _DYNAMIC_SHARED.sub(pointer, text))


class HostCompiler:
    """Compiles HIP sources with the host's C++ compiler.

    Args:
        path: The compiler; None where there is none.
        cache_dir: Where built libraries are kept; None for no cache. Several processes may
            share it.
    """

    def __init__(self, path: str | None, cache_dir: Path | None) -> None:
        self.path = path
        self._cache = CodeCache(cache_dir)

    @property
    def version(self) -> str:
        """Name and version of the compiler, or why it is unknown."""
        return compiler_version(self.path) if self.path else UNKNOWN_PREFIX + NO_COMPILER

    def compile(self, source: HipSource) -> CodeObject:
        """Build a kernel, or take it from the cache.

        Raises:
            BuildFailed: The compiler refused it; carries its log.
            MissingDependency: There is no compiler.
        """
        if self.path is None:
            raise MissingDependency(NO_COMPILER, hint="install g++ or clang++")
        options = self._options(source)
        headers = {name: Path(__file__).with_name(name).read_text("utf-8") for name in _HEADERS}
        key = self._cache_key(source, options, headers)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        content, log = self._build(source, options, headers)
        code = CodeObject(
            content=content,
            entry=source.entry,
            compiler=self.version,
            options=options,
            log=log,
        )
        self._cache.put(key, code)
        return code

    def _options(self, source: HipSource) -> tuple[str, ...]:
        x86 = platform.machine() in ("x86_64", "i686")
        return (
            *_FLAGS,
            *(_X86_FLAGS if x86 else ()),
            *macro_flags(source.macros),
            *source.flags,
        )

    def _build(
        self, source: HipSource, options: tuple[str, ...], headers: dict[str, str]
    ) -> tuple[bytes, str]:
        assert self.path is not None
        with tempfile.TemporaryDirectory(prefix="tuner-build-") as name:
            directory = Path(name)
            write_sources(directory, headers)
            write_sources(directory, {_ENTRY_FILE: _entry_text(source)})
            # Kernels may include the runtime's header, as hiprtc allows; it adds nothing here.
            write_sources(directory / "source", {"hip/hip_runtime.h": "#pragma once\n"})
            write_sources(
                directory / "source",
                {name: rewrite_shared_memory(text) for name, text in source.files.items()},
            )
            # Relative names only, so that equal sources give equal bytes in every directory.
            log = run_compiler(
                [self.path, *options, "-I", "source", _ENTRY_FILE, "-o", _LIBRARY], directory
            )
            return (directory / _LIBRARY).read_bytes(), log

    def _cache_key(
        self, source: HipSource, options: tuple[str, ...], headers: dict[str, str]
    ) -> str:
        return content_hash(
            {
                "files": dict(source.files),
                "main": source.main,
                "entry": source.entry,
                "options": list(options),
                "headers": headers,
                "compiler": [self.path, self.version],
                "machine": platform.machine(),
            }
        )


def _entry_text(source: HipSource) -> str:
    if '"' in source.main or "\n" in source.main:
        raise BuildFailed(f"kernel source {source.main!r} has an impossible name")
    return f'#include "hip_on_cpu.h"\n#include "{source.main}"\nTUNER_HIP_ENTRY({source.entry})\n'
