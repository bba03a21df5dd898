"""Host memory whose ends are guarded, so that an access past a buffer ends the process."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from pathlib import Path

import psutil

from tuner.errors import OutOfDeviceMemory

_PROT_NONE = 0
_PROT_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_MAP_NORESERVE = 0x4000  # Linux on x86-64 and aarch64
_MAP_FAILED = ctypes.c_void_p(-1).value
_CGROUP = Path("/sys/fs/cgroup")


class GuardedBuffer:
    """Memory between two inaccessible pages.

    The payload ends exactly where the upper guard starts, so that reading one element past it
    is a segmentation fault. Its address is therefore aligned to 16 bytes only if its size is a
    multiple of 16 (to 4 bytes for any size in float32): a kernel may load 16 bytes at a time
    where each row is a multiple of 16 bytes. Before the payload lie up to a page of bytes that
    can be accessed.

    Raises:
        OutOfDeviceMemory: The system has not enough memory.
    """

    def __init__(self, size_bytes: int) -> None:
        page = mmap.PAGESIZE
        inner = max(1, -(-size_bytes // page)) * page
        self.size_bytes = size_bytes
        self._mapped_bytes = inner + 2 * page
        self._base = _map(self._mapped_bytes, size_bytes)
        if _libc().mprotect(self._base + page, inner, _PROT_READ_WRITE) != 0:
            self.release()
            raise _no_memory(size_bytes)
        self.address = self._base + page + inner - size_bytes

    def release(self) -> None:
        """Give the memory back. Releasing twice does nothing."""
        if self._base:
            _libc().munmap(self._base, self._mapped_bytes)
            self._base = 0

    @property
    def released(self) -> bool:
        """Whether the memory was given back."""
        return self._base == 0


def memory_bytes() -> int:
    """Return the machine's memory, or the container's limit where that is lower."""
    return min(psutil.virtual_memory().total, _cgroup_bytes("memory.max", default=2**63))


def available_bytes() -> int:
    """Return the memory that can be had now without swapping."""
    limit = _cgroup_bytes("memory.max", default=2**63)
    used = _cgroup_bytes("memory.current", default=0)
    return min(psutil.virtual_memory().available, max(0, limit - used))


def _cgroup_bytes(name: str, *, default: int) -> int:
    """Read a figure of the control group; "max", and no control group, give the default."""
    try:
        text = (_CGROUP / name).read_text("ascii").strip()
    except OSError:
        return default
    return int(text) if text.isdigit() else default


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _map(mapped_bytes: int, size_bytes: int) -> int:
    # The kernel would grant more than there is and kill a process later; ask first.
    if size_bytes > available_bytes() or mapped_bytes > 2**63 - 1:
        raise _no_memory(size_bytes)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    base = _libc().mmap(None, mapped_bytes, _PROT_NONE, flags, -1, 0)
    if base is None or base == _MAP_FAILED:
        raise _no_memory(size_bytes)
    return int(base)


def _no_memory(size_bytes: int) -> OutOfDeviceMemory:
    return OutOfDeviceMemory(f"no {size_bytes} bytes of memory: {available_bytes()} available")
