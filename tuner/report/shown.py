"""Figures and texts as reports show them."""

from __future__ import annotations

from datetime import datetime

MISSING = "—"


def number(value: float | None) -> str:
    """Return a figure with four significant digits; a dash for what is not known."""
    if value is None:
        return MISSING
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:#.4g}".rstrip(".") if value else "0"


def moment(when: datetime) -> str:
    """Return a stored time to the second, in UTC as it is stored."""
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def shortened(text: str, length: int) -> str:
    """Return a text in one line of at most ``length`` characters, cut in the middle."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    head = (length - 1) * 2 // 3
    return f"{line[:head]}…{line[len(line) - (length - 1 - head) :]}"
