"""Fixtures for all tests: settings of their own, one cache of compiled kernels for the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from places import OPERATORS

from tuner.operator import load_operator
from tuner.operator import Operator
from tuner.settings import Settings

# In the background of a script, the suite is told to ignore Ctrl-C, and what it starts would
# inherit that: tests send that signal to commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled kernels, shared by the tests of one worker of the test run."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache_dir: Path) -> None:
    """Keep every test away from the user's database, cache and settings."""
    for name in [name for name in os.environ if name.startswith("TUNER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TUNER_DB", str(tmp_path / "results.db"))
    monkeypatch.setenv("TUNER_CACHE_DIR", str(cache_dir))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def make_settings(tmp_path: Path, cache_dir: Path) -> Callable[..., Settings]:
    """Return a maker of settings with a database in the test's own folder."""

    def make(**fields: object) -> Settings:
        return Settings(
            **{"db": str(tmp_path / "results.db"), "cache_dir": cache_dir, **fields}  # type: ignore[arg-type]
        )

    return make


@pytest.fixture(scope="session")
def planted() -> Operator:
    """Return the operator whose kernels fail on purpose."""
    return load_operator(OPERATORS / "planted")
