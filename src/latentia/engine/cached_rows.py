"""A preprocessed copy of a small table, and what sweeps over it remember."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import asarray_like, namespace
from latentia.arrays.parallel import parallel
from latentia.engine.masking import Preprocess
from latentia.engine.row_ranges import RowRange, split_ranges
from latentia.engine.source import Chunk, MaskedRows


class CachedRows(NamedTuple):
    """A preprocessed copy of a small table, rows in the order of labels and missing cells."""

    chunk: Chunk
    labels: list[RowRange]  # one for each label

    def take_restarts(self, index: np.ndarray) -> CachedRows:
        weight = self.chunk.weight
        keep = asarray_like(index, weight, dtype=namespace(weight).int64)
        chunk = self.chunk._replace(weight=namespace(weight).take(weight, keep, axis=1))
        return self._replace(chunk=chunk)

    def read(self, rows: RowRange, memos: dict[RowRange, dict[str, Any]] | None = None) -> Iterator[Chunk]:
        (values, observed), y, weight, *_ = self.chunk
        here = rows.as_slice
        masked = MaskedRows(values[here, ...], None if observed is None else observed[here, ...])
        memo = None if memos is None else memos.setdefault(rows, {})
        yield Chunk(masked, y[here, ...], None if weight is None else weight[here, ...], rows.label, memo)


def with_gaps_side_by_side(X: Any, y: np.ndarray, by_label: np.ndarray) -> np.ndarray:
    """Row numbers sorted by label, then by how many cells a row misses and by which of the first
    64; as they are (`by_label`) where no cell is missing.

    Families that treat rows together which miss the same cells, or about as many, find more of them
    in a chunk.
    """
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return by_label
    missing = np.isnan(X)
    if not missing.any():
        return by_label
    bits = np.zeros((X.shape[0], 8), dtype=np.uint8)
    first = np.packbits(missing[:, :64], axis=1)
    bits[:, : first.shape[1]] = first
    return np.lexsort((bits.view(">u8")[:, 0], missing.sum(axis=1), y))


def preprocess_rows(X: np.ndarray, preprocess: Preprocess, order: np.ndarray | None, max_rows: int) -> MaskedRows:
    """All rows in some order, preprocessed in chunks: no second table is as large."""
    ranges = split_ranges([RowRange(0, X.shape[0], None)], max_rows)
    values = np.empty(X.shape, dtype=preprocess(X[:1]).values.dtype)

    def fill(rows: RowRange) -> np.ndarray | None:
        index = rows.as_slice if order is None else order[rows.as_slice]
        values[rows.as_slice], observed = preprocess(X[index])
        return observed

    masks = parallel(fill, ranges)
    if all(mask is None for mask in masks):
        return MaskedRows(values, None)
    observed = np.ones_like(values)
    for rows, mask in zip(ranges, masks, strict=True):
        observed[rows.as_slice] = 1.0 if mask is None else mask
    return MaskedRows(values, observed)
