"""A small Gaussian process over the positions of parameter values. NumPy only.

Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006): the posterior is their
equation 2.25 and 2.26, the likelihood 5.8 with the signal's variance at its maximum, the Matérn
kernel of smoothness 5/2 their 4.17.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

# Of the variance of the signal. A thousandth is 3 % of its deviation: times vary by a percent or
# so from run to run.
NOISE = 1e-3
FIRST_SCALE = 2.0  # positions over which times are alike, before anything is known
_LEAST_SCALE, _MOST_SCALE = 0.2 * FIRST_SCALE, 16.0 * FIRST_SCALE
_LEAST_VARIANCE = 1e-4  # 1 % of the time: what a search that met only ties still allows for


class Surrogate:
    """Predicts residual logarithms of times, and how far off they may be.

    Args:
        dimensions: Columns of the points.
    """

    def __init__(self, dimensions: int) -> None:
        self._scales = np.full(dimensions, FIRST_SCALE)
        self._points: Floats = np.empty((0, dimensions))
        self._whitening: Floats = np.empty((0, 0))
        self._weights: Floats = np.empty(0)
        self._variance = 1.0

    def tune(self, points: Floats, values: Floats) -> None:
        """Double or halve each parameter's length scale where that explains the values better.

        One round over the parameters; called again and again as values come in.

        Args:
            points: Shape (n, dimensions).
            values: Shape (n,), of mean about 0.
        """
        best = self._evidence(points, values, self._scales)
        for column in range(len(self._scales)):
            for factor in (0.5, 2.0):
                scales = self._scales.copy()
                scales[column] *= factor
                if not _LEAST_SCALE <= scales[column] <= _MOST_SCALE:
                    continue
                evidence = self._evidence(points, values, scales)
                if evidence > best:
                    best, self._scales = evidence, scales

    def fit(self, points: Floats, values: Floats) -> None:
        """Take in all values there are.

        Args:
            points: Shape (n, dimensions), n at least 1.
            values: Shape (n,), of mean about 0.
        """
        self._points = points / self._scales
        covariance = _matern(_squared_distances(self._points, self._points))
        root = np.linalg.cholesky(covariance + NOISE * np.eye(len(points)))
        # The inverse, because products with it are several times as fast as solving anew for each
        # of many candidates; with this much noise on the diagonal it is well behaved.
        self._whitening = np.asarray(np.linalg.inv(root))
        whitened = self._whitening @ values
        self._weights = whitened @ self._whitening
        self._variance = max(float(whitened @ whitened) / len(values), _LEAST_VARIANCE)

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation at points of shape (m, dimensions), each (m,)."""
        covariance = _matern(_squared_distances(points / self._scales, self._points))
        explained = covariance @ self._whitening.T
        share = np.maximum(1.0 + NOISE - np.einsum("ij,ij->i", explained, explained), 1e-9)
        return covariance @ self._weights, np.sqrt(share * self._variance)

    def _evidence(self, points: Floats, values: Floats, scales: Floats) -> float:
        """Return the logarithm of the likelihood, less a penalty for scales far from the first."""
        scaled = points / scales
        covariance = _matern(_squared_distances(scaled, scaled)) + NOISE * np.eye(len(points))
        root = np.linalg.cholesky(covariance)
        whitened = np.linalg.solve(root, values)
        square = float(whitened @ whitened)
        variance = max(square / len(values), _LEAST_VARIANCE)
        likelihood = (
            -0.5 * len(values) * np.log(variance)
            - float(np.log(np.diag(root)).sum())
            - 0.5 * square / variance
        )
        return float(likelihood - 0.5 * float((np.log(scales / FIRST_SCALE) ** 2).sum()))


def _squared_distances(first: Floats, second: Floats) -> Floats:
    squares = (first * first).sum(1)[:, None] + (second * second).sum(1)[None, :]
    return np.asarray(np.maximum(squares - 2.0 * first @ second.T, 0.0))


def _matern(squared_distances: Floats) -> Floats:
    r = np.sqrt(5.0 * squared_distances)
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))
