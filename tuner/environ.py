"""The environment variables of this process, and of the worker processes that it starts.

Apart from the settings, which take 0.05 s to import: a worker has none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Variables that open the service or the database.
OPENS_SERVICE = "TUNER_TOKEN"
SECRETS = (OPENS_SERVICE, "TUNER_DB", "PGPASSWORD")


def process_environment() -> Mapping[str, str]:
    """Return the environment variables of this process."""
    return dict(os.environ)


def worker_environment(device_id: str, cache_dir: Path) -> dict[str, str]:
    """Return the environment of a worker process for a device.

    On the CPU Triton runs in its interpreter, which it must be told before it is imported.
    """
    environment = dict(os.environ)
    environment["TRITON_CACHE_DIR"] = str(cache_dir / "triton")
    environment.pop("TRITON_INTERPRET", None)
    for name in SECRETS:
        environment.pop(name, None)  # kernels and operators have no use for them
    if device_id == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    # One thread a worker: BLAS threads that spin beside a timed kernel disturb it.
    environment.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    return environment
