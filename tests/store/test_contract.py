"""The store contract over SQLite, with both kinds of journal, and over PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.store import store as store_module
from tuner.testing.store_contract import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    def database_url(self, database: Path) -> str:
        return str(database)


class TestSqliteOnNetworkFileSystem(StoreContract):
    @pytest.fixture
    def database_url(self, database: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(store_module, "network_file_system", lambda _path: "nfs4")
        return f"sqlite:///{database}"


class TestPostgres(StoreContract):
    @pytest.fixture
    def database_url(self, postgres_url: str) -> str:
        return postgres_url
