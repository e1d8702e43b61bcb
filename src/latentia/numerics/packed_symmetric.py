"""Symmetric matrices as their upper triangles, so that sums of them are matrix products."""

from __future__ import annotations

from functools import cache

import numpy as np

from latentia.numerics.array_api import Array, asarray_like, namespace


@cache
def _upper(n: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(n)
    return rows.astype(np.int64), columns.astype(np.int64)


@cache
def _triangle_index(n: int) -> np.ndarray:
    """Where each entry of the full matrix lies in its upper triangle."""
    index = np.zeros((n, n), dtype=np.int64)
    index[_upper(n)] = np.arange(n * (n + 1) // 2)
    return np.maximum(index, index.T).ravel()


def _index(numbers: np.ndarray, like: Array) -> Array:
    return asarray_like(numbers, like, dtype=namespace(like).int64)


def packed_outer(a: Array) -> Array:
    """Products a_i a_j, i <= j, of vectors on the last axis: the packed a a'."""
    xp = namespace(a)
    rows, columns = _upper(a.shape[-1])
    return xp.take(a, _index(rows, a), axis=-1) * xp.take(a, _index(columns, a), axis=-1)


def pack(A: Array) -> Array:
    """The upper triangles of symmetric matrices."""
    xp = namespace(A)
    n = A.shape[-1]
    rows, columns = _upper(n)
    return xp.take(xp.reshape(A, (*A.shape[:-2], n * n)), _index(rows * n + columns, A), axis=-1)


def unpack(packed: Array, n: int) -> Array:
    """Upper triangles as full symmetric matrices."""
    xp = namespace(packed)
    return xp.reshape(xp.take(packed, _index(_triangle_index(n), packed), axis=-1), (*packed.shape[:-1], n, n))


def with_doubled_offdiagonal(packed: Array, n: int) -> Array:
    """Off-diagonal entries twice: the sum of products of two packed matrices is then a trace."""
    rows, columns = _upper(n)
    return packed * asarray_like(np.where(rows == columns, 1.0, 2.0), packed)
