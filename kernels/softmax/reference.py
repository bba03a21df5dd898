"""What softmax computes, in float64: the result every kernel is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def softmax(x: NDArray[np.float64]) -> tuple[NDArray[np.float64]]:
    """Return ``exp(x) / sum(exp(x))`` of each row, shifted by the row's maximum."""
    powers = np.exp(x - np.max(x, axis=1, keepdims=True))
    return (powers / np.sum(powers, axis=1, keepdims=True),)
