"""The results database: models, opening, writing and reading. Imports ``tuner.domain`` only.

``open_store`` is the way in; ``tuner.store.queries`` and
``tuner.store.export`` read, ``Store.recorder()`` writes, ``tuner.store.migrate`` keeps house.
"""

from __future__ import annotations

from tuner.store.store import open_store
from tuner.store.store import Store

__all__ = ["Store", "open_store"]
