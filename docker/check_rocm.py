"""Ends the build of an image whose ROCm, hip-python and Triton don't fit each other.

Standard library only. Needs no GPU.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version
from pathlib import Path

OLDEST_TRITON = (3, 6)


def problems(rocm: str, hip_python: str, triton: str) -> list[str]:
    """Return what does not fit, one line each.

    Args:
        rocm: What ROCm's version file says, such as ``7.2.2`` or ``7.2.2-90``.
        hip_python: Its version; the first three numbers are those of its ROCm. "" if missing.
        triton: Its version, such as ``3.6.0+rocm7.2.2``. "" if missing.
    """
    found = []
    wanted = rocm.partition("-")[0].strip()
    if ".".join(hip_python.split(".")[:3]) != wanted:
        found.append(f"ROCm {wanted} needs hip-python {wanted}.*, there is {hip_python or 'none'}")
    if tuple(int(part) for part in triton.split(".")[:2] if part.isdecimal()) < OLDEST_TRITON:
        oldest = ".".join(str(part) for part in OLDEST_TRITON)
        found.append(f"Triton {oldest} or newer is needed, there is {triton or 'none'}")
    return found


def hip_python_version() -> str:
    """Return the version of hip-python, or "" where it can't be loaded."""
    try:
        import_module("hip.hiprtc")
        return version("hip-python")
    except (ImportError, PackageNotFoundError):
        return ""


def triton_version() -> str:
    """Return what Triton itself says: its package has had several names. "" if it is missing."""
    try:
        return str(import_module("triton").__version__)
    except ImportError:
        return ""


def main(version_file: Path) -> int:
    """Check this image and return the exit code."""
    try:
        rocm = version_file.read_text(encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"error: no ROCm here: {error}\n")
        return 1
    found = problems(rocm, hip_python_version(), triton_version())
    sys.stderr.writelines(f"error: {line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path("/opt/rocm/.info/version")))
