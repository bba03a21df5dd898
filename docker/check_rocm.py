"""Ends the build of an image whose ROCm, hip-python and Triton don't fit each other.

Standard library only. Needs no GPU.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

OLDEST_TRITON = (3, 6)
# What modules with compiled parts raise where a library of theirs is missing or another one.
LOADING = (ImportError, OSError, RuntimeError, AttributeError, TypeError, ValueError, SystemError)


class CannotLoad(Exception):
    """A module is there and can't be loaded; the message says why, in one line."""


def problems(rocm: str, hip_python: str, triton: str | None) -> list[str]:
    """Return what does not fit, one line each.

    Args:
        rocm: What ROCm's version file says, such as ``7.2.2`` or ``7.2.2-90``.
        hip_python: Its version; the first three numbers are those of its ROCm. "" if missing.
        triton: Its version, such as ``3.6.0+rocm7.2.2``. "" if missing, None if it can't tell.
    """
    found = []
    wanted = rocm.partition("-")[0].strip()
    if ".".join(hip_python.split(".")[:3]) != wanted:
        found.append(f"ROCm {wanted} needs hip-python {wanted}.*, there is {hip_python or 'none'}")
    if triton is not None and _numbers(triton) < OLDEST_TRITON:
        oldest = ".".join(str(part) for part in OLDEST_TRITON)
        found.append(f"Triton {oldest} or newer is needed, there is {triton or 'none'}")
    return found


def hip_python_version() -> str:
    """Return the version of hip-python, or "" if it is missing."""
    try:
        return version("hip-python")
    except PackageNotFoundError:
        return ""


def triton_version() -> str:
    """Return what Triton itself says: its package has had several names. "" if it is missing.

    Raises:
        CannotLoad: It is there.
    """
    return loaded_version("triton") if find_spec("triton") is not None else ""


def loaded_version(name: str) -> str:
    """Load a module and return the version that it states, or "".

    Raises:
        CannotLoad: It can't be loaded.
    """
    try:
        return str(getattr(import_module(name), "__version__", ""))
    except LOADING as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CannotLoad(f"{name} can't be loaded: {reason}") from error


def main(version_file: Path) -> int:
    """Check this image and return the exit code."""
    try:
        rocm = version_file.read_text(encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"error: no ROCm here: {error}\n")
        return 1
    found = []
    hip_python, triton = hip_python_version(), None
    try:
        if hip_python:
            loaded_version("hip.hiprtc")
    except CannotLoad as error:
        found.append(str(error))
    try:
        triton = triton_version()
    except CannotLoad as error:
        found.append(str(error))
    found += problems(rocm, hip_python, triton)
    sys.stderr.writelines(f"error: {line}\n" for line in found)
    return 1 if found else 0


def _numbers(version_text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version_text.split(".")[:2] if part.isdecimal())


if __name__ == "__main__":
    sys.exit(main(Path("/opt/rocm/.info/version")))
