"""Compiled kernels kept on disk by content, shared by all worker processes of a user."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from tuner.bench.devices.base import CodeObject
from tuner.domain.identity import bytes_hash


class CodeCache:
    """A folder of compiled kernels.

    An entry is one file, moved into place whole, and checked against its own hash when read:
    several processes may build the same kernel at once, and a damaged file is only a miss.

    Args:
        directory: Where entries lie; None turns the cache off.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def get(self, key: str) -> CodeObject | None:
        """Return the entry of a key, marked as cached, or None."""
        if self._directory is None:
            return None
        try:
            header, _, content = (self._directory / key).read_bytes().partition(b"\n")
            fields = json.loads(header)
            if fields.pop("content_hash") != bytes_hash(content):
                return None
            code = CodeObject(content=content, **{**fields, "options": tuple(fields["options"])})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return replace(code, cached=True)

    def put(self, key: str, code: CodeObject) -> None:
        """Store an entry. A folder that can't be written costs the next build, nothing else."""
        if self._directory is None:
            return
        fields = {
            "content_hash": bytes_hash(code.content),
            "entry": code.entry,
            "compiler": code.compiler,
            "options": code.options,
            "log": code.log,
            "registers": code.registers,
            "spills": code.spills,
            "spill_bytes": code.spill_bytes,
            "shared_bytes": code.shared_bytes,
        }
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._directory, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(json.dumps(fields).encode() + b"\n" + code.content)
            Path(name).replace(self._directory / key)
        except OSError:
            return
