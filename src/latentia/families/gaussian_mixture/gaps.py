"""Gaussians with covariance matrices on rows with missing cells: densities and expected moments,
exactly.

The missing cells m of a row are latent. `MissingnessPatterns` groups the rows, and a group
integrates them out in one of three ways, by how many rows miss the same cells:

- **None missing** (`CompleteRows`): all is a product with the features of the rows.
- **A pattern of many rows** (`PatternRows`) is worth matrix products of its own. Let ``A`` be the
  precision of its observed cells, padded with zeros, and ``d = x - mu`` on the observed cells, zero
  elsewhere. Then ``log N = -(log|Sigma_oo| + d'Ad + n_o log 2 pi) / 2``, the expected row is
  ``mu + Sigma A d`` and its covariance ``Sigma - Sigma A Sigma``. With ``T = Sigma A`` and
  ``u = mu - T mu`` the expected moments are a linear map of the moments of the zero-filled rows.
- **Rows that miss about as many cells, each its own** (`ScatteredRows`). With the precision ``P``
  of all cells, the missing ones have the covariance ``V = P_mm^-1`` and lie ``-V P_mo d`` from
  their means, and ``log|Sigma_oo| = log|Sigma| + log|P_mm|``: no matrix of a row is larger than the
  number of its missing cells. The quadratic form is that of the completed row under ``P``, a
  minimum, so errors of the completion enter it squared. The systems of all rows and matrices are
  solved together (`solve_entrywise`): l is the number of matrices, each shared by S components
  (one, or all components of all classes).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import array_api_compat
import numpy as np

from latentia.arrays.linalg import (
    pack,
    params_at_rows,
    quadratic_features,
    solve_entrywise,
    spd_inverse,
    spd_inverse_root,
    symmetric,
    unpack,
    weighted_row_sums,
    with_doubled_offdiagonal,
)
from latentia.arrays.namespace import (
    LOG_2PI,
    Array,
    asarray_like,
    eye_like,
    is_on_cpu,
    namespace,
    sum_at,
    to_numpy,
    transpose,
)
from latentia.engine.rows import MaskedRows, Memo


class Precision(NamedTuple):
    """What means (..., C, K, D) and covariance matrices that broadcast against (..., C, K, D, D)
    mean for rows.
    """

    root: Array  # R with R'R the inverse of the matrix
    log_det: Array  # (..., C, K) of the matrix
    natural: Array  # (..., C, K, F) coefficients of the log density of a complete row in its features

    @classmethod
    def from_covariance(cls, means: Array, sigma: Array) -> Precision:
        root, log_det = spd_inverse_root(sigma)
        precision = namespace(root).matmul(transpose(root), root)
        return cls(root, log_det, _natural(means, precision, log_det, means.shape[-1]))

    @property
    def matrix(self) -> Array:
        return namespace(self.root).matmul(transpose(self.root), self.root)


class CompletedRows(Protocol):
    """Rows of a group with what is expected of their missing cells under all components."""

    def log_density(self, means: Array, precision: Precision) -> Array:
        """Log N of the observed cells, (..., C, K, n)."""

    def log_peak(self, means: Array, precision: Precision) -> Array:
        """Log N of the observed cells at their means, (..., C, K, n)."""

    def expected_moments(self, means: Array, sigma: Array, weight: Array) -> tuple[Array, Array]:
        """Weighted first and second moments of the completed rows, (..., C, K, D) and (..., C, K,
        D, D); the second perhaps added up over components that share their matrix, (..., 1, 1, D,
        D).
        """


class RowGroup(Protocol):
    """Rows that are treated together."""

    def complete(self, means: Array, sigma: Array, precision: Precision) -> CompletedRows:
        """The rows completed under all components; `sigma` broadcasts against (..., C, K, D, D)."""

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        """Completed rows (C, n, D) under one component of each class: means (C, D), matrices (C, D,
        D).
        """

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        """Variances (C, n, D) of the missing cells of such rows, zero for the others."""


class CompleteRows(NamedTuple):
    """Rows without a missing cell."""

    values: Array  # (n, D)

    def complete(self, means: Array, sigma: Array, precision: Precision) -> CompletedRows:
        return _Complete(self, quadratic_features(self.values))

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        return namespace(means).broadcast_to(self.values, (*means.shape[:-1], *self.values.shape))

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        return namespace(means).zeros_like(self.expected_rows(means, sigma))


class _Complete(NamedTuple):
    """Such rows and their features."""

    rows: CompleteRows
    features: Array  # (n, F)

    def log_density(self, means: Array, precision: Precision) -> Array:
        return params_at_rows(precision.natural, self.features)

    def log_peak(self, means: Array, precision: Precision) -> Array:
        return peak_density(precision.log_det[..., None], means.shape[-1], means, self.rows.values)

    def expected_moments(self, means: Array, sigma: Array, weight: Array) -> tuple[Array, Array]:
        _, first, second = _feature_sums(weight, self.features, means.shape[-1])
        return first, second


class PatternRows(NamedTuple):
    """Rows that all miss the same cells."""

    values: Array  # (n, D), zero where missing
    observed: Array  # (D,)

    def complete(self, means: Array, sigma: Array, precision: Precision) -> CompletedRows:
        return _CompletedPattern(self, *self._precision(sigma), quadratic_features(self.values))

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        xp = namespace(means)
        A, _ = self._precision(sigma)
        d = (self.values - means[..., None, :]) * self.observed
        return means[..., None, :] + xp.matmul(d, xp.matmul(A, sigma))

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        xp = namespace(means)
        A, _ = self._precision(sigma)
        explained = xp.sum(xp.matmul(sigma, A) * sigma, axis=-1)
        variance = xp.clip(xp.linalg.diagonal(sigma) - explained, min=0.0) * (1.0 - self.observed)
        return xp.broadcast_to(variance[..., None, :], (*means.shape[:-1], *self.values.shape))

    def _precision(self, sigma: Array) -> tuple[Array, Array]:
        """Precision of the observed cells padded with zeros, and log determinant of their
        covariance.
        """
        both = self.observed[:, None] * self.observed[None, :]
        # unit variances stand in for the missing cells: they change neither determinant nor
        # precision of the others
        inverse, log_det = spd_inverse(sigma * both + (1.0 - self.observed) * eye_like(sigma.shape[-1], sigma))
        return symmetric(inverse) * both, log_det


class _CompletedPattern(NamedTuple):
    """Such rows, what they share, and their features."""

    rows: PatternRows
    precision: Array  # (..., C, K, D, D) of the observed cells, padded with zeros
    log_det: Array  # (..., C, K) of the covariance of the observed cells
    features: Array  # (n, F)

    def log_density(self, means: Array, precision: Precision) -> Array:
        n_observed = namespace(means).sum(self.rows.observed)
        return params_at_rows(_natural(means, self.precision, self.log_det, n_observed), self.features)

    def log_peak(self, means: Array, precision: Precision) -> Array:
        n_observed = namespace(means).sum(self.rows.observed)
        return peak_density(self.log_det[..., None], n_observed, means, self.rows.values)

    def expected_moments(self, means: Array, sigma: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(means)
        count, first, second = _feature_sums(weight, self.features, means.shape[-1])
        T = xp.matmul(sigma, self.precision)
        u = means - xp.matmul(T, means[..., None])[..., 0]
        filled = xp.matmul(T, first[..., None])[..., 0]
        cross = filled[..., :, None] * u[..., None, :]
        per_row = u[..., :, None] * u[..., None, :] + sigma - xp.matmul(T, sigma)
        moved = xp.matmul(T, xp.matmul(second, transpose(T)))
        return (
            filled + count[..., None] * u,
            symmetric(moved + cross + transpose(cross) + count[..., None, None] * per_row),
        )


def peak_density(log_det: Array, n_observed: Array | int, means: Array, values: Array) -> Array:
    """Log N at the means of `n_observed` cells whose covariance has this log determinant."""
    xp = namespace(means)
    return xp.broadcast_to(-0.5 * (n_observed * LOG_2PI + log_det), (*means.shape[:-1], values.shape[0]))


def _natural(means: Array, A: Array, log_det: Array, n_observed: Array | int) -> Array:
    """Coefficients of log N of cells with the precision A in the rows' features."""
    xp = namespace(means)
    D = means.shape[-1]
    precision_mean = xp.matmul(A, means[..., None])[..., 0]
    constant = -0.5 * (n_observed * LOG_2PI + log_det + xp.sum(precision_mean * means, axis=-1))
    quadratic = with_doubled_offdiagonal(pack(-0.5 * A), D)
    quadratic = xp.broadcast_to(quadratic, (*means.shape[:-1], quadratic.shape[-1]))
    return xp.concat([quadratic, precision_mean, constant[..., None]], axis=-1)


def _feature_sums(weight: Array, features: Array, D: int) -> tuple[Array, Array, Array]:
    """Weighted counts (..., C, K), first and second moments of rows with these features."""
    sums = weighted_row_sums(weight, features)
    return sums[..., -1], sums[..., -D - 1 : -1], unpack(sums[..., : -D - 1], D)


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
        missing = asarray_like(columns.T.copy(), values, dtype=integer)
        return cls(values, observed, missing, asarray_like(place[:, :D], values, dtype=integer), width)

    def complete(self, means: Array, sigma: Array, precision: Precision) -> _CompletedScattered:
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
        return _CompletedScattered(
            self,
            d - xp.reshape(xp.permute_dims(placed, (3, 2, 0, 1)), d.shape),
            xp.reshape(V, (-1, n, n_matrices)),
            -xp.reshape(transpose(xp.reshape(log_det, (n, n_matrices))), (*P.shape[:-2], n)),
            entries,
        )

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        return means[..., None, :] + self.complete(means, sigma, Precision.from_covariance(means, sigma)).deviation

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


class _CompletedScattered(NamedTuple):
    """Such rows, of which each misses M cells, and what is expected of these."""

    rows: ScatteredRows
    deviation: Array  # (..., C, K, n, D) of the completed rows from the means
    covariance: Array  # (M(M+1)/2, n, l) of the missing cells, entry by entry
    log_det: Array  # (..., C or 1, K or 1, n) of that covariance
    entries: Array  # (M(M+1)/2 n,) where its entries lie in matrices of all columns and virtual ones

    def log_density(self, means: Array, precision: Precision) -> Array:
        xp = namespace(means)
        whitened = xp.matmul(self.deviation, transpose(precision.root))
        square = xp.linalg.vecdot(whitened, whitened)
        return self.log_peak(means, precision) - 0.5 * square

    def log_peak(self, means: Array, precision: Precision) -> Array:
        log_det = precision.log_det[..., None] - self.log_det
        return peak_density(log_det, namespace(means).sum(self.rows.observed, axis=1), means, self.rows.values)

    def expected_moments(self, means: Array, sigma: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(means)
        _, n, n_matrices = self.covariance.shape
        rows = means[..., None, :] + self.deviation
        weighted = weight[..., None] * rows
        stacked = (n_matrices, -1, means.shape[-1])  # rows of all components that share a matrix
        second = xp.matmul(transpose(xp.reshape(weighted, stacked)), xp.reshape(rows, stacked))
        second = second + self._summed_covariance(xp.reshape(weight, (n_matrices, -1, n)))
        return xp.sum(weighted, axis=-2), xp.reshape(symmetric(second), (*self.log_det.shape[:-1], *second.shape[1:]))

    def _summed_covariance(self, weight: Array) -> Array:
        """Weighted sums (l, D, D) over the rows, each covariance in its own rows and columns."""
        xp, D = namespace(weight), self.rows.values.shape[1]
        W = self.rows.width
        weighted = self.covariance * transpose(xp.sum(weight, axis=1))
        sums = sum_at(self.entries, xp.reshape(weighted, (-1, weight.shape[0])), W * W)
        upper = xp.reshape(transpose(sums), (-1, W, W))[:, :D, :D]
        return upper + transpose(upper) * (1.0 - eye_like(D, upper))


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


#: A pattern of at least so many rows is treated on its own.
MIN_PATTERN_ROWS = 64

#: Rows whose numbers of missing cells differ by at most this are treated together, and others with
#: them until they are so many rows.
MAX_DIFFERENCE, MIN_GROUP_ROWS = 3, 64

#: Numbers in the upper triangles of all systems of a group, about: the caches hold no more.
GROUP_FLOATS = 2**19


class MissingnessPatterns(NamedTuple):
    """Rows grouped by which of their cells are observed."""

    groups: list[RowGroup]
    order: list[Array] | None  # row numbers of each group; None for a single group in the order of the rows
    back: Array | None  # where each row is among the groups

    @classmethod
    def remembered(cls, rows: MaskedRows, memo: Memo | None, n_matrices: int) -> MissingnessPatterns:
        """Those that an earlier sweep has left in `memo`; otherwise they are left there."""
        if memo is None or rows.observed is None:
            return cls.from_mask(rows, n_matrices)
        found = memo.get("patterns")
        if not isinstance(found, MissingnessPatterns):
            found = memo["patterns"] = cls.from_mask(rows, n_matrices)
        return found

    def take_restarts(self, index: np.ndarray) -> MissingnessPatterns:
        """All restarts see the same rows."""
        return self

    @classmethod
    def from_mask(cls, rows: MaskedRows, n_matrices: int) -> MissingnessPatterns:
        """Groups of rows that each meet so many matrices."""
        if rows.observed is None:
            return cls([CompleteRows(rows.values)], None, None)
        xp = namespace(rows.values)
        observed = to_numpy(rows.observed) > 0
        _, pattern, size = np.unique(np.packbits(observed, axis=1), axis=0, return_inverse=True, return_counts=True)
        pattern = pattern.ravel()
        n_missing = np.sum(~observed, axis=1)
        is_common = (size[pattern] >= MIN_PATTERN_ROWS) & (n_missing > 0)
        order: list[Array] = []
        groups: list[RowGroup] = []

        def take(index: np.ndarray) -> tuple[Array, Array]:
            order.append(asarray_like(index, rows.values, dtype=xp.int64))
            return xp.take(rows.values, order[-1], axis=0), xp.take(rows.observed, order[-1], axis=0)

        for index in _grouped(np.flatnonzero(is_common), pattern):
            values, mask = take(index)
            groups.append(PatternRows(values, mask[0, :]))
        if (complete := np.flatnonzero(n_missing == 0)).size:
            groups.append(CompleteRows(take(complete)[0]))
        max_floats = GROUP_FLOATS // n_matrices if is_on_cpu(rows.values) else None
        for index in _about_as_many(np.flatnonzero(~is_common & (n_missing > 0)), n_missing, max_floats):
            groups.append(ScatteredRows.from_mask(*take(index), observed[index]))
        return cls(groups, order, xp.argsort(xp.concat(order)))

    def split_by_pattern(self, weight: Array) -> list[Array]:
        """The columns of each group."""
        if self.order is None:
            return [weight]
        xp = namespace(weight)
        return [xp.take(weight, index, axis=-1) for index in self.order]

    def restore_row_order(self, parts: list[Array]) -> Array:
        """The groups' columns put back where their rows are."""
        xp = namespace(parts[0])
        if self.back is None:
            return parts[0]
        return xp.take(xp.concat(parts, axis=-1), self.back, axis=-1)


def _grouped(index: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
    """Row numbers cut into groups of one key each."""
    index = index[np.argsort(key[index], kind="stable")]
    groups = np.split(index, np.flatnonzero(np.diff(key[index])) + 1)
    return [group for group in groups if group.size]


def _about_as_many(index: np.ndarray, n_missing: np.ndarray, max_floats: int | None) -> list[np.ndarray]:
    """Row numbers cut into groups that miss about as many cells, from the most to the fewest; of
    upper triangles with at most so many numbers.
    """
    index = index[np.argsort(-n_missing[index], kind="stable")]
    groups, begin = [], 0
    while begin < index.size:
        most = n_missing[index[begin]]
        enough = n_missing[index[min(begin + MIN_GROUP_ROWS, index.size) - 1]]
        least = min(most - MAX_DIFFERENCE, enough)
        end = begin + int(np.sum(n_missing[index[begin:]] >= least))
        if max_floats is not None:
            end = min(end, begin + max(MIN_GROUP_ROWS, max_floats // int(most * (most + 1) // 2)))
        groups.append(index[begin:end])
        begin = end
    return groups
