"""Products with rows that are dense or sparse: everything that has to know which they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from latentia.arrays.namespace import Array, is_sparse, namespace, transpose

#: Products x_if x_jf that `PairProducts` keeps at most: 12 bytes each, 360 MB.
MAX_PAIRS = 3 * 10**7

#: Entries of the dense columns that `ColumnProducts` handles at once: 32 MiB.
MAX_DENSE_ENTRIES = 2**22


def project(projection: Array, x: Array) -> Array:
    """Rows x (N, D) times (..., R, D): (..., N, R)."""
    return transpose(_flat_product(projection, x))


def weighted_sums(weight: Array, x: Array) -> Array:
    """Sums (..., R, D) of the rows x (N, D), times weights (..., N, R)."""
    return _flat_product(transpose(weight), x.T if is_sparse(x) else transpose(x))


def _flat_product(vectors: Array, x: Array) -> Array:
    """Vectors (..., R, D) times the rows x (N, D), as one matrix product: (..., R, N)."""
    xp = namespace(vectors)
    flat = xp.reshape(vectors, (-1, vectors.shape[-1]))
    scores = transpose(x @ transpose(flat)) if is_sparse(x) else xp.matmul(flat, transpose(x))
    return xp.reshape(scores, (*vectors.shape[:-1], x.shape[0]))


def label_products(labels: Array, x: Array) -> Array:
    """Sums (L, D) of the rows x (N, D), times numbers (N, L) of each label."""
    return transpose(x.T @ labels) if is_sparse(x) else transpose(labels) @ x


def gram_matrix(x: Array, weight: Array) -> Array:
    """X' diag(weight) X, (D, D)."""
    if is_sparse(x):
        return (x.T @ x.multiply(weight[:, None])).toarray()
    return transpose(x) @ (x * weight[:, None])


def scale_rows(x: Array, scale: Array) -> Array:
    """Each row times a number."""
    return type(x)(x.multiply(scale[:, None])) if is_sparse(x) else x * scale[:, None]


def row_squares(x: Array, scale: Array | None = None) -> Array:
    """Sums (N,) of the squares of each row, times a number for each column."""
    squares = x * x
    if scale is not None:
        return squares @ scale
    return squares.sum(axis=1) if is_sparse(x) else namespace(x).sum(squares, axis=1)


def ones_of_columns(x: Array) -> Array:
    """A one for each column."""
    return np.ones(x.shape[1], dtype=x.dtype) if is_sparse(x) else namespace(x).ones_like(x[0, ...])


def to_dense(x: Array) -> Array:
    """The same numbers in an array."""
    return x.toarray() if is_sparse(x) else x


class Products(Protocol):
    """Products of N rows of D features."""

    def kernel(self, scale: Array) -> Array:
        """X diag(scale) X', (N, N)."""
        ...

    def diagonal(self, inner: Array) -> Array:
        """The diagonal of X' inner X, (D,)."""
        ...


def products(rows: Array) -> Products:
    """The cheapest way to multiply such rows."""
    if not is_sparse(rows):
        return DenseProducts(rows)
    counts = np.diff(sparse.csc_array(rows).indptr).astype(np.int64)
    n_pairs = int((counts * (counts + 1) // 2).sum())
    return PairProducts.from_rows(rows) if n_pairs <= MAX_PAIRS else ColumnProducts(sparse.csc_array(rows))


@dataclass(frozen=True)
class DenseProducts:
    """Rows in an array."""

    rows: Array

    def kernel(self, scale: Array) -> Array:
        half = self.rows * namespace(scale).sqrt(scale)
        return half @ half.T  # NumPy dispatches to syrk

    def diagonal(self, inner: Array) -> Array:
        return namespace(inner).sum(self.rows * (inner @ self.rows), axis=0)


@dataclass(frozen=True)
class PairProducts:
    """Sparse rows, by the products x_if x_jf, i <= j, of the entries that share a column f."""

    table: sparse.csr_array  # (D, N * N): row f holds its products in column i * N + j
    n_rows: int

    @classmethod
    def from_rows(cls, rows: Array) -> PairProducts:
        by_column = sparse.csc_array(rows)
        by_column.sort_indices()
        n_rows, n_features = by_column.shape
        counts = np.diff(by_column.indptr).astype(np.int64)
        ends = np.repeat(by_column.indptr[1:].astype(np.int64), counts)
        partners = ends - np.arange(ends.size)  # an entry's partners are itself and those after it
        first = np.repeat(np.arange(ends.size), partners)
        second = first + np.arange(first.size) - np.repeat(np.cumsum(partners) - partners, partners)
        row = by_column.indices.astype(np.int64)
        column = row[first] * n_rows + row[second]
        indptr = np.concatenate([[0], np.cumsum(counts * (counts + 1) // 2)])
        if n_rows * n_rows < 2**31:
            column, indptr = column.astype(np.int32), indptr.astype(np.int32)
        values = by_column.data[first] * by_column.data[second]
        return cls(sparse.csr_array((values, column, indptr), shape=(n_features, n_rows * n_rows)), n_rows)

    def kernel(self, scale: np.ndarray) -> np.ndarray:
        upper = np.reshape(self.table.T @ scale, (self.n_rows, self.n_rows))
        return upper + upper.T - np.diag(np.diagonal(upper))

    def diagonal(self, inner: np.ndarray) -> np.ndarray:
        doubled = 2 * inner
        np.fill_diagonal(doubled, np.diagonal(inner))
        return np.asarray(self.table @ np.ravel(doubled))


@dataclass(frozen=True)
class ColumnProducts:
    """Sparse rows with well-filled columns, of which some are made dense at a time."""

    columns: sparse.csc_array
    max_dense_entries: int = MAX_DENSE_ENTRIES

    def kernel(self, scale: np.ndarray) -> np.ndarray:
        total = np.zeros((self.columns.shape[0],) * 2, dtype=scale.dtype)
        for index, dense in self._dense_columns():
            total += (dense * scale[index]) @ dense.T
        return total

    def diagonal(self, inner: np.ndarray) -> np.ndarray:
        return np.concatenate([np.sum(dense * (inner @ dense), axis=0) for _, dense in self._dense_columns()])

    def _dense_columns(self) -> Iterator[tuple[slice, np.ndarray]]:
        n_rows, n_features = self.columns.shape
        width = max(1, self.max_dense_entries // n_rows)
        for start in range(0, n_features, width):
            index = slice(start, min(start + width, n_features))
            yield index, self.columns[:, index].toarray()
