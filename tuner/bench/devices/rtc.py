"""Runtime compilers: NVRTC and hiprtc have the same calls under different names."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tuner.bench.devices.base import CodeObject
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.code_cache import CodeCache
from tuner.domain.environment import unknown
from tuner.domain.identity import content_hash
from tuner.domain.identity import Scalar
from tuner.errors import BuildFailed
from tuner.errors import EnvironmentProblem
from tuner.errors import MissingDependency


@dataclass(frozen=True, slots=True)
class RuntimeCompiler:
    """NVRTC or hiprtc.

    Attributes:
        module: Binding module.
        prefix: Of its functions: ``nvrtc`` or ``hiprtc``.
        code: What the built code is called in its functions: ``CUBIN`` or ``Code``.
        reference: Gives what the destroy function takes for a program.
        remedy: What to do when the library is not found.
        release: More that tells one build of the compiler from another, or "".
    """

    module: Any
    prefix: str
    code: str
    reference: Callable[[Any], Any]
    remedy: str
    release: Callable[[], str] = str

    def version(self) -> str:
        """Return ``nvrtc 13.0`` or ``hiprtc 9.0``.

        Raises:
            MissingDependency: The library is not found.
        """
        # The bindings load the library at the first call, and raise RuntimeError (or a kind of
        # it) when there is none.
        try:
            status, major, minor = getattr(self.module, f"{self.prefix}Version")()
        except RuntimeError as error:
            raise MissingDependency(
                f"the {self.prefix} library can't be loaded: {str(error).splitlines()[0]}",
                hint=self.remedy,
            ) from error
        if status:
            raise EnvironmentProblem(f"{self.prefix}Version: {status}", hint=self.remedy)
        return f"{self.prefix} {major}.{minor} {self.release()}".rstrip()

    def why_unusable(self) -> str:
        """Return "" where the library can be used, else the reason and the remedy."""
        try:
            self.version()
        except EnvironmentProblem as error:
            return f"{error.message} ({error.hint})"
        return ""

    def identity(self) -> str:
        """Return the version as an environment field."""
        try:
            return self.version()
        except EnvironmentProblem as error:
            return unknown(error.message)

    def build(
        self,
        source: HipSource,
        headers: Mapping[str, str],
        options: Sequence[str],
        cache: CodeCache,
    ) -> CodeObject:
        """Compile a source, or take the result from the cache.

        Args:
            source: What to compile; its other files are includable by path and by bare name.
            headers: More headers by include name.
            options: Compiler options, without macros.
            cache: Where results are kept.

        Raises:
            BuildFailed: The compiler refused it; carries its whole log.
            MissingDependency: The library is not found.
        """
        compiler = self.version()
        every_option = (*options, *macro_options(source.macros))
        included = {**includable(source), **headers}
        parts = (compiler, every_option, included, source.main, source.files[source.main])
        key = content_hash([*parts, source.entry])
        cached = cache.get(key)
        if cached is not None:
            return cached
        content, log = self._compile(source, included, every_option)
        code = CodeObject(content, source.entry, compiler, every_option, log)
        cache.put(key, code)
        return code

    def _compile(
        self, source: HipSource, included: Mapping[str, str], options: Sequence[str]
    ) -> tuple[bytes, str]:
        program = self._call(
            "CreateProgram",
            source.files[source.main].encode(),
            source.main.encode(),
            len(included),
            [text.encode() for text in included.values()],
            [name.encode() for name in included],
        )
        try:
            arguments = [option.encode() for option in options]
            (status,) = getattr(self.module, f"{self.prefix}CompileProgram")(
                program, len(arguments), arguments
            )
            log = self._bytes_of(program, "ProgramLog").decode(errors="replace").rstrip("\0\n ")
            if status:
                # Some releases of hiprtc report bad options with an empty log.
                log = log or f"{self.prefix}: {status} and no log; options: {' '.join(options)}"
                raise BuildFailed(f"{source.main}: {_first_error(log)}", log=log)
            return self._bytes_of(program, self.code), log
        finally:
            getattr(self.module, f"{self.prefix}DestroyProgram")(self.reference(program))

    def _bytes_of(self, program: Any, what: str) -> bytes:
        content = bytearray(self._call(f"Get{what}Size", program))
        if content:
            self._call(f"Get{what}", program, content)
        return bytes(content)

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *payload = getattr(self.module, f"{self.prefix}{name}")(*arguments)
        if status:
            raise BuildFailed(f"{self.prefix}{name}: {status}")
        return payload[0] if payload else None


def macro_options(macros: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Return ``-DNAME=value`` for each macro, in the order of their names; bools as 1 and 0."""
    return tuple(
        f"-D{name}={int(value) if isinstance(value, bool) else value}"
        for name, value in sorted(macros.items())
    )


def includable(source: HipSource) -> dict[str, str]:
    """Return the source's other files by include name.

    Runtime compilers look a name up as it is written and don't search the folder of the
    including file, so that a file in a sub-folder is also given under its bare name.
    """
    others = {name: text for name, text in source.files.items() if name != source.main}
    bare = {PurePosixPath(name).name: text for name, text in sorted(others.items())}
    return {**bare, **others}


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0])
