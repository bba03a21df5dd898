"""Where the tests' own content is."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
OPERATORS = TESTS / "operators"
