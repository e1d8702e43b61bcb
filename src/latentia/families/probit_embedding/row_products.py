"""Inverses of many symmetric matrices, products that fold leading axes, and the products of rows that are dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from latentia.numerics.array_api import Array, namespace

#: Products of entries in one column that a sparse table may keep.
MAX_PAIRS = 3 * 10**7


#: Entries of a dense block of columns.
BLOCK = 2**22


class Products(Protocol):
    """Products of N rows of D features."""

    def kernel(self, scale: Array) -> Array:
        """X diag(scale) X', (N, N)."""
        ...

    def diagonal(self, inner: Array) -> Array:
        """The diagonal of X' inner X, (D,)."""
        ...


def products(rows: Any) -> Products:
    """The cheapest way to multiply such rows."""
    if not sparse.issparse(rows):
        return DenseProducts(rows)
    counts = np.diff(sparse.csc_array(rows).indptr).astype(np.int64)
    few = int((counts * (counts + 1) // 2).sum()) <= MAX_PAIRS
    return PairProducts.of(rows) if few else BlockProducts(sparse.csc_array(rows))


@dataclass(frozen=True)
class DenseProducts:
    """Rows in an array."""

    rows: Array

    def kernel(self, scale: Array) -> Array:
        half = self.rows * namespace(scale).sqrt(scale)
        return half @ half.T  # which NumPy knows to be symmetric

    def diagonal(self, inner: Array) -> Array:
        return namespace(inner).sum(self.rows * (inner @ self.rows), axis=0)


@dataclass(frozen=True)
class PairProducts:
    """Sparse rows, by the products x_if x_jf, i <= j, of the entries that share a column f."""

    table: sparse.csr_array  # (D, N * N): row f holds its products at the place of (i, j)
    n_rows: int

    @classmethod
    def of(cls, rows: Any) -> PairProducts:
        by_column = sparse.csc_array(rows)
        by_column.sort_indices()
        n_rows, n_features = by_column.shape
        counts = np.diff(by_column.indptr).astype(np.int64)
        ends = np.repeat(by_column.indptr[1:].astype(np.int64), counts)
        partners = ends - np.arange(ends.size)  # an entry's partners are itself and those after it
        first = np.repeat(np.arange(ends.size), partners)
        second = first + np.arange(first.size) - np.repeat(np.cumsum(partners) - partners, partners)
        place = by_column.indices.astype(np.int64)
        where = place[first] * n_rows + place[second]
        indptr = np.concatenate([[0], np.cumsum(counts * (counts + 1) // 2)])
        if n_rows * n_rows < 2**31:
            where, indptr = where.astype(np.int32), indptr.astype(np.int32)
        values = by_column.data[first] * by_column.data[second]
        return cls(sparse.csr_array((values, where, indptr), shape=(n_features, n_rows * n_rows)), n_rows)

    def kernel(self, scale: np.ndarray) -> np.ndarray:
        upper = np.reshape(self.table.T @ scale, (self.n_rows, self.n_rows))
        return upper + upper.T - np.diag(np.diagonal(upper))

    def diagonal(self, inner: np.ndarray) -> np.ndarray:
        doubled = 2 * inner
        np.fill_diagonal(doubled, np.diagonal(inner))
        return np.asarray(self.table @ np.ravel(doubled))


@dataclass(frozen=True)
class BlockProducts:
    """Sparse rows with well-filled columns, a dense block of columns at a time."""

    columns: sparse.csc_array

    def kernel(self, scale: np.ndarray) -> np.ndarray:
        total = np.zeros((self.columns.shape[0],) * 2, dtype=scale.dtype)
        for part, block in self._blocks():
            total += (block * scale[part]) @ block.T
        return total

    def diagonal(self, inner: np.ndarray) -> np.ndarray:
        return np.concatenate([np.sum(block * (inner @ block), axis=0) for _, block in self._blocks()])

    def _blocks(self) -> Any:
        n_rows, n_features = self.columns.shape
        width = max(1, BLOCK // n_rows)
        for start in range(0, n_features, width):
            part = slice(start, min(start + width, n_features))
            yield part, self.columns[:, part].toarray()
