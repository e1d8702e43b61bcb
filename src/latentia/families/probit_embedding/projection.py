r"""The posterior of the projection's columns, :math:`\Sigma_s = (\mathrm{diag}\,\phi_s + X^T X / \sigma^2)^{-1}`, in the cheapest form.

The data enter through a constant, so each form is built once for a set of rows, which are weighted by :math:`\sqrt{w_n}`:

- `GramForm`, from :math:`G = X^T X`: a D x D inverse for each set of precisions. Isotropic precisions share one eigendecomposition.
- `KernelForm`, for D > N, with :math:`K_s = \sigma^2 I + X \Phi_s^{-1} X^T` of size N x N:
  :math:`\Sigma_s = \Phi_s^{-1} - \Phi_s^{-1} X^T K_s^{-1} X \Phi_s^{-1}`, so :math:`\mathrm{tr}(\Sigma_s G) = \sigma^2 (N - \sigma^2\,\mathrm{tr}\,K_s^{-1})`.
- `SpectralForm`, for isotropic precisions, with :math:`G = U \Lambda U^T` of rank K <= min(N, D), found once for all columns and
  iterations: :math:`\Sigma_s = U \mathrm{diag}(1 / (\phi_s + \Lambda / \sigma^2)) U^T + (I - U U^T) / \phi_s`.

Precisions are (..., S, D) or (..., S, 1), where S is the number of different covariances: R, or 1 if the columns share theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import device

from latentia.families.probit_embedding.row_products import Products, products
from latentia.numerics.array_api import Array, eye_like, namespace, to_numpy, transpose
from latentia.numerics.linalg import PARALLEL_MIN_SIZE, fold, map_parallel, spd_inverse, symmetric
from latentia.numerics.threads import one_blas_thread


class ProjectionPosterior(NamedTuple):
    """Normal posteriors of the R columns of the projection."""

    mean: Array  # (..., R, D)
    covariance: Array  # (..., S, P, P) or (..., S, K), in the form of its design
    variance: Array  # (..., S, D) or (..., S, 1): its diagonal, or the average of that
    log_det: Array  # (..., S)


class ProjectionSolver(Protocol):
    """What the rows say about a projection, and the posterior that follows."""

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        """Posterior for expected precisions and cross = E[Z^T] X of the rows, (..., R, D)."""
        ...

    def row_spread(self, covariance: Array, precision: Array, values: Array) -> Array:
        """x' Sigma x (..., S, N) of any rows."""
        ...

    def total_spread(self, covariance: Array) -> Array:
        """The weighted sum of `row_spread` over the rows of the design, (..., S)."""
        ...

    def with_gram(self, vectors: Array) -> Array:
        """Vectors (..., R, D) times X'X."""
        ...

    def with_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        """Vectors (..., R, D), each times the covariance of its column."""
        ...


@dataclass(frozen=True)
class GramForm:
    """The D x D form."""

    gram: Array  # (D, D), or (..., D, D) with equal entries along the leading axes
    noise: float  # sigma^2

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        xp = namespace(cross)
        if precision.shape[-1] == 1:
            spectrum = self.spectrum()
            eigenvalues, basis = spectrum.eigenvalues, spectrum.basis
            scale = 1 / (precision + eigenvalues / self.noise)
            covariance = xp.matmul(basis * scale[..., None, :], transpose(basis))
            log_det = xp.sum(xp.log(scale), axis=-1)
        else:
            eye = eye_like(precision.shape[-1], precision)
            covariance, log_det = spd_inverse(eye * precision[..., None] + self.gram[..., None, :, :] / self.noise)
            log_det = -log_det
        with one_blas_thread(covariance.shape[-1] >= PARALLEL_MIN_SIZE):
            mean = xp.matmul(covariance, cross[..., None])[..., 0] / self.noise
        return ProjectionPosterior(mean, covariance, xp.linalg.diagonal(covariance), log_det)

    def spectrum(self) -> SpectralForm:
        """The form for precisions that do not depend on the feature."""
        gram = self.gram
        while gram.ndim > 2:  # all starts see the same rows
            gram = gram[0, ...]
        return SpectralForm.of_gram(gram, self.noise)

    def row_spread(self, covariance: Array, precision: Array, values: Array) -> Array:
        return dense_spread(covariance, values)

    def total_spread(self, covariance: Array) -> Array:
        return namespace(covariance).sum(covariance * self.gram[..., None, :, :], axis=(-2, -1))

    def with_gram(self, vectors: Array) -> Array:
        return namespace(vectors).matmul(vectors, self.gram)

    def with_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        return namespace(vectors).matmul(covariance, vectors[..., None])[..., 0]


@dataclass(frozen=True)
class SpectralForm:
    """The eigenbasis form, for precisions that do not depend on the feature."""

    eigenvalues: Array  # (K,) of G
    basis: Array  # (D, K)
    noise: float

    @classmethod
    def of_gram(cls, gram: Array, noise: float) -> SpectralForm:
        """From G, of size D x D."""
        xp = namespace(gram)
        eigenvalues, basis = xp.linalg.eigh(symmetric(gram))
        return cls(xp.clip(eigenvalues, min=0.0), basis, noise)

    @classmethod
    def of_rows(cls, rows: Any, noise: float) -> SpectralForm:
        """From fewer rows than features, by the N x N matrix of their products."""
        eigenvalues, vectors = row_spectrum(rows, products(rows))
        xp = namespace(eigenvalues)
        return cls(eigenvalues, rows.T @ (vectors / xp.sqrt(eigenvalues)), noise)

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        xp = namespace(cross)
        n_features, rank = self.basis.shape
        scale = 1 / (precision + self.eigenvalues / self.noise)
        mean = fold(fold(cross, self.basis) * scale, transpose(self.basis)) / self.noise
        rest = n_features - rank
        variance = (xp.sum(scale, axis=-1, keepdims=True) + rest / precision) / n_features
        log_det = xp.sum(xp.log(scale), axis=-1) - rest * xp.log(precision[..., 0])
        return ProjectionPosterior(mean, scale, variance, log_det)

    def row_spread(self, covariance: Array, precision: Array, values: Array) -> Array:
        xp = namespace(covariance)
        scores = values @ self.basis
        inside = scores * scores
        total = row_squares(values)
        rest = xp.clip(total - xp.sum(inside, axis=-1), min=0.0)
        return fold(covariance, transpose(inside)) + rest / precision

    def total_spread(self, covariance: Array) -> Array:
        return namespace(covariance).sum(covariance * self.eigenvalues, axis=-1)

    def second_moments(self, precision: Array, squares: Array) -> Array:
        """Sums of E[q^2] over columns, (..., R, 1), whose cross products have these squares (..., R, K) in the basis."""
        xp = namespace(squares)
        scale = 1 / (precision + self.eigenvalues / self.noise)
        rest = (self.basis.shape[0] - self.basis.shape[1]) / precision
        return xp.sum(squares * (scale / self.noise) ** 2 + scale, axis=-1, keepdims=True) + rest

    def with_gram(self, vectors: Array) -> Array:
        return fold(fold(vectors, self.basis) * self.eigenvalues, transpose(self.basis))

    def with_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        inside = fold(vectors, self.basis)
        return vectors / precision + fold(inside * (covariance - 1 / precision), transpose(self.basis))


class KernelForm:
    """The N x N form. Keeps the rows, dense or sparse."""

    def __init__(self, rows: Any, noise: float):
        self.rows = rows
        self.noise = noise
        self.products = products(rows)
        eigenvalues, vectors = row_spectrum(rows, self.products)
        self.inverse_products = (vectors / eigenvalues) @ transpose(vectors)  # of X X', within its range

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        xp = namespace(cross)
        lead, n_features, n_rows = cross.shape[:-2], cross.shape[-1], self.rows.shape[0]
        v = xp.reshape(1 / precision, (-1, n_features))
        each = xp.reshape(cross, (v.shape[0], -1, n_features))  # (sets, R or 1, D)
        mean, variance, log_det = xp.zeros_like(each), xp.zeros_like(v), xp.zeros_like(v[:, 0])
        covariance = xp.empty((v.shape[0], n_rows, n_rows), dtype=v.dtype, device=device(v))

        def one(k: int) -> None:
            covariance[k, ...] = self.noise * eye_like(n_rows, v)
            covariance[k, ...] += self.products.kernel(v[k, ...])
            covariance[k, ...], log_det[k] = spd_inverse(covariance[k, ...])
            mean[k, ...], variance[k, ...] = self._moments(covariance[k, ...], v[k, ...], each[k, ...])

        map_parallel(one, v.shape[0], n_rows)
        log_det = n_rows * math.log(self.noise) + xp.sum(xp.log(v), axis=-1) - log_det
        sets = (*lead, precision.shape[-2])
        return ProjectionPosterior(
            xp.reshape(mean, cross.shape),
            xp.reshape(covariance, (*sets, n_rows, n_rows)),
            xp.reshape(variance, (*sets, n_features)),
            xp.reshape(log_det, sets),
        )

    def _moments(self, inverse: Array, v: Array, cross: Array) -> tuple[Array, Array]:
        """Means (R, D) and variances (D,) from K^-1, inverse precisions v and cross (R, D)."""
        # cross = z'X for some z (N, R); by way of z no large numbers cancel, however much the rows say
        z = self.inverse_products @ (self.rows @ transpose(cross))
        mean = v * transpose(self.rows.T @ (inverse @ z))
        variance = v - v * v * self.products.diagonal(inverse)
        return mean, namespace(v).clip(variance, min=0.0)

    def row_spread(self, covariance: Array, precision: Array, values: Any) -> Array:
        xp = namespace(covariance)
        n_rows = covariance.shape[-1]
        flat = xp.reshape(covariance, (-1, n_rows, n_rows))
        inverse_precision = xp.reshape(1 / precision, (flat.shape[0], -1))
        parts = []
        for k in range(flat.shape[0]):
            v = inverse_precision[k, ...]
            across = _dense((values * v[None, :]) @ self.rows.T)  # (n, N)
            explained = xp.sum((across @ flat[k, ...]) * across, axis=-1)
            parts.append(xp.clip(row_squares(values, v) - explained, min=0.0))
        return xp.reshape(xp.stack(parts, axis=0), (*covariance.shape[:-2], values.shape[0]))

    def total_spread(self, covariance: Array) -> Array:
        xp = namespace(covariance)
        return self.noise * (covariance.shape[-1] - self.noise * xp.linalg.trace(covariance))

    def with_gram(self, vectors: Array) -> Array:
        return self._back(self._scores(vectors))

    def with_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        scaled = vectors / precision
        inside = namespace(vectors).matmul(covariance, self._scores(scaled)[..., None])[..., 0]
        return scaled - self._back(inside) / precision

    def _scores(self, vectors: Array) -> Array:
        """Vectors (..., D) times the rows: (..., N)."""
        xp = namespace(vectors)
        flat = xp.reshape(vectors, (-1, vectors.shape[-1]))
        return xp.reshape(transpose(self.rows @ transpose(flat)), (*vectors.shape[:-1], self.rows.shape[0]))

    def _back(self, scores: Array) -> Array:
        """Sums (..., D) of the rows, times numbers (..., N)."""
        xp = namespace(scores)
        flat = xp.reshape(scores, (-1, scores.shape[-1]))
        return xp.reshape(transpose(self.rows.T @ transpose(flat)), (*scores.shape[:-1], self.rows.shape[1]))


def row_spectrum(rows: Any, of_rows: Products) -> tuple[Array, Array]:
    """Eigenvalues of X X' that are not zero, and their vectors."""
    if hasattr(rows, "tocsr"):
        ones: Any = np.ones(rows.shape[1], dtype=rows.dtype)
    else:
        ones = namespace(rows).ones_like(rows[0, ...])
    kernel = of_rows.kernel(ones)
    xp = namespace(kernel)
    eigenvalues, vectors = xp.linalg.eigh(symmetric(kernel))
    least = float(xp.max(eigenvalues)) * kernel.shape[0] * float(xp.finfo(kernel.dtype).eps)
    keep = to_numpy(eigenvalues) > least
    first = int(np.argmax(keep)) if keep.any() else kernel.shape[0]  # they come in rising order
    return eigenvalues[first:], vectors[:, first:]


def dense_spread(covariance: Array, values: Any) -> Array:
    """x' Sigma x (..., S, N) for covariances (..., S, D, D)."""
    values = _dense(values)
    xp = namespace(values)
    return xp.sum(xp.matmul(values, covariance) * values, axis=-1)


def _dense(a: Any) -> Any:
    return a.toarray() if hasattr(a, "tocsr") else a


def row_squares(values: Any, scale: Any = None) -> Any:
    """Sums (N,) of scale times the squares of rows that are dense or sparse."""
    squares = values * values
    if scale is not None:
        return squares @ scale
    return squares.sum(axis=1) if hasattr(values, "tocsr") else namespace(values).sum(squares, axis=1)
