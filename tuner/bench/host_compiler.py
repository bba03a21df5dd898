"""Runs a C++ compiler of this machine: finds it, feeds it a kernel's files, keeps its log."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tuner.domain.environment import unknown
from tuner.domain.identity import Scalar
from tuner.errors import BuildFailed

MAX_LOG_BYTES = 65_536
_VERSION_TIMEOUT_S = 20.0


def first_program(names: Sequence[str]) -> str | None:
    """Return the path of the first of these programs that is installed."""
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    return None


@cache
def compiler_version(compiler: str) -> str:
    """Return a compiler's name and version, the first line it prints for ``--version``.

    A compiler that can't say gives the ``unknown`` value, which equals no other version.
    """
    lines = prints(compiler, "--version").splitlines()
    return lines[0].strip() if lines else unknown(f"{compiler} --version failed")


@cache
def prints(program: str, argument: str) -> str:
    """Return what a program prints for one argument, or "" where it fails.

    Asked once per process: it costs a process start.
    """
    try:
        done = subprocess.run(
            [program, argument],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def macro_flags(macros: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Return ``-DNAME=value`` for each macro, by name; True is 1 and False is 0."""
    return tuple(f"-D{name}={_macro_value(macros[name])}" for name in sorted(macros))


def _macro_value(value: Scalar) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def write_sources(directory: Path, files: Mapping[str, str]) -> None:
    """Write a kernel's files below a directory.

    Raises:
        BuildFailed: A file's name leads out of the directory.
    """
    for name, text in files.items():
        path = (directory / name).resolve()
        if not path.is_relative_to(directory.resolve()):
            raise BuildFailed(f"kernel source {name!r} lies outside its operator's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_compiler(command: Sequence[str], directory: Path) -> str:
    """Run a compiler in a directory and return what it printed, cut to 64 KiB.

    It stays in this process's group, so that who kills the group kills the compiler too. There
    is no deadline here: the parent ends a worker whose build takes too long.

    Raises:
        BuildFailed: The compiler can't be run or refused the source; carries its log.
    """
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise BuildFailed(f"compiler {command[0]} can't be run: {error.strerror}") from error
    log = done.stdout[:MAX_LOG_BYTES].decode("utf-8", "replace")
    if done.returncode != 0:
        raise BuildFailed(_failure_line(command[0], done.returncode, log), log=log)
    return log


def _failure_line(compiler: str, returncode: int, log: str) -> str:
    name = Path(compiler).name
    if returncode < 0:
        return f"{name} was ended by signal {-returncode}"
    for line in log.splitlines():
        if "error:" in line:
            return f"{name}: {line.strip()}"
    return f"{name} ended with code {returncode}"
