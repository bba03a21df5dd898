"""Reads a kernel's source text with everything it includes, and hashes it.

Pure text: no kernel is imported or compiled, so the parent can tell whether today's source
is the one a stored result was measured with.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pathlib import PurePosixPath
from typing import TypeAlias

from tuner.domain.identity import content_hash
from tuner.errors import UsageError

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
MAX_SOURCE_BYTES = 4_000_000
# CPython 3.11.7 was seen to raise SystemError, "AST constructor recursion depth mismatch", when
# eight threads built trees at a time.
_PARSING = threading.Lock()
_References: TypeAlias = Callable[[Path, str, str], list[str]]


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Source text of one kernel.

    Attributes:
        language: ``hip`` or ``triton``.
        files: Text of each file of the include closure, by path relative to the operator.
        main: Which file holds the entry point.
        entry: Name of the kernel function; of the first, where there are several launches.
        source_hash: For HIP, SHA-256 over the whole include closure and the entry names; for
            Triton, over the kernel functions, the module-level code they reach by name, and
            the whole text of local modules they import.
    """

    language: str
    files: dict[str, str]
    main: str
    entry: str
    source_hash: str


def read_kernel_source(
    directory: Path, main: str, entries: Sequence[str], language: str
) -> KernelSource:
    """Read the source of a kernel from an operator's folder.

    Args:
        directory: The operator's folder.
        main: The file that defines the entry points.
        entries: The kernel function of each launch, in order.
        language: ``hip`` or ``triton``.

    Raises:
        UsageError: A file is missing, outside the folder, too large or not UTF-8, or it does
            not define an entry point.
    """
    entry = " ".join(entries)  # of one launch: its name, as ever
    if language == "triton":
        files = _closure(directory, main, _local_imports)
        code = _reachable_segments(files[main], main, entries)
        others = {name: text for name, text in files.items() if name != main}
        hashed = {"language": language, "entry": entry, "code": code, "files": others}
    else:
        files = _closure(directory, main, _includes)
        for name in entries:
            # By name only: a macro may build the definition, or an included file may hold it.
            if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in files.values()):
                raise UsageError(f"{directory / main} does not define the kernel {name!r}")
        hashed = {"language": language, "files": files, "main": main, "entry": entry}
    return KernelSource(language, files, main, entries[0], content_hash(hashed))


def _closure(directory: Path, main: str, references: _References) -> dict[str, str]:
    files: dict[str, str] = {}
    pending = [main]
    while pending:
        name = pending.pop()
        if name in files:
            continue
        files[name] = _read_inside(directory, name)
        pending.extend(references(directory, name, files[name]))
    return dict(sorted(files.items()))


def _read_inside(directory: Path, name: str) -> str:
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise UsageError(f"kernel source {name!r} lies outside {directory}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"kernel source {path} can't be read: {error.strerror}") from error
    if len(content) > MAX_SOURCE_BYTES:
        raise UsageError(f"kernel source {path} is larger than {MAX_SOURCE_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"kernel source {path} is not UTF-8") from error


def _includes(directory: Path, name: str, text: str) -> list[str]:
    """Return the quoted includes, relative to the operator's folder as the compiler finds them."""
    found = []
    for include in _INCLUDE.findall(text):
        beside = str(PurePosixPath(name).parent / include)
        found.append(beside if (directory / beside).is_file() else include)
    return found


def _local_imports(directory: Path, name: str, text: str) -> list[str]:
    paths = (module.replace(".", "/") + ".py" for module in _outline(text, name).imports)
    return [path for path in paths if (directory / path).is_file()]


def _reachable_segments(text: str, name: str, entries: Sequence[str]) -> list[str]:
    """Return the text of the entries and all module-level code they reach by name, in order."""
    outline = _outline(text, name)
    defined: dict[str, list[int]] = {}
    for position, statement in enumerate(outline.statements):
        for bound in statement.binds:
            defined.setdefault(bound, []).append(position)
    for entry in entries:
        if entry not in defined:
            raise UsageError(f"{name} does not define the kernel {entry!r}")
    reached: set[int] = set()
    pending = [position for entry in entries for position in defined[entry]]
    while pending:
        position = pending.pop()
        if position not in reached:
            reached.add(position)
            for used in outline.statements[position].uses:
                pending.extend(defined.get(used, ()))
    return [outline.statements[position].text for position in sorted(reached)]


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement of a module: its text, the names it binds and those in it."""

    text: str
    binds: tuple[str, ...]
    uses: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Outline:
    """What decides which parts of a module belong to a kernel."""

    imports: tuple[str, ...]
    statements: tuple[_Statement, ...]


# One file holds the kernels of several implementations, each of which is read by itself.
@lru_cache(maxsize=32)
def _outline(text: str, name: str) -> _Outline:
    try:
        with _PARSING:
            module = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"kernel source {name} is not Python: {error}") from error
    imports: list[str] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            imports.append(node.module)
    lines = text.splitlines()
    statements = tuple(
        _Statement(
            _segment(lines, each),
            tuple(_bound_names(each)),
            frozenset(node.id for node in ast.walk(each) if isinstance(node, ast.Name)),
        )
        for each in module.body
    )
    return _Outline(tuple(imports), statements)


def _bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    return [
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def _segment(lines: Sequence[str], statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(lines[first - 1 : statement.end_lineno])
