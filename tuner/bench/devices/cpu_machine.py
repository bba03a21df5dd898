"""What Linux tells of the processor. What can't be read is None or the unknown value, never 0."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from tuner.domain.environment import unknown

_CPU0 = Path("/sys/devices/system/cpu/cpu0")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


def model_name() -> str:
    """Return the processor's model name (x86) or part numbers (Arm) from /proc/cpuinfo."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError as error:
        return unknown(f"/proc/cpuinfo: {error.strerror}")
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    if fields.get("model name"):
        return fields["model name"]
    if "CPU part" in fields:
        return f"implementer {fields.get('CPU implementer', '?')} part {fields['CPU part']}"
    return unknown("/proc/cpuinfo names no model")


def cores() -> int:
    """Return the physical cores, or the logical ones where the system does not tell."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def last_level_cache_bytes() -> int:
    """Return the size of the last-level cache that core 0 uses; 0 where it is unknown."""
    sizes: dict[int, int] = {}
    for index in sorted(_CPU0.glob("cache/index*")):
        try:
            level = int((index / "level").read_text("ascii"))
            text = (index / "size").read_text("ascii").strip()
            sizes[level] = int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)
        except (OSError, ValueError):
            continue
    return sizes[max(sizes)] if sizes else 0


def frequency_governor() -> str:
    """Return the frequency governor of core 0."""
    try:
        return (_CPU0 / "cpufreq/scaling_governor").read_text("ascii").strip()
    except OSError as error:
        return unknown(f"scaling_governor: {error.strerror}")


def clock_mhz() -> float | None:
    """Return core 0's present clock in MHz, or None where there is no frequency driver."""
    try:
        return int((_CPU0 / "cpufreq/scaling_cur_freq").read_text("ascii")) / 1000
    except (OSError, ValueError):
        return None


def load_average() -> str:
    """Return the load of the last minute, in runnable processes."""
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except OSError as error:
        return unknown(f"load average: {error.strerror}")


def c_library() -> str:
    """Return the C library's name and version."""
    name, version = platform.libc_ver()
    return f"{name} {version}" if name else unknown("the C library does not tell its version")
