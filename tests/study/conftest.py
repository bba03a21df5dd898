"""Fixtures of the tests of studies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_study import Harness

from tuner.operator import Operator
from tuner.store import open_store


@pytest.fixture
def harness(planted: Operator, tmp_path: Path) -> Iterator[Harness]:
    """Return a harness over a database of its own."""
    with open_store(str(tmp_path / "scripted.db"), create=True, writable=True) as store:
        yield Harness(planted, store)
