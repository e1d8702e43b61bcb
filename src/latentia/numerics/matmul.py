"""Products of parameters with rows, and weighted sums of rows: the two matrix products of every sweep."""

from __future__ import annotations

import numpy as np

from latentia.numerics.array_api import Array, namespace, transpose


def params_at_rows(natural: Array, rows: Array) -> Array:
    """(..., P) parameters times (N, P) rows: (..., N), as one matrix product."""
    xp = namespace(natural)
    flat = xp.reshape(natural, (-1, natural.shape[-1]))
    N, shape = rows.shape[0], (*natural.shape[:-1], rows.shape[0])
    if not _use_tiles(flat, rows):
        return xp.reshape(xp.matmul(flat, transpose(rows)), shape)
    out = np.empty((flat.shape[0], N), dtype=rows.dtype)
    whole = N - N % TILE_ROWS
    np.matmul(flat, _pieces(rows[:whole], TILE_ROWS).transpose(0, 2, 1), out=_column_tiles(out[:, :whole], TILE_ROWS))
    np.matmul(flat, rows[whole:].T, out=out[:, whole:])
    return out.reshape(shape)


def weighted_row_sums(weight: Array, rows: Array) -> Array:
    """(..., N) weights times (N, P) rows: (..., P), as one matrix product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    shape = (*weight.shape[:-1], rows.shape[1])
    if not _use_tiles(flat, rows):
        return xp.reshape(xp.matmul(flat, rows), shape)
    whole = rows.shape[0] - rows.shape[0] % SUM_TILE_ROWS
    sums = np.matmul(_column_tiles(flat[:, :whole], SUM_TILE_ROWS), _pieces(rows[:whole], SUM_TILE_ROWS)).sum(axis=0)
    sums += flat[:, whole:] @ rows[whole:]
    return sums.reshape(shape)


#: Products of a thin matrix with many rows run up to 1.5 times as fast in pieces of so many rows: BLAS then skips its packing.
TILE_ROWS = 64


#: The same where the rows are summed.
SUM_TILE_ROWS = 256


THIN_OPERAND = range(8, 33)


def _use_tiles(thin: Array, rows: Array) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and thin.shape[0] in THIN_OPERAND
        and rows.shape[0] >= 16 * TILE_ROWS
        and rows.flags.c_contiguous
        and thin.dtype == rows.dtype
    )


def _pieces(rows: np.ndarray, size: int) -> np.ndarray:
    return rows.reshape(-1, size, rows.shape[1])


def _column_tiles(a: np.ndarray, size: int) -> np.ndarray:
    """(M, N) as a view (N / size, M, size)."""
    return a.reshape(a.shape[0], -1, size).transpose(1, 0, 2)
