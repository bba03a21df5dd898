"""The results database: models, opening, writing and reading. Imports ``tuner.domain`` only.

``open_store`` is the way in; ``queries`` and ``export`` read, ``Store.recorder()`` writes,
``migrate`` keeps house. Loaded at first use: the values of ``views`` cost no SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.store.store import open_store as open_store
    from tuner.store.store import Store as Store

__all__ = ["Store", "open_store"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("tuner.store.store"), name)
    raise AttributeError(f"module 'tuner.store' has no attribute {name!r}")
