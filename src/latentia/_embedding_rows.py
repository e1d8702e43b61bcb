"""Rows for the probit embedding: standardised if dense; scaled but not moved if sparse, so that they stay sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from latentia._arrays import like, namespace, working_dtype
from latentia.core import Cells
from latentia.preparation import Standardise, column_moments


class Scale(NamedTuple):
    """Divides the columns of dense or sparse rows."""

    scale: np.ndarray  # (D,)

    @property
    def shift(self) -> np.ndarray:
        return np.zeros_like(self.scale)

    def __call__(self, X: Any) -> Cells:
        if sparse.issparse(X):
            return Cells(sparse.csr_array(X.multiply(1 / self.scale)).astype(self.scale.dtype), None)
        return Cells(like(X, self.scale) / self.scale, None)


Preparation = Callable[[Any], Cells]


def preparation(X: Any, weight: np.ndarray | None, standardise: bool) -> Standardise | Scale:
    """How rows like these are prepared."""
    if sparse.issparse(X):
        return Scale(_root_mean_square(X, weight) if standardise else np.ones(X.shape[1], dtype=working_dtype(X)))
    dtype = working_dtype(X)
    xp = namespace(X)
    if standardise:
        return Standardise.of(*column_moments(X, weight, dtype))
    nothing = xp.zeros_like(xp.astype(X[0, ...], dtype))
    return Standardise(nothing, nothing + 1, None)


def by_blocks(X: Any, prepare: Preparation, fn: Callable[[Any], Any], rows: int) -> list[Any]:
    """`fn` of the prepared values of blocks of rows, in their order."""
    if sparse.issparse(X) and isinstance(prepare, Standardise):
        return by_blocks(X.tocsr(), lambda part: prepare(part.toarray()), fn, rows)
    edges = range(0, X.shape[0], rows)
    return [fn(prepare(X[start : min(start + rows, X.shape[0]), ...]).values) for start in edges]


def _root_mean_square(X: Any, weight: np.ndarray | None) -> np.ndarray:
    """Of each column about zero; one for empty columns."""
    mass = np.ones(X.shape[0]) if weight is None else weight
    square = np.asarray(X.multiply(X).T @ mass).ravel() / mass.sum()
    return np.sqrt(np.where(square > 0, square, 1.0)).astype(working_dtype(X))
