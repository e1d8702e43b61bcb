"""Gaussians with a covariance matrix, of their own or shared (`Full`, `Tied`), on rows with missing
cells: densities and expected moments, exactly.

The missing cells m of a row are latent. Two ways to integrate them out, by what is smaller:

- A pattern of many rows is worth matrix products of its own. Let ``A`` be the precision of its
  observed cells, padded with zeros, and ``d = x - mu`` on the observed cells, zero elsewhere. Then
  ``log N = -(log|Sigma_oo| + d'Ad + n_o log 2 pi) / 2``, the expected row is ``mu + Sigma A d`` and
  its covariance ``Sigma - Sigma A Sigma``. With ``T = Sigma A`` and ``u = mu - T mu`` the expected
  moments are a linear map of the moments of the zero-filled rows.
- Rows with rarer patterns are grouped by about how many cells they miss. With the precision ``P``
  of all cells, the missing ones have the covariance ``V = P_mm^-1`` and lie ``-V P_mo d`` from
  their means, and ``log|Sigma_oo| = log|Sigma| + log|P_mm|``: no matrix of a row is larger than the
  number of its missing cells. The quadratic form is that of the completed row under ``P``, a
  minimum, so errors of the completion enter it squared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from latentia.numerics.array_api import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse, spd_inverse_root, symmetric
from latentia.numerics.matmul import params_at_rows, weighted_row_sums
from latentia.numerics.packed_symmetric import pack, quadratic_features, unpack, with_doubled_offdiagonal

#: Numbers in the matrices of one batch of rows.
BATCH_FLOATS = 2**19

#: Rows whose numbers of missing cells differ by at most this are treated together.
N_VIRTUAL = 3


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


class RowGroup(Protocol):
    """Rows that are treated together."""

    def complete(self, means: Array, sigma: Array, precision: Precision) -> Any:
        """What the other methods need to know of the missing cells, computed once; `sigma`
        broadcasts against (..., C, K, D, D).
        """

    def log_density(self, means: Array, precision: Precision, completion: Any) -> Array:
        """Log N of the observed cells, (..., C, K, n)."""

    def log_peak(self, means: Array, precision: Precision, completion: Any) -> Array:
        """Log N of the observed cells at their means, (..., C, K, n)."""

    def expected_moments(self, means: Array, sigma: Array, completion: Any, weight: Array) -> tuple[Array, Array]:
        """Weighted first and second moments of the completed rows, (..., C, K, D) and (..., C, K,
        D, D).
        """

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        """Completed rows (C, n, D) under one component of each class: means (C, D), matrices (C, D,
        D).
        """

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        """Variances (C, n, D) of the missing cells of such rows, zero for the others."""


class CompleteRows(NamedTuple):
    """Rows without a missing cell; completed, they are their features."""

    values: Array  # (n, D)

    def complete(self, means: Array, sigma: Array, precision: Precision) -> Array:
        return quadratic_features(self.values)

    def log_density(self, means: Array, precision: Precision, completion: Any) -> Array:
        return params_at_rows(precision.natural, completion)

    def log_peak(self, means: Array, precision: Precision, completion: Any) -> Array:
        return _peak(precision.log_det[..., None], means.shape[-1], means, self.values)

    def expected_moments(self, means: Array, sigma: Array, completion: Any, weight: Array) -> tuple[Array, Array]:
        _, first, second = _feature_sums(weight, completion, means.shape[-1])
        return first, second

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        return namespace(means).broadcast_to(self.values, (*means.shape[:-1], *self.values.shape))

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        return namespace(means).zeros_like(self.expected_rows(means, sigma))


class _PatternCompletion(NamedTuple):
    """What rows share that miss the same cells, and their features."""

    precision: Array  # (..., C, K, D, D) of the observed cells, padded with zeros
    log_det: Array  # (..., C, K) of the covariance of the observed cells
    features: Array  # (n, F)


class PatternRows(NamedTuple):
    """Rows that all miss the same cells."""

    values: Array  # (n, D), zero where missing
    observed: Array  # (D,)

    def complete(self, means: Array, sigma: Array, precision: Precision) -> _PatternCompletion:
        return _PatternCompletion(*self._precision(sigma), quadratic_features(self.values))

    def log_density(self, means: Array, precision: Precision, completion: Any) -> Array:
        A, log_det, features = completion
        return params_at_rows(_natural(means, A, log_det, namespace(means).sum(self.observed)), features)

    def log_peak(self, means: Array, precision: Precision, completion: Any) -> Array:
        return _peak(completion.log_det[..., None], namespace(means).sum(self.observed), means, self.values)

    def expected_moments(self, means: Array, sigma: Array, completion: Any, weight: Array) -> tuple[Array, Array]:
        xp = namespace(means)
        count, first, second = _feature_sums(weight, completion.features, means.shape[-1])
        T = xp.matmul(sigma, completion.precision)
        u = means - xp.matmul(T, means[..., None])[..., 0]
        filled = xp.matmul(T, first[..., None])[..., 0]
        cross = filled[..., :, None] * u[..., None, :]
        per_row = u[..., :, None] * u[..., None, :] + sigma - xp.matmul(T, sigma)
        moved = xp.matmul(T, xp.matmul(second, transpose(T)))
        return (
            filled + count[..., None] * u,
            symmetric(moved + cross + transpose(cross) + count[..., None, None] * per_row),
        )

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


class _Completion(NamedTuple):
    """What is expected of rows that miss M cells each."""

    deviation: Array  # (..., C, K, n, D) of the completed rows from the means
    covariance: Array  # (..., C, K, n, M, M) of the missing cells
    log_det: Array  # (..., C, K, n) of that covariance


class ScatteredRows(NamedTuple):
    """Rows that each miss other cells, but about as many.

    A row that misses fewer than M cells also misses some of `N_VIRTUAL` columns behind the others,
    of unit variance and independent of all: they change nothing.
    """

    values: Array  # (n, D), zero where missing
    observed: Array  # (n, D)
    missing: Array  # (n, M) the columns that each row misses, from D on virtual ones

    def complete(self, means: Array, sigma: Array, precision: Precision) -> list[_Completion]:
        P = precision.matrix
        return [batch._complete(means, P) for batch in self._batches(means)]

    def log_density(self, means: Array, precision: Precision, completion: Any) -> Array:
        xp = namespace(means)
        root = transpose(precision.root)
        squares = [xp.sum(xp.matmul(row.deviation, root) ** 2, axis=-1) for row in completion]
        return self.log_peak(means, precision, completion) - 0.5 * xp.concat(squares, axis=-1)

    def log_peak(self, means: Array, precision: Precision, completion: Any) -> Array:
        xp = namespace(means)
        log_det = precision.log_det[..., None] - xp.concat([row.log_det for row in completion], axis=-1)
        return _peak(log_det, xp.sum(self.observed, axis=1), means, self.values)

    def expected_moments(self, means: Array, sigma: Array, completion: Any, weight: Array) -> tuple[Array, Array]:
        xp = namespace(means)
        D = means.shape[-1]
        first: Array = 0.0
        second: Array = 0.0
        begin = 0
        for batch, row in zip(self._batches(means), completion, strict=True):
            w = weight[..., begin : begin + batch.values.shape[0]]
            begin += batch.values.shape[0]
            rows = means[..., None, :] + row.deviation
            weighted = w[..., None] * rows
            # sum_n w V_n, each in its own rows and columns: one product over rows and missing cells
            is_missing = batch._indicators()
            tall = xp.reshape(is_missing, (-1, D))
            right = xp.matmul(row.covariance * w[..., None, None], is_missing)
            covariance = xp.matmul(transpose(tall), xp.reshape(right, (*right.shape[:-3], tall.shape[0], D)))
            first = first + xp.sum(weighted, axis=-2)
            second = second + xp.matmul(transpose(weighted), rows) + covariance
        return first, symmetric(second)

    def expected_rows(self, means: Array, sigma: Array) -> Array:
        deviations = [row.deviation for row in self.complete(means, sigma, Precision.from_covariance(means, sigma))]
        return means[..., None, :] + namespace(means).concat(deviations, axis=-2)

    def conditional_variances(self, means: Array, sigma: Array) -> Array:
        xp = namespace(means)
        completion = self.complete(means, sigma, Precision.from_covariance(means, sigma))
        variance = xp.concat([xp.linalg.diagonal(row.covariance) for row in completion], axis=-2)  # (C, n, M)
        return xp.matmul(variance[..., None, :], self._indicators())[..., 0, :]

    def _complete(self, means: Array, P: Array) -> _Completion:
        xp = namespace(means)
        wide = _with_virtual_columns(P)
        W = wide.shape[-1]
        entry = self.missing[:, :, None] * W + self.missing[:, None, :]
        within = xp.take(xp.reshape(wide, (*P.shape[:-2], W * W)), xp.reshape(entry, (-1,)), axis=-1)
        V, log_det = spd_inverse(xp.reshape(within, (*P.shape[:-2], *entry.shape)), many=True)
        d = (self.values - means[..., None, :]) * self.observed
        is_missing = self._indicators()
        Pd = xp.matmul(is_missing, xp.matmul(d, P)[..., None])  # (..., n, M, 1)
        step = xp.matmul(transpose(is_missing), xp.matmul(V, Pd))[..., 0]
        return _Completion(d - step, V, -log_det)

    def _indicators(self) -> Array:
        """Indicators (n, M, D) of the missing columns, zero for virtual ones."""
        xp = namespace(self.values)
        D = self.values.shape[1]
        columns = eye_like(D + N_VIRTUAL, self.values)[:, :D]
        rows = xp.take(columns, xp.reshape(self.missing, (-1,)), axis=0)
        return xp.reshape(rows, (*self.missing.shape, D))

    def _batches(self, means: Array) -> Iterator[ScatteredRows]:
        """Rows whose matrices fit the budget."""
        n_rows, M = self.missing.shape
        D = means.shape[-1]
        step = max(1, BATCH_FLOATS // (math.prod(means.shape[:-1]) * (M * (M + D) + 4 * D)))
        for begin in range(0, n_rows, step):
            part = slice(begin, min(begin + step, n_rows))
            yield ScatteredRows(self.values[part, :], self.observed[part, :], self.missing[part, :])


def _with_virtual_columns(P: Array) -> Array:
    """Precisions (..., D, D) of the columns and of virtual ones behind them."""
    xp = namespace(P)
    D = P.shape[-1]
    unit = eye_like(D + N_VIRTUAL, P)
    right, below = (xp.broadcast_to(a, (*P.shape[:-2], *a.shape)) for a in (unit[:D, D:], unit[D:, :]))
    return xp.concat([xp.concat([P, right], axis=-1), below], axis=-2)


def _peak(log_det: Array, n_observed: Array | int, means: Array, values: Array) -> Array:
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
