"""Remembers what a device said of itself, for commands that then measure nothing on it.

To ask a device takes a process, its imports and the start of a driver: more than everything else
that a command does whose answer is stored already. What was said holds as long as nothing has
changed that could change it: this boot, the kernel driver and the devices it shows, every file that
the worker had mapped, the folders in which Python and the linker would find others, and the
environment variables. Whoever measures asks anew (see ``DeviceWorker``).
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path

from tuner.domain.identity import content_hash
from tuner.environ import process_environment
from tuner.settings import Settings
from tuner.worker import messages

# What no file tells, such as a GPU's ECC mode, changes only with a reset of the device. That is not
# seen, so an answer that was given is not taken for true for ever.
MAX_AGE_S = 3600.0
_PROC = Path("/proc")
_SYS = Path("/sys")
_DEV = Path("/dev")
# Without one of these signs, or a mapped file of this name, a change of driver would not be seen.
_DRIVER_SIGNS = {
    "cuda": ("driver/nvidia/version", "libcuda.so"),  # below /proc
    "hip": ("class/kfd/kfd/topology/system_properties", "libhsa-runtime64.so"),  # below /sys
}
_NOT_REMEMBERED_AS_AUTO = ("cpu",)  # `auto` means it where nothing else is usable: that may change
# They differ from one shell to the next, and say nothing of the machine.
_PASSING = ("_", "SHLVL", "PWD", "OLDPWD", "LINES", "COLUMNS", "TERM", "WINDOWID")
_PASSING_PREFIXES = ("SSH_", "XDG_SESSION_", "TMUX", "TERM_", "VTE_")
_LIBRARY_FOLDERS = (
    "/usr/local/cuda/lib64", "/opt/rocm/lib", "/usr/local/lib", "/usr/lib64", "/usr/lib",
    f"/usr/lib/{platform.machine()}-linux-gnu",
)  # fmt: skip
_FOLDERS_OF_VARIABLES = {
    "CUDA_HOME": "lib64", "CUDA_PATH": "lib64", "ROCM_PATH": "lib", "CONDA_PREFIX": "lib",
}  # fmt: skip
# The folder of a command is none: its results may be stored there.
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/os-release", "/usr/lib/os-release")


def remember(asked: str, settings: Settings, ready: messages.Ready, worker_pid: int) -> None:
    """Keep what a device said of itself, where changes of it could be seen.

    Args:
        asked: The name under which it was opened, such as ``auto``.
        settings: Name the cache.
        ready: What its worker said.
        worker_pid: Of that worker, which is still there.
    """
    kind, signs = ready.facts.kind, _signs(settings)
    names = {asked, ready.facts.device_id}
    if kind in _NOT_REMEMBERED_AS_AUTO:
        names.discard("auto")
    with contextlib.suppress(OSError):  # a folder that can't be written, a worker that is gone
        files = _stamps(_libraries(worker_pid))
        if kind != "cpu" and not _shows_driver(kind, signs, files):
            return
        kept = {
            "said": messages.encode(ready).decode(),
            "at_s": time.time(),
            "signs": content_hash(signs),
            "files": files,
        }
        for name in names:
            _write(_path(name, settings), json.dumps(kept))


def recall(asked: str, settings: Settings) -> messages.Ready | None:
    """Return what a device said of itself, or None where it must be asked."""
    try:
        kept = json.loads(_path(asked, settings).read_text(encoding="utf-8"))
        is_young = 0.0 <= time.time() - kept["at_s"] < MAX_AGE_S
        if not is_young or kept["signs"] != content_hash(_signs(settings)):
            return None
        if kept["files"] != _stamps(kept["files"]):
            return None
        said = messages.decode(kept["said"].encode())
    except (OSError, ValueError, KeyError, TypeError, messages.BadMessage):
        return None
    return said if isinstance(said, messages.Ready) else None


def _shows_driver(kind: str, signs: Iterable[str], files: Iterable[str]) -> bool:
    if kind not in _DRIVER_SIGNS:
        return False  # a plug-in's: nobody knows what it depends on
    sign, library = _DRIVER_SIGNS[kind]
    return sign in signs or any(Path(each).name.startswith(library) for each in files)


def _path(asked: str, settings: Settings) -> Path:
    return settings.cache_dir / "devices" / f"{content_hash(asked)[:16]}.json"


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    own = path.with_suffix(f".{os.getpid()}")
    own.write_text(text, encoding="utf-8")
    own.replace(path)


def _signs(settings: Settings) -> dict[str, str]:
    """Return everything by which a change of machine or toolchain shows, but for mapped files."""
    variables = process_environment()
    gpus = _below(_PROC, "driver/nvidia/gpus/*")
    return {
        **_texts(_PROC, ("sys/kernel/random/boot_id", "driver/nvidia/version")),
        **_texts(
            _SYS, ("module/amdgpu/version", "module/amdgpu/srcversion", _DRIVER_SIGNS["hip"][0])
        ),
        **_texts(_SYS, _below(_SYS, "class/kfd/kfd/topology/nodes/*/properties")),
        **_texts(_SYS, _pci_ids(gpus)),
        "gpus": " ".join(gpus),
        # Of a device that is divided, its parts.
        "mig": " ".join(_below(_PROC, "driver/nvidia/capabilities/gpu*/mig/gi*/ci*")),
        "shown": " ".join([*_below(_DEV, "nvidia[0-9]*"), *_below(_DEV, "dri/*")]),
        "kernel": f"{platform.release()} {platform.version()} {os.cpu_count()}",
        "memory": str(os.sysconf("SC_PHYS_PAGES")),
        "python": f"{sys.prefix} {sys.version}",
        "settings": f"{settings.cache_dir} {settings.cpu_wave_size} {settings.cpu_compiler}",
        "variables": content_hash(_lasting(variables)),
        "files": content_hash(_stamps(_files(settings, variables))),
    }


def _pci_ids(gpus: Iterable[str]) -> Iterator[str]:
    """Yield the files that tell which model is at a PCI address.

    The driver's own description is empty while nobody uses the device.
    """
    for gpu in gpus:
        for name in ("vendor", "device", "subsystem_device", "revision"):
            yield f"bus/pci/devices/{Path(gpu).name.lower()}/{name}"


def _lasting(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name not in _PASSING and not name.startswith(_PASSING_PREFIXES)
    }


def _files(settings: Settings, variables: Mapping[str, str]) -> Iterator[str]:
    """Yield files and folders: another compiler, library or package would change one of them."""
    # A package that is installed, exchanged or removed changes its folder.
    yield from (each for each in sys.path if Path(each).name in _PACKAGE_FOLDERS)
    yield from variables.get("PYTHONPATH", "").split(":")
    yield from _SYSTEM_FILES
    yield from _LIBRARY_FOLDERS
    yield from variables.get("LD_LIBRARY_PATH", "").split(":")
    for variable, folder in _FOLDERS_OF_VARIABLES.items():
        if variable in variables:
            yield f"{variables[variable]}/{folder}"
    for name in ("g++", "clang++", settings.cpu_compiler):
        found = shutil.which(name) if name else None
        if found:
            yield os.path.realpath(found)
    bench = Path(__file__).parent.parent / "bench"
    yield from map(str, sorted(bench.rglob("*.py")))


def _stamps(paths: Iterable[str]) -> dict[str, list[int]]:
    """Return time of change and inode of those that are there."""
    found: dict[str, list[int]] = {}
    for path in filter(None, paths):
        with contextlib.suppress(OSError):
            status = os.stat(path)
            found[path] = [status.st_mtime_ns, status.st_ino]
    return found


def _libraries(pid: int) -> set[str]:
    """Return the files whose code a process has mapped."""
    text = (_PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    fields = [line.split(maxsplit=5) for line in text.splitlines()]
    return {
        each[5] for each in fields if len(each) == 6 and "x" in each[1] and each[5].startswith("/")
    }


def _below(root: Path, pattern: str) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.glob(pattern))


def _texts(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the text of those files that can be read, by name."""
    found: dict[str, str] = {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = (root / name).read_text(encoding="utf-8", errors="replace")
    return found
