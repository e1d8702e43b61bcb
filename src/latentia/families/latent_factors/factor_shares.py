"""How much of a column each latent factor tells, in numbers that compare across columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.arrays.namespace import to_numpy

#: Variance of the logistic noise of a binary or categorical column.
LOGISTIC_VARIANCE = np.pi**2 / 3


def loading_correlations(loadings: Any, columns: Any, noise_variances: Any) -> np.ndarray:
    """Correlations (n_loadings, n_latent) of the columns with the factors, over all components;
    from the learned attributes of a latent classification model.

    Their squares are the shares of a column's variance that the factors explain; coded columns have
    logistic noise.
    """
    loadings = to_numpy(loadings).astype(float)  # (M, H, q)
    squares = (loadings**2).mean(axis=0)
    noise = to_numpy(noise_variances).astype(float).mean(axis=0)[to_numpy(columns)]
    noise = np.where(np.isnan(noise), LOGISTIC_VARIANCE, noise)
    total = squares.sum(axis=1) + noise
    return np.sign(loadings.mean(axis=0)) * np.sqrt(squares / np.where(total > 0, total, 1.0)[:, None])


def strongest_by_column(correlations: np.ndarray, columns: Any, n_columns: int) -> np.ndarray:
    """Correlations (n_features, n_latent); of a column of categories those of its most telling
    value.
    """
    found = np.zeros((n_columns, correlations.shape[1]))
    for row, column in zip(correlations, to_numpy(columns), strict=True):
        found[column] = np.where(np.abs(row) > np.abs(found[column]), row, found[column])
    return found
