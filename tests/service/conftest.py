"""Fixtures of the service's tests: a filled database, and clients of services over a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from filled import fill
from serving import TOKEN

from tuner.service.app import create_app
from tuner.service.limits import Rate
from tuner.settings import Settings


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Settings:
    """Settings of a database with some of everything. Not to be written."""
    return fill(tmp_path_factory.mktemp("service"), cache_dir)


@pytest.fixture
def settings(filled: Settings, tmp_path: Path) -> Settings:
    """Settings of a copy of the filled database."""
    path = tmp_path / "copy.db"
    shutil.copy(filled.db, path)
    return filled.model_copy(update={"db": str(path)})


@pytest.fixture(scope="session")
def reader(filled: Settings) -> Iterator[TestClient]:
    """A client that knows the token, for tests whose requests change nothing. One for all."""
    with make_test_client(filled, writes=Rate(10**6, 1e6)) as client:
        yield client


@pytest.fixture
def make_client(settings: Settings) -> Iterator[Callable[..., TestClient]]:
    """Return a maker of clients, each of a service of its own."""
    with ExitStack() as stack:

        def make(**options: Any) -> TestClient:
            chosen = options.pop("settings", settings)
            return stack.enter_context(make_test_client(chosen, **options))

        yield make


@pytest.fixture
def client(make_client: Callable[..., TestClient]) -> TestClient:
    """A client that knows the token, of a service over a copy of the database."""
    return make_client()


def make_test_client(settings: Settings, **options: Any) -> TestClient:
    """Return a client of a service; options are those of ``create_app``, and ``headers``."""
    headers = options.pop("headers", {"Authorization": f"Bearer {TOKEN}"})
    return TestClient(
        create_app(settings, **{"token": TOKEN, **options}),
        base_url="http://127.0.0.1:8765",
        headers=headers,
        raise_server_exceptions=False,
        follow_redirects=False,
    )
