"""Products of parameters with rows, and weighted sums of rows: the two matrix products of every
sweep.

NumPy's products of a thin matrix with many rows are computed in tiles, small enough for BLAS to
skip its packing: tiles of rows, or where rows are laid out feature by feature, of rows in the one
product and of features in the other. ``python benchmarks/gaussian_mixture_speed.py em hybrid``
times sweeps that are made of such products; it measured the sizes below.
"""

from __future__ import annotations

import numpy as np

from latentia.numerics.array_api import Array, namespace, transpose


def params_at_rows(natural: Array, rows: Array) -> Array:
    """(..., P) parameters times (N, P) rows: (..., N), as one matrix product."""
    xp = namespace(natural)
    flat = xp.reshape(natural, (-1, natural.shape[-1]))
    N, shape = rows.shape[0], (*natural.shape[:-1], rows.shape[0])
    if _use_tiles(flat, rows):
        out = np.empty((flat.shape[0], N), dtype=rows.dtype)
        tiled = N - N % TILE_ROWS
        tiles = _row_tiles(rows[:tiled], TILE_ROWS).transpose(0, 2, 1)
        np.matmul(flat, tiles, out=_column_tiles(out[:, :tiled], TILE_ROWS))
        np.matmul(flat, rows[tiled:].T, out=out[:, tiled:])
        return out.reshape(shape)
    if size := _feature_tile(flat, rows, rows.shape[1]):
        out = np.empty((flat.shape[0], N), dtype=rows.dtype)
        tiled = N - N % size
        np.matmul(flat, _column_tiles(rows[:tiled].T, size), out=_column_tiles(out[:, :tiled], size))
        np.matmul(flat, rows[tiled:].T, out=out[:, tiled:])
        return out.reshape(shape)
    return xp.reshape(xp.matmul(flat, transpose(rows)), shape)


def weighted_row_sums(weight: Array, rows: Array) -> Array:
    """(..., N) weights times (N, P) rows: (..., P), as one matrix product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    P, shape = rows.shape[1], (*weight.shape[:-1], rows.shape[1])
    if _use_tiles(flat, rows):
        tiled = rows.shape[0] - rows.shape[0] % SUM_TILE_ROWS
        tiles = _row_tiles(rows[:tiled], SUM_TILE_ROWS)
        sums = np.matmul(_column_tiles(flat[:, :tiled], SUM_TILE_ROWS), tiles).sum(axis=0)
        sums += flat[:, tiled:] @ rows[tiled:]
        return sums.reshape(shape)
    if size := _feature_tile(flat, rows, rows.shape[0]):
        sums = np.empty((flat.shape[0], P), dtype=rows.dtype)
        tiled = P - P % size
        tiles = _row_tiles(rows.T[:tiled], size).transpose(0, 2, 1)
        np.matmul(flat, tiles, out=_column_tiles(sums[:, :tiled], size))
        np.matmul(flat, rows[:, tiled:], out=sums[:, tiled:])
        return sums.reshape(shape)
    return xp.reshape(xp.matmul(flat, rows), shape)


#: Rows of a tile where parameters meet rows: products run up to 1.5 times as fast as in one piece.
TILE_ROWS = 64

#: Rows of a tile where rows are summed.
SUM_TILE_ROWS = 256

#: Rows of the thin matrix: outside this range one product is as fast.
THIN_OPERAND = range(8, 33)

#: Multiplications of a tile up to which BLAS skips its packing, of rows laid out by features.
UNPACKED_PRODUCTS = 10**6

#: Least and largest tile of rows or features there.
FEATURE_TILES = (16, 128)


def _use_tiles(thin: Array, rows: Array) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and thin.shape[0] in THIN_OPERAND
        and rows.shape[0] >= 16 * TILE_ROWS
        and rows.shape[1] > 0
        and rows.flags.c_contiguous
        and thin.dtype == rows.dtype
    )


def _feature_tile(thin: Array, rows: Array, depth: int) -> int:
    """The tile for rows laid out feature by feature, a power of two; zero for one piece."""
    if not isinstance(rows, np.ndarray) or thin.dtype != rows.dtype or not thin.size:
        return 0
    if rows.flags.c_contiguous or not rows.T.flags.c_contiguous:
        return 0
    least, largest = FEATURE_TILES
    fits = UNPACKED_PRODUCTS // max(1, thin.shape[0] * depth)
    return 0 if fits < least else min(largest, 1 << (fits.bit_length() - 1))


def _row_tiles(rows: np.ndarray, size: int) -> np.ndarray:
    return rows.reshape(-1, size, rows.shape[1])


def _column_tiles(a: np.ndarray, size: int) -> np.ndarray:
    """(M, N) as a view (N / size, M, size)."""
    return a.reshape(a.shape[0], -1, size).transpose(1, 0, 2)
