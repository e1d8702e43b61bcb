"""Inverses of many symmetric matrices, products that fold leading axes, and the products of rows that are dense or sparse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import array_api_compat
import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from latentia._arrays import Array, eye_like, namespace, symmetric, transpose
from latentia.threads import one_blas_thread, parallel

#: Matrices of this size and above are inverted by LAPACK, one by one.
LARGE = 32
#: And of this size, one to a core.
THREADED = 128
#: A matrix of this size is worth several threads.
HUGE = 3000
#: Up to this size a matrix is inverted in one piece.
LEAF = 80
#: Products of entries in one column that a sparse table may keep.
MOST_PAIRS = 3 * 10**7
#: Entries of a dense block of columns.
BLOCK = 2**22


def fold(a: Array, b: Array) -> Array:
    """The product of (..., n, k) with (k, m) as one matrix product."""
    xp = namespace(a, b)
    flat = xp.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
    return xp.reshape(xp.matmul(flat, b), (*a.shape[:-1], b.shape[-1]))


def spd_inverse(matrix: Array) -> tuple[Array, Array]:
    """Inverses and log determinants of symmetric positive definite matrices (..., P, P)."""
    if array_api_compat.is_numpy_array(matrix) and matrix.shape[-1] >= LARGE:
        return _lapack_inverses(matrix)
    xp = namespace(matrix)
    try:
        factor = xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        return _by_eigenvalues(matrix)
    log_det = 2 * xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
    if array_api_compat.is_torch_array(matrix):
        return xp.cholesky_inverse(factor), log_det
    eye = eye_like(matrix.shape[-1], matrix)
    half = xp.linalg.solve(factor, xp.zeros_like(factor) + eye)
    return xp.matmul(transpose(half), half), log_det


def _by_eigenvalues(matrix: Array) -> tuple[Array, Array]:
    """The same where rounding has made an eigenvalue negative: such are raised to what rounding leaves uncertain."""
    xp = namespace(matrix)
    eigenvalues, vectors = xp.linalg.eigh(symmetric(matrix))
    least = xp.max(eigenvalues, axis=-1, keepdims=True) * (matrix.shape[-1] * float(xp.finfo(matrix.dtype).eps))
    eigenvalues = xp.maximum(eigenvalues, least)
    inverse = xp.matmul(vectors / eigenvalues[..., None, :], transpose(vectors))
    return inverse, xp.sum(xp.log(eigenvalues), axis=-1)


def _lapack_inverses(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = np.reshape(matrix, (-1, *matrix.shape[-2:]))
    inverse, log_det = np.empty_like(flat), np.empty(flat.shape[0], dtype=flat.dtype)

    def invert(k: int) -> None:
        try:
            log_det[k] = _invert_blocks(flat[k], inverse[k])
        except np.linalg.LinAlgError:
            inverse[k], log_det[k] = _by_eigenvalues(flat[k])

    on_cores(invert, flat.shape[0], flat.shape[-1])
    return inverse.reshape(matrix.shape), log_det.reshape(matrix.shape[:-2])


def _invert_blocks(matrix: np.ndarray, out: np.ndarray) -> float:
    """Write the inverse to `out`, and return the log determinant.

    By halves, as nearly all of the work is then in matrix products: these run faster than LAPACK's inverse, and on several threads, while
    SciPy's calls of LAPACK wait for each other.
    """
    size = matrix.shape[0]
    if size <= LEAF:
        return _invert_leaf(matrix, out)
    half = (size // 2 + 7) // 8 * 8
    first, second = slice(None, half), slice(half, None)
    side = matrix[first, second]
    corner = out[first, first]
    log_det = _invert_blocks(matrix[first, first], corner)
    pulled = corner @ side
    log_det += _invert_blocks(matrix[second, second] - side.T @ pulled, out[second, second])
    across = pulled @ out[second, second]
    corner += across @ pulled.T
    np.negative(across, out=out[first, second])
    out[second, first] = out[first, second].T
    return log_det


def _invert_leaf(matrix: np.ndarray, out: np.ndarray) -> float:
    potrf, trtri = lapack.get_lapack_funcs(("potrf", "trtri"), (matrix,))
    factor, failed = potrf(matrix.T, lower=0, clean=1)
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    log_det = 2 * float(np.log(np.diagonal(factor)).sum())
    half, _ = trtri(factor, lower=0, overwrite_c=1)
    np.matmul(half, half.T, out=out)
    return log_det


def on_cores(fn: Callable[[int], Any], n_tasks: int, size: int) -> list[Any]:
    """Results of fn(0), fn(1), ..., a core each if the matrices they handle are large; a single huge one has all cores."""
    alone = n_tasks == 1
    with one_blas_thread(not alone or size < HUGE):
        if alone or size < THREADED:
            return [fn(k) for k in range(n_tasks)]
        return parallel(fn, range(n_tasks))


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
    few = int((counts * (counts + 1) // 2).sum()) <= MOST_PAIRS
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
