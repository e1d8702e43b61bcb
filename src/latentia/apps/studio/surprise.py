"""How unusual a row is, beside rows of which the same cells are known.

A density of few cells is no density of many. The log densities of all rows are regressed on which
cells are known, with some shrinkage; what a row lacks of its expectation is its surprise.
"""

from __future__ import annotations

import numpy as np

#: Rows that the prior of a column's share is worth.
SHRINKAGE = 3.0


class Surprise:
    """Learned from the rows of a table."""

    def __init__(self, log_density: np.ndarray, known: np.ndarray):
        design = self._design(known)
        ridge = SHRINKAGE * np.eye(design.shape[1])
        ridge[0, 0] = 1e-9  # the mean is free
        self._weights = np.linalg.solve(design.T @ design + ridge, design.T @ log_density)
        self.of_rows = design @ self._weights - log_density
        self._sorted = np.sort(self.of_rows)

    @staticmethod
    def _design(known: np.ndarray) -> np.ndarray:
        return np.concatenate([np.ones((len(known), 1)), known - 1.0], axis=1)

    def of(self, log_density: float, known: np.ndarray) -> float:
        return float((self._design(known[None, :]) @ self._weights)[0] - log_density)

    def share_below(self, surprise: np.ndarray | float) -> np.ndarray:
        """Which share of the rows is less surprising."""
        return np.asarray(np.searchsorted(self._sorted, surprise) / self._sorted.size)
