"""Autotuning experiment service for GPU kernels, with a results database.

The verbs of the command line are functions here: ``tuner.run_study``, ``tuner.best``,
``tuner.history``. They are loaded at first use, so that ``import tuner`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.api import best as best
    from tuner.api import history as history
    from tuner.api import run_study as run_study

__version__ = "0.1.0"
__all__ = ["__version__", "best", "history", "run_study"]


def __getattr__(name: str) -> Any:
    if name in {"best", "history", "run_study"}:
        return getattr(import_module("tuner.api"), name)
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")
