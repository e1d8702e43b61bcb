"""Symmetric matrices as their upper triangles, so that sums of them are matrix products.

Products of the cells of many rows are laid out in NumPy one product after the other, each for all
rows: so they are written in long runs, and matrix products read them as they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import array_api_compat
import numpy as np

from latentia.numerics.array_api import Array, asarray_like, namespace

#: Fewer rows than this are gathered: long runs do not pay yet.
LONG_RUN_ROWS = 32


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


@cache
def _moved(numbers: bytes, xp: Any, device: Any) -> Array:
    return xp.asarray(np.frombuffer(numbers, dtype=np.int64).copy(), device=device)


def _index(numbers: np.ndarray, like: Array) -> Array:
    """Row numbers beside an array; on a device they are kept, so that no sweep sends them again."""
    if isinstance(like, np.ndarray):
        return numbers
    return _moved(numbers.tobytes(), namespace(like), array_api_compat.device(like))


def packed_outer(a: Array) -> Array:
    """Products a_i a_j, i <= j, of vectors on the last axis: the packed a a'."""
    if _in_long_runs(a):
        n = a.shape[1]
        out = np.empty((n * (n + 1) // 2, a.shape[0]), dtype=a.dtype)
        _write_products(a.T.copy(), out)
        return out.T
    xp = namespace(a)
    rows, columns = _upper(a.shape[-1])
    return xp.take(a, _index(rows, a), axis=-1) * xp.take(a, _index(columns, a), axis=-1)


def symmetric_outer(a: Array, b: Array) -> Array:
    """The packed a b' + b a' of vectors on the last axis."""
    xp = namespace(a)
    rows, columns = (_index(numbers, a) for numbers in _upper(a.shape[-1]))
    a_rows, a_columns, b_rows, b_columns = (xp.take(x, i, axis=-1) for x in (a, b) for i in (rows, columns))
    return a_rows * b_columns + b_rows * a_columns


def quadratic_features(a: Array) -> Array:
    """(x_i x_j, x, 1) of rows (N, n): (N, n(n+1)/2 + n + 1)."""
    if _in_long_runs(a):
        n = a.shape[1]
        out = np.empty((n * (n + 3) // 2 + 1, a.shape[0]), dtype=a.dtype)
        columns = out[-n - 1 : -1]
        columns[:] = a.T
        out[-1] = 1.0
        _write_products(columns, out)
        return out.T
    xp = namespace(a)
    return xp.concat([packed_outer(a), a, xp.ones_like(a[:, :1])], axis=-1)


def _in_long_runs(a: Array) -> bool:
    return isinstance(a, np.ndarray) and a.ndim == 2 and a.shape[0] >= LONG_RUN_ROWS


def _write_products(columns: np.ndarray, out: np.ndarray) -> None:
    """Products of the columns (n, N) to the first rows of `out`."""
    begin = 0
    for i in range(len(columns)):
        end = begin + len(columns) - i
        np.multiply(columns[i], columns[i:], out=out[begin:end])
        begin = end


def pack(A: Array) -> Array:
    """The upper triangles of symmetric matrices."""
    xp = namespace(A)
    n = A.shape[-1]
    rows, columns = _upper(n)
    return xp.take(xp.reshape(A, (*A.shape[:-2], n * n)), _index(rows * n + columns, A), axis=-1)


def packed_diagonal(packed: Array, n: int) -> Array:
    """The diagonals of matrices of size n, from their upper triangles."""
    index = _triangle_index(n)[:: n + 1]
    return namespace(packed).take(packed, _index(np.ascontiguousarray(index), packed), axis=-1)


def unpack(packed: Array, n: int) -> Array:
    """Upper triangles as full symmetric matrices."""
    xp = namespace(packed)
    return xp.reshape(xp.take(packed, _index(_triangle_index(n), packed), axis=-1), (*packed.shape[:-1], n, n))


def with_doubled_offdiagonal(packed: Array, n: int) -> Array:
    """Off-diagonal entries twice: the sum of products of two packed matrices is then a trace."""
    rows, columns = _upper(n)
    return packed * asarray_like(np.where(rows == columns, 1.0, 2.0), packed)
