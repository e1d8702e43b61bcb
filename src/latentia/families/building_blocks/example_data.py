"""Complete rows with labels or outputs, on which the laws in tests/ try conditional families."""

from __future__ import annotations

import numpy as np


def make_example_rows(
    rng: np.random.Generator, n_rows: int, n_features: int, n_classes: int, n_outputs: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Rows for tests, complete, with a class each, or with numbers if there are outputs."""
    y = rng.permutation(np.arange(n_rows) % n_classes)
    X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    if not n_outputs:
        return X, y
    return X, np.abs(X[:, :n_outputs]) + 0.1 * rng.normal(size=(n_rows, n_outputs))
