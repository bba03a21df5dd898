"""Fixtures of the store's tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import make_postgres
from postgres import postgres
from postgres import postgres_url

from tuner.store import open_store
from tuner.store import Store

__all__ = ["make_postgres", "postgres", "postgres_url"]  # fixtures

MEMORY_DISK = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for databases, in memory where there is such a disk.

    Each transaction waits for the disk (4 ms and more on a busy one), and nothing here depends
    on that: a killed process leaves what it wrote to the operating system.
    """
    if not os.access(MEMORY_DISK, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK, prefix="tuner-test-") as name:
        yield Path(name)


@pytest.fixture
def database(folder: Path) -> Path:
    """Where a database can be made."""
    return folder / "results.db"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Where a database can be made: a file, then a server."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("database"))
    made: str = request.getfixturevalue("make_postgres")(empty=True)
    return made


@pytest.fixture
def store(database: Path) -> Iterator[Store]:
    """An open, empty, writable store."""
    with open_store(str(database), create=True, writable=True) as store:
        yield store
