"""What a worker process, in which users' kernels run, gets of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.environ import worker_environment


@pytest.mark.parametrize("name", ["TUNER_TOKEN", "TUNER_DB", "PGPASSWORD"])
def test_no_secret_reaches_a_worker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    environment = worker_environment("hip:0", Path("cache"))
    assert name not in environment
    assert "secret" not in environment.values()
    assert environment["HIP_VISIBLE_DEVICES"] == "1"
