"""The environment of a measurement: what the device tells, merged with what the host tells."""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import psutil

from tuner.bench.devices.base import Device
from tuner.domain.environment import Environment
from tuner.domain.environment import unknown

# Prefixes of variables that change the code that is built or how fast it runs.
_PREFIXES = ("HIP_", "CUDA_", "TRITON_", "HSA_", "ROCM_", "GPU_", "NVRTC_", "HIPRTC_", "AMD_")
# They say where files lie; a code object is identified by its own hash.
_PLACES = ("_PATH", "_HOME", "_ROOT", "_DIR", "_CACHE", "_TEMP", "_TMP")
# Paths that do change the code: they choose the assembler or the device library.
_TOOLS = ("PTXAS", "LIBDEVICE")
# They choose which devices are shown. The device itself is identified by architecture, PCI id
# and size, so that a measurement on the same model through another slot stays comparable.
_VISIBILITY = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)
# Follows from the device, on which Triton is interpreted or not; it is set by this program.
_IMPLIED = ("TRITON_INTERPRET",)

# Distributions whose version is worth knowing beside a figure, without being part of it: the
# toolchain itself is among the identity fields.
_PACKAGES = (
    "tuner",
    "numpy",
    "triton",
    "cuda-bindings",
    "hip-python",
    "nvidia-ml-py",
    "nvidia-cuda-nvrtc",
)
_LIBTRITON = "triton/_C/libtriton.so"


def environment_of(device: Device, env: Mapping[str, str]) -> Environment:
    """Return the environment of measurements on a device.

    Args:
        device: Asked for its own identity and context.
        env: The environment variables of this process.
    """
    identity = {**device.identity(), **_host_identity()}
    if device.facts.languages.get("triton") == "":
        identity.update(triton_identity())
    for name in sorted(env):
        if _shapes_results(name):
            identity[f"env.{name}"] = env[name]
    context = {**_host_context(), **device.context()}
    context.update({f"env.{name}": env[name] for name in _VISIBILITY if name in env})
    return Environment(identity, context)


def triton_identity() -> dict[str, str]:
    """Return Triton's version and what identifies its compiler, without importing it (0.6 s).

    Triton links LLVM into libtriton.so, and neither tells which LLVM it was. The SHA-256 of
    that library, as the installer recorded it, identifies both.
    """
    try:
        distribution = metadata.distribution("triton")
    except metadata.PackageNotFoundError:
        absent = unknown("no installed distribution is called triton")
        return {"triton": absent, "triton_llvm": absent}
    for file in distribution.files or ():
        if str(file) == _LIBTRITON and file.hash is not None:
            library = f"libtriton.so {file.hash.mode}:{file.hash.value}"
            break
    else:
        library = unknown(f"the installer recorded no hash of {_LIBTRITON}")
    return {"triton": distribution.version, "triton_llvm": library}


def _shapes_results(name: str) -> bool:
    if name in _VISIBILITY or name in _IMPLIED or not name.startswith(_PREFIXES):
        return False
    return not name.endswith(_PLACES) or any(tool in name for tool in _TOOLS)


def _host_identity() -> dict[str, str]:
    try:
        release = platform.freedesktop_os_release()
        system = f"{release['ID']} {release.get('VERSION_ID', '')}".strip()
    except OSError as error:
        system = unknown(f"os-release can't be read: {error.strerror}")
    return {"os": system, "kernel": f"{platform.system()} {platform.release()}"}


def _host_context() -> dict[str, str]:
    versions = {f"package.{name}": _version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "python_implementation": sys.implementation.name,
        "host_hash": hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16],
        "container": _container(),
        "host_cpu": _cpu_model(),
        "host_cores": str(psutil.cpu_count() or unknown("psutil does not tell")),
        "host_load_1min": f"{psutil.getloadavg()[0]:.2f}",
        **{name: version for name, version in versions.items() if version},
    }


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _container() -> str:
    """Say whether this runs in a container; "no" only means that no known sign was found."""
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "yes"
    try:
        control_groups = Path("/proc/1/cgroup").read_text(errors="replace")
    except OSError:
        return unknown("/proc/1/cgroup can't be read")
    signs = ("docker", "kubepods", "containerd", "lxc", "libpod")
    return "yes" if any(sign in control_groups for sign in signs) else "no"


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return unknown(f"{cpuinfo} can't be read")
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
