"""Reads what Triton's compilers tell of a kernel: registers, spills, memory, parameters.

What is not told is None, never 0.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_CUOBJDUMP_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Resources:
    """Per-thread and per-block needs of a compiled kernel. See ``CodeObject``."""

    registers: int | None = None
    spills: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None


def amd_resources(assembly: str) -> Resources:
    """Read the code object's metadata, which Triton's AMD assembly ends with."""
    return Resources(
        registers=_amd_number(assembly, "vgpr_count"),
        spills=_amd_number(assembly, "vgpr_spill_count"),
        spill_bytes=_amd_number(assembly, "private_segment_fixed_size"),
        shared_bytes=_amd_number(assembly, "group_segment_fixed_size"),
    )


def _amd_number(assembly: str, field: str) -> int | None:
    found = re.search(rf"^\s*(?:- )?\.{field}:\s*(\d+)\s*$", assembly, re.MULTILINE)
    return int(found[1]) if found else None


def amd_parameters(assembly: str) -> int:
    """Count the parameters that a launch of AMD code must pass."""
    kinds = re.findall(r"^\s*(?:- )?\.value_kind:\s*(\S+)\s*$", assembly, re.MULTILINE)
    return sum(not kind.startswith("hidden_") for kind in kinds)


def nvidia_parameters(ptx: str) -> int:
    """Count the parameters of the one entry of a PTX text."""
    found = re.search(r"\.entry\s+[^\s(]+\s*\((.*?)\)", ptx, re.DOTALL)
    return found[1].count(".param") if found else 0


def nvidia_resources(cubin: bytes) -> Resources:
    """Ask the cuobjdump that comes with Triton; without it nothing is known.

    Local memory is told in bytes; how many registers were spilled to it is not.
    """
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            done = subprocess.run(
                [Path(knobs.nvidia.cuobjdump.path), "--dump-resource-usage", file.name],
                capture_output=True,
                check=True,
                text=True,
                timeout=_CUOBJDUMP_TIMEOUT_S,
            )
        except (RuntimeError, OSError, subprocess.SubprocessError):
            return Resources()  # not installed, or of another release
    return parse_resource_usage(done.stdout)


def parse_resource_usage(text: str) -> Resources:
    """Read ``REG:38 STACK:0 SHARED:0 LOCAL:0 ...`` of cuobjdump."""
    numbers = {name: int(value) for name, value in re.findall(r"\b([A-Z]+):(\d+)", text)}
    # A spill shows as stack or as local memory, depending on the release.
    local = [numbers[name] for name in ("STACK", "LOCAL") if name in numbers]
    return Resources(
        registers=numbers.get("REG"),
        spill_bytes=max(local) if local else None,
        shared_bytes=numbers.get("SHARED"),
    )
