"""Rows with a covariance matrix that each miss other cells, but about as many.

With the precision ``P`` of all cells, the missing ones m have the covariance ``V = P_mm^-1`` and
lie ``-V P_mo d`` from their means, where ``d = x - mu`` of the observed cells o, and
``log|Sigma_oo| = log|Sigma| + log|P_mm|``: no matrix of a row is larger than the number of its
missing cells. The quadratic form is that of the completed row under ``P``, a minimum, so errors of
the completion enter it squared.

The systems of all rows and matrices are solved together (`entrywise_spd`): l is the number of
matrices, each shared by S components (one, or all components of all classes).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from latentia.arrays.linalg import symmetric
from latentia.arrays.namespace import Array, asarray_like, eye_like, namespace, sum_at, transpose
from latentia.arrays.small_systems import solve_entrywise
from latentia.families.gaussian_mixture.missing_data import Precision, peak_density


class _Completion(NamedTuple):
    """What is expected of rows that miss M cells each."""

    deviation: Array  # (..., C, K, n, D) of the completed rows from the means
    covariance: Array  # (M(M+1)/2, n, l) of the missing cells, entry by entry
    log_det: Array  # (..., C or 1, K or 1, n) of that covariance
    entries: Array  # (M(M+1)/2 n,) where its entries lie in matrices of all columns and virtual ones


class ScatteredRows(NamedTuple):
    """Rows that each miss other cells, but about as many.

    A row that misses fewer than M cells also misses some virtual columns behind the others, of unit
    variance and independent of all: they change nothing.
    """

    values: Array  # (n, D), zero where missing
    observed: Array  # (n, D)
    missing: Array  # (M, n) the columns that each row misses, from D on virtual ones
    place: Array  # (n, D) which of its missing cells a cell is; M for observed ones
    width: int  # W: number of columns, virtual ones included

    @classmethod
    def from_mask(cls, values: Array, observed: Array, is_known: np.ndarray) -> ScatteredRows:
        """Of rows that know these cells (n, D)."""
        columns = missing_columns(is_known)
        (n, M), D = columns.shape, is_known.shape[1]
        width = max(D, int(columns.max()) + 1)
        place = np.full((n, width), M)
        np.put_along_axis(place, columns, np.arange(M)[None, :], axis=1)
        integer = namespace(values).int64
        missing, place = (asarray_like(a, values, dtype=integer) for a in (columns.T.copy(), place[:, :D]))
        return cls(values, observed, missing, place, width)

    def complete(self, means: Array, sigma: Array, precision: Precision) -> _Completion:
        xp = namespace(means)
        n, D = self.values.shape
        P = precision.matrix
        n_matrices = math.prod(P.shape[:-2])
        wide = _with_virtual_columns(xp.reshape(P, (n_matrices, D, D)), self.width)
        entries = self._entries()
        within = xp.take(transpose(xp.reshape(wide, (n_matrices, -1))), entries, axis=0)
        d = (self.values - means[..., None, :]) * self.observed
        Pd = xp.reshape(xp.matmul(d, P), (n_matrices, -1, n, D))
        right = xp.permute_dims(self._take_missing(xp.permute_dims(Pd, (2, 3, 1, 0))), (0, 2, 1, 3))  # (M, S, n, l)
        shape = (*right.shape[:2], n * n_matrices)
        V, step, log_det = solve_entrywise(xp.reshape(within, (-1, shape[-1])), xp.reshape(right, shape))
        placed = self._place_missing(xp.permute_dims(xp.reshape(step, right.shape), (0, 2, 1, 3)))  # (n, D, S, l)
        return _Completion(
            d - xp.reshape(xp.permute_dims(placed, (3, 2, 0, 1)), d.shape),
            xp.reshape(V, (-1, n, n_matrices)),
            -xp.reshape(transpose(xp.reshape(log_det, (n, n_matrices))), (*P.shape[:-2], n)),
            entries,
        )

    def log_density(self, means: Array, precision: Precision, completion: Any) -> Array:
        xp = namespace(means)
        whitened = xp.matmul(completion.deviation, transpose(precision.root))
        square = xp.linalg.vecdot(whitened, whitened)
        return self.log_peak(means, precision, completion) - 0.5 * square

    def log_peak(self, means: Array, precision: Precision, completion: Any) -> Array:
        log_det = precision.log_det[..., None] - completion.log_det
        return peak_density(log_det, namespace(means).sum(self.observed, axis=1), means, self.values)

    def expected_moments(self, means: Array, sigma: Array, completion: Any, weight: Array) -> tuple[Array, Array]:
        xp = namespace(means)
        _, n, n_matrices = completion.covariance.shape
        rows = means[..., None, :] + completion.deviation
        weighted = weight[..., None] * rows
        stacked = (n_matrices, -1, means.shape[-1])  # rows of all components that share a matrix
        second = xp.matmul(transpose(xp.reshape(weighted, stacked)), xp.reshape(rows, stacked))
        second = second + self._summed_covariance(completion, xp.reshape(weight, (n_matrices, -1, n)))
        return xp.sum(weighted, axis=-2), xp.reshape(
            symmetric(second), (*completion.log_det.shape[:-1], *second.shape[1:])
        )

    def _summed_covariance(self, completion: _Completion, weight: Array) -> Array:
        """Weighted sums (l, D, D) over the rows, each covariance in its own rows and columns."""
        xp, D = namespace(weight), self.values.shape[1]
        W = self.width
        weighted = completion.covariance * transpose(xp.sum(weight, axis=1))
        sums = sum_at(completion.entries, xp.reshape(weighted, (-1, weight.shape[0])), W * W)
        upper = xp.reshape(transpose(sums), (-1, W, W))[:, :D, :D]
        return upper + transpose(upper) * (1.0 - eye_like(D, upper))

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        completion = self.complete(means, sigma, Precision.from_covariance(means, sigma))
        return means[..., None, :] + completion.deviation

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        xp, M = namespace(means), self.missing.shape[0]
        covariance = self.complete(means, sigma, Precision.from_covariance(means, sigma)).covariance
        diagonal = np.cumsum([0, *range(M, 1, -1)])
        variance = xp.take(covariance, asarray_like(diagonal, self.missing), axis=0)  # (M, n, l)
        return xp.permute_dims(self._place_missing(variance), (2, 0, 1))

    def _entries(self) -> Array:
        """Where products of the missing columns lie in flat matrices with virtual columns."""
        xp = namespace(self.values)
        i, j = (asarray_like(a, self.missing) for a in np.triu_indices(self.missing.shape[0]))
        rows = xp.take(self.missing * self.width, i, axis=0)
        return xp.reshape(rows + xp.take(self.missing, j, axis=0), (-1,))

    def _take_missing(self, a: Array) -> Array:
        """The missing cells (M, n, ...) of (n, D, ...)."""
        xp, (n, D) = namespace(a), self.values.shape
        index = xp.clip(self.missing, max=D - 1) + D * _numbers(n, self.missing)  # nothing rests on virtual cells
        taken = xp.take(xp.reshape(a, (n * D, -1)), xp.reshape(index, (-1,)), axis=0)
        return xp.reshape(taken, (*self.missing.shape, *a.shape[2:]))

    def _place_missing(self, a: Array) -> Array:
        """Values (M, n, ...) of the missing cells in their columns (n, D, ...), zero elsewhere."""
        xp, n = namespace(a), self.values.shape[0]
        index = self.place * n + _numbers(n, self.place)[:, None]
        padded = xp.concat([a, xp.zeros_like(a[:1, ...])], axis=0)
        taken = xp.take(xp.reshape(padded, ((a.shape[0] + 1) * n, -1)), xp.reshape(index, (-1,)), axis=0)
        return xp.reshape(taken, (*self.place.shape, *a.shape[2:]))


def missing_columns(observed: np.ndarray) -> np.ndarray:
    """The columns that each row misses; rows that miss fewer than others miss virtual ones, too."""
    n_missing = np.sum(~observed, axis=1)[:, None]
    columns = np.argsort(observed, axis=1, kind="stable")[:, : n_missing.max()]
    place = np.arange(columns.shape[1])
    return np.where(place < n_missing, columns, observed.shape[1] + place - n_missing)


def _numbers(n: int, like: Array) -> Array:
    """0, ..., n - 1 beside an array of integers."""
    return namespace(like).arange(n, dtype=like.dtype, device=array_api_compat.device(like))


def _with_virtual_columns(P: Array, width: int) -> Array:
    """Precisions (l, W, W) of the columns and of virtual ones behind them."""
    xp = namespace(P)
    D = P.shape[-1]
    unit = eye_like(width, P)
    right, below = (xp.broadcast_to(a, (P.shape[0], *a.shape)) for a in (unit[:D, D:], unit[D:, :]))
    return xp.concat([xp.concat([P, right], axis=-1), below], axis=-2)
