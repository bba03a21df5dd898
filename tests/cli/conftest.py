"""Fixtures of the command-line tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command
from postgres import make_postgres
from postgres import postgres

__all__ = ["make_postgres", "postgres"]  # fixtures


@pytest.fixture
def tuner(tmp_path: Path) -> Command:
    """Return the command in a folder of its own."""
    return Command(tmp_path)
