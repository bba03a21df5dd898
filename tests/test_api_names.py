"""The names of ``tuner.api``: each is there, loaded when it is used and not before."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from tuner import api


@pytest.mark.parametrize("name", sorted(api._HOMES))
def test_every_name_is_what_it_says_also_when_all_is_loaded(name: str) -> None:
    api.load_all()
    assert not isinstance(getattr(api, name), ModuleType)


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no_such_verb"):
        _ = api.no_such_verb


@pytest.mark.parametrize(
    ("used", "unused"),
    [
        ("api", ["pydantic", "sqlalchemy", "tuner.study", "tuner.worker"]),
        ("api.run_study", ["sqlalchemy", "optuna", "pandas", "numpy", "fastapi"]),
    ],
)
def test_what_is_not_used_is_not_loaded(used: str, unused: list[str]) -> None:
    loaded = f"[name for name in {unused} if name in sys.modules]"
    code = f"import sys; from tuner import api; {used}; print({loaded})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
