"""Turns the text of a Triton kernel into its Python function.

Nothing is written to disk: a worker can be killed at any time, and would leave files behind.
``inspect.getsource``, which Triton needs, reads ``linecache`` instead. Module names depend on
the text alone, and Triton's cache key depends on module names: so another process finds what
this one has compiled.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import CodeType
from types import ModuleType
from typing import Any

from tuner.domain.identity import content_hash
from tuner.domain.job import Kernel
from tuner.errors import BuildFailed

_loaded: dict[str, ModuleType] = {}


def load_kernel_function(kernel: Kernel) -> Any:
    """Return the object that ``@triton.jit`` made of the kernel's entry.

    Equal text is executed once per process; configs share the module.

    Raises:
        BuildFailed: The module fails when executed, or does not define the entry.
    """
    key = content_hash({"files": dict(kernel.files), "main": kernel.main})[:16]
    if key not in _loaded:
        _loaded[key] = _execute(kernel.files, kernel.main, key)
    function = getattr(_loaded[key], kernel.entry, None)
    if not hasattr(function, "arg_names"):
        raise BuildFailed(f"{kernel.main} has no @triton.jit function {kernel.entry!r}")
    return function


def _execute(files: Mapping[str, str], main: str, key: str) -> ModuleType:
    name = f"tuner_kernel_{PurePosixPath(main).stem}_{key}"
    finder = _TextFinder({name: main, **_local_modules(files)}, files, key)
    with _importable(finder):
        try:
            return importlib.import_module(name)
        except Exception as error:  # a kernel module is anyone's code and can raise anything
            raise BuildFailed(
                f"{main} fails when imported: {type(error).__name__}: {error}",
                log=traceback.format_exc(),
            ) from error


def _local_modules(files: Mapping[str, str]) -> dict[str, str]:
    """Return the modules that kernel files can import from each other: name to file."""
    return {path.removesuffix(".py").replace("/", "."): path for path in files}


@contextmanager
def _importable(finder: _TextFinder) -> Iterator[None]:
    """Let imports find a kernel's files, and forget the shared names afterwards.

    Two operators can both have a ``helpers.py``: neither may get the other's, nor hide an
    installed module of that name from the rest of the process.
    """
    hidden = {name: sys.modules.pop(name) for name in finder.local_names if name in sys.modules}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in finder.local_names:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


class _TextFinder(importlib.abc.MetaPathFinder):
    """Finds modules among the files of one kernel."""

    def __init__(self, modules: Mapping[str, str], files: Mapping[str, str], key: str) -> None:
        self._modules = modules
        self._files = files
        self._key = key
        packages = {str(parent) for path in files for parent in PurePosixPath(path).parents}
        self._packages = {name.replace("/", ".") for name in packages - {"."}}

    @property
    def local_names(self) -> set[str]:
        """Names that the kernel's files share with other kernels."""
        shared = {name for name in self._modules if not name.endswith(self._key)}
        return shared | self._packages

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the finder's contract
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a kernel file or of a folder that holds one."""
        if fullname in self._modules:
            file = self._modules[fullname]
            loader = _TextLoader(f"tuner-kernel/{self._key}/{file}", self._files[file])
            return importlib.util.spec_from_loader(fullname, loader)
        if fullname in self._packages:
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        return None


class _TextLoader(importlib.abc.InspectLoader):
    """Loads a module from text and makes the text known to ``inspect``."""

    def __init__(self, filename: str, text: str) -> None:
        self._filename = filename
        self._text = text

    def get_source(self, fullname: str) -> str:  # noqa: ARG002 - the loader's contract
        """Return the text."""
        return self._text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Compile the text under its name."""
        lines = self._text.splitlines(keepends=True)
        # No modification time: linecache then never looks for the file.
        linecache.cache[self._filename] = (len(self._text), None, lines, self._filename)
        return compile(self._text, self._filename, "exec", dont_inherit=True)
