"""Gaussians with a covariance matrix, of their own or shared (`Full`, `Tied`), on rows with missing
cells: densities and expected moments, exactly.

The missing cells m of a row are latent. Two ways to integrate them out, by how many rows
miss the same ones:

- A pattern of many rows is worth matrix products of its own. Let ``A`` be the precision of its
  observed cells, padded with zeros, and ``d = x - mu`` on the observed cells, zero elsewhere. Then
  ``log N = -(log|Sigma_oo| + d'Ad + n_o log 2 pi) / 2``, the expected row is ``mu + Sigma A d`` and
  its covariance ``Sigma - Sigma A Sigma``. With ``T = Sigma A`` and ``u = mu - T mu`` the expected
  moments are a linear map of the moments of the zero-filled rows.
- Rows with rarer patterns are the matter of `scattered_rows`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from latentia.arrays.linalg import (
    pack,
    params_at_rows,
    quadratic_features,
    spd_inverse,
    spd_inverse_root,
    symmetric,
    unpack,
    weighted_row_sums,
    with_doubled_offdiagonal,
)
from latentia.arrays.namespace import LOG_2PI, Array, eye_like, namespace, transpose


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
        D, D); the second perhaps added up over components that share their matrix, (..., 1, 1, D,
        D).
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
        return peak_density(precision.log_det[..., None], means.shape[-1], means, self.values)

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
        return peak_density(completion.log_det[..., None], namespace(means).sum(self.observed), means, self.values)

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
