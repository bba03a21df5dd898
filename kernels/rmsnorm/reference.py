"""What RMSNorm computes, in float64: the result every kernel is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rmsnorm(
    x: NDArray[np.float64], w: NDArray[np.float64], *, epsilon: float
) -> tuple[NDArray[np.float64]]:
    """Return ``y = x / sqrt(mean(x^2) + epsilon) * w``, the mean over each row's columns.

    Args:
        x: Rows by columns.
        w: One weight per column.
        epsilon: Added to the mean square, so that a row of zeros gives zeros.
    """
    mean_square = np.mean(np.square(x), axis=1, keepdims=True)
    return (x / np.sqrt(mean_square + epsilon) * w,)
