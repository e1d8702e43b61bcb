"""Products of parameters with rows, and weighted sums of rows: the two matrix products of every
sweep.

NumPy's products of a thin matrix with many rows are computed in tiles of rows, small enough for
BLAS to skip its packing. ``python benchmarks/gaussian_mixture_speed.py em hybrid`` times sweeps
that are made of such products; it measured the sizes below.
"""

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
    tiled = N - N % TILE_ROWS
    np.matmul(
        flat, _row_tiles(rows[:tiled], TILE_ROWS).transpose(0, 2, 1), out=_column_tiles(out[:, :tiled], TILE_ROWS)
    )
    np.matmul(flat, rows[tiled:].T, out=out[:, tiled:])
    return out.reshape(shape)


def weighted_row_sums(weight: Array, rows: Array) -> Array:
    """(..., N) weights times (N, P) rows: (..., P), as one matrix product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    shape = (*weight.shape[:-1], rows.shape[1])
    if not _use_tiles(flat, rows):
        return xp.reshape(xp.matmul(flat, rows), shape)
    tiled = rows.shape[0] - rows.shape[0] % SUM_TILE_ROWS
    sums = np.matmul(_column_tiles(flat[:, :tiled], SUM_TILE_ROWS), _row_tiles(rows[:tiled], SUM_TILE_ROWS)).sum(axis=0)
    sums += flat[:, tiled:] @ rows[tiled:]
    return sums.reshape(shape)


#: Rows of a tile where parameters meet rows: products run up to 1.5 times as fast as in one piece.
TILE_ROWS = 64

#: Rows of a tile where rows are summed.
SUM_TILE_ROWS = 256

#: Rows of the thin matrix: outside this range one product is as fast.
THIN_OPERAND = range(8, 33)


def _use_tiles(thin: Array, rows: Array) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and thin.shape[0] in THIN_OPERAND
        and rows.shape[0] >= 16 * TILE_ROWS
        and rows.flags.c_contiguous
        and thin.dtype == rows.dtype
    )


def _row_tiles(rows: np.ndarray, size: int) -> np.ndarray:
    return rows.reshape(-1, size, rows.shape[1])


def _column_tiles(a: np.ndarray, size: int) -> np.ndarray:
    """(M, N) as a view (N / size, M, size)."""
    return a.reshape(a.shape[0], -1, size).transpose(1, 0, 2)
