r"""The posterior of the projection's columns in the cheapest form.

.. math:: \Sigma_s = (\mathrm{diag}\,\phi_s + X^T X / \sigma^2)^{-1}

The rows enter through a constant, so each form is built once for a set of rows, which are weighted
by :math:`\sqrt{w_n}`:

- `GramForm`, from :math:`G = X^T X`: a D x D inverse for each set of precisions. Isotropic
  precisions share one eigendecomposition.
- `KernelForm`, for D > N, with :math:`K_s = \sigma^2 I + X \Phi_s^{-1} X^T` of size N x N:
  :math:`\Sigma_s = \Phi_s^{-1} - \Phi_s^{-1} X^T K_s^{-1} X \Phi_s^{-1}`, so
  :math:`\mathrm{tr}(\Sigma_s G) = \sigma^2 (N - \sigma^2\,\mathrm{tr}\,K_s^{-1})`.
- `SpectralForm`, for isotropic precisions, with :math:`G = U \Lambda U^T` of rank
  K <= min(N, D), found once for all columns and iterations:
  :math:`\Sigma_s = U \mathrm{diag}(1 / (\phi_s + \Lambda / \sigma^2)) U^T + (I - U U^T) / \phi_s`.
- `UnknownRows`, where no rows are known beforehand and G is among the statistics.

Each form keeps covariances in its own way: the matrices, :math:`K_s^{-1}`, or the eigenvalues.

Precisions are (..., S, D) or (..., S, 1), where S is the number of different covariances: R, or 1
if the columns share theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np

from latentia.arrays.linalg import PARALLEL_MIN_SIZE, eigh, flat_matmul, spd_inverse
from latentia.arrays.namespace import Array, eye_like, namespace, to_numpy, transpose
from latentia.arrays.parallel import one_blas_thread
from latentia.families.probit_embedding.row_products import (
    Products,
    ones_of_columns,
    products,
    row_squares,
    to_dense,
)


class ProjectionPosterior(NamedTuple):
    """Normal posteriors of the R columns of the projection."""

    mean: Array  # (..., R, D)
    covariance: Array  # (..., S, P, P) or (..., S, K), as the form keeps it
    variance: Array  # (..., S, D) or (..., S, 1): its diagonal, or the average of that
    log_det: Array  # (..., S)


class ProjectionForm(Protocol):
    """A way to keep and multiply the covariances of the projection's columns."""

    def row_variance(self, covariance: Array, precision: Array, values: Array) -> Array:
        """x' Sigma x (..., S, N) of any rows."""
        ...

    def times_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        """Vectors (..., R, D), each times the covariance of its column."""
        ...

    def given_gram(self, gram: Array, noise: float) -> ProjectionSolver:
        """The form of the posterior, where `gram` (..., D, D) is among the statistics."""
        ...


class ProjectionSolver(ProjectionForm, Protocol):
    """A form that knows the rows, and so the posterior that follows from them."""

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        """Posterior for expected precisions and cross = E[Z^T] X of the rows, (..., R, D)."""
        ...

    def total_variance(self, covariance: Array) -> Array:
        """The weighted sum of `row_variance` over the known rows, (..., S)."""
        ...

    def times_gram(self, vectors: Array) -> Array:
        """Vectors (..., R, D) times X'X."""
        ...

    def spectrum(self) -> SpectralForm:
        """The form for precisions that do not depend on the feature."""
        ...


class DenseCovariances:
    """Covariances (..., S, D, D), kept as they are."""

    def row_variance(self, covariance: Array, precision: Array, values: Array) -> Array:
        values = to_dense(values)
        xp = namespace(values)
        return xp.sum(xp.matmul(values, covariance) * values, axis=-1)

    def times_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        return namespace(vectors).matmul(covariance, vectors[..., None])[..., 0]


@dataclass(frozen=True)
class UnknownRows(DenseCovariances):
    """The form when nothing is known of the rows before the sweeps."""

    def given_gram(self, gram: Array, noise: float) -> GramForm:
        return GramForm(gram[(0,) * (gram.ndim - 2) + (...,)], noise)  # all restarts see the same rows


class KnownRows:
    """What forms that know their rows share."""

    def given_gram(self, gram: Array, noise: float) -> Self:
        return self


@dataclass(frozen=True)
class GramForm(DenseCovariances, KnownRows):
    """The D x D form."""

    gram: Array  # (D, D)
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
            covariance, log_det = spd_inverse(eye * precision[..., None] + self.gram / self.noise)
            log_det = -log_det
        with one_blas_thread(covariance.shape[-1] >= PARALLEL_MIN_SIZE):
            mean = xp.matmul(covariance, cross[..., None])[..., 0] / self.noise
        return ProjectionPosterior(mean, covariance, xp.linalg.diagonal(covariance), log_det)

    def total_variance(self, covariance: Array) -> Array:
        return namespace(covariance).sum(covariance * self.gram, axis=(-2, -1))

    def times_gram(self, vectors: Array) -> Array:
        return namespace(vectors).matmul(vectors, self.gram)

    def spectrum(self) -> SpectralForm:
        return SpectralForm.from_gram(self.gram, self.noise)


@dataclass(frozen=True)
class SpectralForm(KnownRows):
    """The eigenbasis form, for precisions that do not depend on the feature."""

    eigenvalues: Array  # (K,) of G
    basis: Array  # (D, K)
    noise: float

    @classmethod
    def from_gram(cls, gram: Array, noise: float) -> SpectralForm:
        """From G, of size D x D."""
        xp = namespace(gram)
        eigenvalues, basis = eigh(gram)
        return cls(xp.clip(eigenvalues, min=0.0), basis, noise)

    @classmethod
    def from_rows(cls, rows: Array, noise: float) -> SpectralForm:
        """From fewer rows than features, by the N x N matrix of their products."""
        eigenvalues, vectors = row_spectrum(rows, products(rows))
        xp = namespace(eigenvalues)
        return cls(eigenvalues, rows.T @ (vectors / xp.sqrt(eigenvalues)), noise)

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        xp = namespace(cross)
        n_features, rank = self.basis.shape
        scale = 1 / (precision + self.eigenvalues / self.noise)
        mean = flat_matmul(flat_matmul(cross, self.basis) * scale, transpose(self.basis)) / self.noise
        rest = n_features - rank
        variance = (xp.sum(scale, axis=-1, keepdims=True) + rest / precision) / n_features
        log_det = xp.sum(xp.log(scale), axis=-1) - rest * xp.log(precision[..., 0])
        return ProjectionPosterior(mean, scale, variance, log_det)

    def row_variance(self, covariance: Array, precision: Array, values: Array) -> Array:
        xp = namespace(covariance)
        scores = values @ self.basis
        inside = scores * scores
        total = row_squares(values)
        rest = xp.clip(total - xp.sum(inside, axis=-1), min=0.0)
        return flat_matmul(covariance, transpose(inside)) + rest / precision

    def total_variance(self, covariance: Array) -> Array:
        return namespace(covariance).sum(covariance * self.eigenvalues, axis=-1)

    def spectrum(self) -> SpectralForm:
        return self

    def second_moments(self, precision: Array, squares: Array) -> Array:
        """Sums of E[q^2] over columns, (..., R, 1).

        Their cross products have these squares (..., R, K) in the basis.
        """
        xp = namespace(squares)
        scale = 1 / (precision + self.eigenvalues / self.noise)
        rest = (self.basis.shape[0] - self.basis.shape[1]) / precision
        return xp.sum(squares * (scale / self.noise) ** 2 + scale, axis=-1, keepdims=True) + rest

    def times_gram(self, vectors: Array) -> Array:
        return flat_matmul(flat_matmul(vectors, self.basis) * self.eigenvalues, transpose(self.basis))

    def times_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        inside = flat_matmul(vectors, self.basis)
        return vectors / precision + flat_matmul(inside * (covariance - 1 / precision), transpose(self.basis))


def row_spectrum(rows: Array, row_products: Products) -> tuple[Array, Array]:
    """Eigenvalues of X X' that are not zero, and their vectors."""
    kernel = row_products.kernel(ones_of_columns(rows))
    xp = namespace(kernel)
    eigenvalues, vectors = eigh(kernel)
    minimum = float(xp.max(eigenvalues)) * kernel.shape[0] * float(xp.finfo(kernel.dtype).eps)
    positive = to_numpy(eigenvalues) > minimum
    first = int(np.argmax(positive)) if positive.any() else kernel.shape[0]  # they come in rising order
    return eigenvalues[first:], vectors[:, first:]
