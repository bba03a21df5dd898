"""Operators with the hashes of their sources, read again only when a file has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tuner.api.common import find_operator
from tuner.api.common import source_hashes
from tuner.operator import Operator
from tuner.resources import kernels_dir
from tuner.settings import Settings

# What stat(2) tells of a file or folder: its place, size, and times of content and inode.
_Look: TypeAlias = tuple[str, int, int, int, int]

# A file that is written twice within one tick of the file system's clock can keep its times:
# what was read of one that changed so lately is not kept. FAT's clock has ticks of 2 s.
SETTLED_NS = 2_500_000_000


@dataclass(frozen=True, slots=True)
class KnownOperator:
    """An operator as its folder has it.

    Attributes:
        operator: The operator.
        hashes: Source hash of each implementation.
    """

    operator: Operator
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    known: KnownOperator
    looks: frozenset[_Look]


class OperatorMemory:
    """Operators by name. ``find`` returns the same object for as long as no file changes.

    Args:
        settings: Name the folders.
        settled_ns: How old a file must be for its times to tell of the next change.
    """

    def __init__(self, settings: Settings, settled_ns: int = SETTLED_NS) -> None:
        self._settings = settings
        self._roots = (kernels_dir(), *settings.operators)
        self._settled_ns = settled_ns
        self._kept: dict[str, _Kept] = {}

    def find(self, name: str) -> KnownOperator:
        """Return an operator.

        Raises:
            NotFound: There is none of that name.
            UsageError: Its folder is not a sound operator.
        """
        kept = self._kept.get(name)
        if kept is not None and self.is_current(kept.known):
            return kept.known
        begun_ns = time.time_ns()
        operator = find_operator(name, self._settings)
        looks = self._looks(operator)
        known = KnownOperator(operator, source_hashes(operator))
        # `operator.py` was read before the look, the sources after it: a file that was changed
        # around then is too new to be kept.
        newest_ns = max(max(look[2:4]) for look in looks)
        if newest_ns < begun_ns - self._settled_ns:
            self._kept[name] = _Kept(known, looks)
        else:
            self._kept.pop(name, None)
        return known

    def is_current(self, known: KnownOperator) -> bool:
        """Tell whether ``find`` would return this very object."""
        kept = self._kept.get(known.operator.name)
        return (
            kept is not None and kept.known is known and kept.looks == self._looks(known.operator)
        )

    def _looks(self, operator: Operator) -> frozenset[_Look]:
        """Look at all files of an operator, and at the folders that can hold another one.

        A folder's times change when an entry is added, removed or renamed.
        """
        looks = set(_files(str(operator.directory)))
        for root in self._roots:
            looks.add(_look(str(root)))
            looks |= {_look(each.path) for each in _entries(str(root)) if _is_dir(each)}
        return frozenset(looks)


def _files(folder: str) -> Iterator[_Look]:
    for each in _entries(folder):
        if not _is_dir(each):
            yield _look(each.path)
        elif each.name != "__pycache__":
            yield from _files(each.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing, where it is gone or can't be read.

    What that means is for ``find_operator`` to say, which is asked because the look differs.
    """
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _look(path: str) -> _Look:
    try:
        status = os.stat(path)
    except OSError:  # a link to nothing, as Emacs leaves beside a file that it edits
        return path, -1, 0, 0, 0
    return path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
