"""Reference of the planted operator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def twice(x: NDArray[np.float64]) -> tuple[NDArray[np.float64]]:
    """Return 2 * x."""
    return (2.0 * x,)
