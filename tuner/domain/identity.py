"""Canonical text and hashes of plain values, so that equal things have equal names everywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

Scalar: TypeAlias = bool | int | float | str
Config: TypeAlias = Mapping[str, Scalar]
Plain: TypeAlias = Any  # what JSON can hold; a recursive alias would add noise, not safety


def canonical_json(value: Plain) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no NaN.

    Raises:
        ValueError: The value holds a NaN or an infinity, which JSON does not have.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def content_hash(value: Plain) -> str:
    """Return the SHA-256 (64 hex digits) of a value's canonical JSON."""
    return text_hash(canonical_json(value))


def text_hash(text: str) -> str:
    """Return the SHA-256 (64 hex digits) of a text in UTF-8."""
    return bytes_hash(text.encode("utf-8", "surrogatepass"))


def bytes_hash(content: bytes) -> str:
    """Return the SHA-256 (64 hex digits) of bytes."""
    return hashlib.sha256(content).hexdigest()


def config_text(config: Config) -> str:
    """Return a config for people: ``BLOCK=256 num_warps=8``, in the order of its keys."""
    texts = (f"{name}={scalar_text(config[name])}" for name in sorted(config))
    return " ".join(texts) or "(no parameters)"


def scalar_text(value: Scalar) -> str:
    """Return a parameter's value as study files and JSON write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
