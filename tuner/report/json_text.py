"""JSON as this project prints it: one object, indented, ASCII, without NaN."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tuner.domain.identity import Plain


def json_text(fields: Mapping[str, Plain]) -> str:
    """Return an object as text with a line feed at its end.

    Raises:
        ValueError: It holds a NaN or an infinity, which JSON does not have.
    """
    return json.dumps(fields, allow_nan=False, indent=2) + "\n"
