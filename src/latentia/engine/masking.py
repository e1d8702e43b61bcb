"""How raw rows are read in chunks: with a preprocessor, by default one that masks missing cells."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array

from latentia.arrays.namespace import Array, has_nan, is_sparse, namespace
from latentia.arrays.parallel import parallel
from latentia.engine.row_ranges import RowRange, split_ranges
from latentia.engine.source import MaskedRows

Preprocess = Callable[[Array], MaskedRows]


def map_rows(X: Array, preprocess: Preprocess, fn: Callable[[MaskedRows], Array], max_rows: int) -> list[Array]:
    """`fn` of chunks of at most `max_rows` rows, in the order of the rows."""
    ranges = split_ranges([RowRange(0, X.shape[0], None)], max_rows)
    return parallel(lambda rows: fn(preprocess(X[rows.as_slice, ...])), ranges, is_numpy_array(X))


@dataclass(frozen=True)
class MaskMissing:
    """The preprocessor that only notes which cells are missing."""

    dtype: Any = None  # of the values; None: that of X, or float64 where X has no floats

    def __call__(self, X: Array) -> MaskedRows:
        if is_sparse(X):
            return MaskedRows(X, None)
        xp = namespace(X)
        values = xp.asarray(X, dtype=self.dtype, device=device(X)) if self.dtype is not None else xp.asarray(X)
        if not xp.isdtype(values.dtype, "real floating"):
            values = xp.astype(values, xp.float64)
        if not has_nan(values):
            return MaskedRows(values, None)
        missing = xp.isnan(values)
        return MaskedRows(xp.where(missing, xp.zeros_like(values), values), xp.astype(~missing, values.dtype))


def is_mapped(X: Array) -> bool:
    """Whether rows lie in a file, which is best read in its own order."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, mmap.mmap)
