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

The N x N form of the projection's posterior, for more features than rows; see `projection`.

Products with rows that are dense or sparse: everything that has to know which they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from array_api_compat import device
from scipy import sparse

from latentia.arrays.linalg import PARALLEL_MIN_SIZE, eigh, flat_matmul, map_parallel, spd_inverse
from latentia.arrays.namespace import Array, eye_like, is_sparse, namespace, to_numpy, transpose
from latentia.arrays.parallel import one_blas_thread


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


class KernelForm(KnownRows):
    """The N x N form. Keeps the rows, dense or sparse."""

    def __init__(self, rows: Array, noise: float, row_products: Products | None = None):
        self.rows = rows
        self.noise = noise
        self.products = products(rows) if row_products is None else row_products
        eigenvalues, vectors = row_spectrum(rows, self.products)
        self.inverse_products = (vectors / eigenvalues) @ transpose(vectors)  # of X X', within its range

    def posterior(self, precision: Array, cross: Array) -> ProjectionPosterior:
        xp = namespace(cross)
        lead, n_features, n_rows = cross.shape[:-2], cross.shape[-1], self.rows.shape[0]
        v = xp.reshape(1 / precision, (-1, n_features))
        crosses = xp.reshape(cross, (v.shape[0], -1, n_features))  # (sets, R or 1, D)
        mean, variance, log_det = xp.zeros_like(crosses), xp.zeros_like(v), xp.zeros_like(v[:, 0])
        covariance = xp.empty((v.shape[0], n_rows, n_rows), dtype=v.dtype, device=device(v))

        def one(k: int) -> None:
            covariance[k, ...] = self.noise * eye_like(n_rows, v)
            covariance[k, ...] += self.products.kernel(v[k, ...])
            covariance[k, ...], log_det[k] = spd_inverse(covariance[k, ...])
            mean[k, ...], variance[k, ...] = self._moments(covariance[k, ...], v[k, ...], crosses[k, ...])

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
        # cross = z'X for a z (N, R); by way of z no large numbers cancel, however much rows say
        z = self.inverse_products @ (self.rows @ transpose(cross))
        mean = v * transpose(self.rows.T @ (inverse @ z))
        variance = v - v * v * self.products.diagonal(inverse)
        return mean, namespace(v).clip(variance, min=0.0)

    def row_variance(self, covariance: Array, precision: Array, values: Array) -> Array:
        xp = namespace(covariance)
        n_rows = covariance.shape[-1]
        flat = xp.reshape(covariance, (-1, n_rows, n_rows))
        inverse_precision = xp.reshape(1 / precision, (flat.shape[0], -1))
        parts = []
        for k in range(flat.shape[0]):
            v = inverse_precision[k, ...]
            across = to_dense((values * v[None, :]) @ self.rows.T)  # (n, N)
            explained = xp.sum((across @ flat[k, ...]) * across, axis=-1)
            parts.append(xp.clip(row_squares(values, v) - explained, min=0.0))
        return xp.reshape(xp.stack(parts, axis=0), (*covariance.shape[:-2], values.shape[0]))

    def total_variance(self, covariance: Array) -> Array:
        xp = namespace(covariance)
        return self.noise * (covariance.shape[-1] - self.noise * xp.linalg.trace(covariance))

    def times_gram(self, vectors: Array) -> Array:
        return self._row_sums(self._scores(vectors))

    def spectrum(self) -> SpectralForm:
        return SpectralForm.from_rows(self.rows, self.noise)

    def times_covariance(self, covariance: Array, precision: Array, vectors: Array) -> Array:
        scaled = vectors / precision
        inside = namespace(vectors).matmul(covariance, self._scores(scaled)[..., None])[..., 0]
        return scaled - self._row_sums(inside) / precision

    def _scores(self, vectors: Array) -> Array:
        """Vectors (..., D) times the rows: (..., N)."""
        xp = namespace(vectors)
        flat = xp.reshape(vectors, (-1, vectors.shape[-1]))
        return xp.reshape(transpose(self.rows @ transpose(flat)), (*vectors.shape[:-1], self.rows.shape[0]))

    def _row_sums(self, scores: Array) -> Array:
        """Sums (..., D) of the rows, times numbers (..., N)."""
        xp = namespace(scores)
        flat = xp.reshape(scores, (-1, scores.shape[-1]))
        return xp.reshape(transpose(self.rows.T @ transpose(flat)), (*scores.shape[:-1], self.rows.shape[1]))


#: Products x_if x_jf that `PairProducts` keeps at most: 12 bytes each, 360 MB.
MAX_PAIRS = 3 * 10**7

#: Entries of the dense columns that `ColumnProducts` handles at once: 32 MiB.
MAX_DENSE_ENTRIES = 2**22


def project(projection: Array, x: Array) -> Array:
    """Rows x (N, D) times (..., R, D): (..., N, R)."""
    return transpose(_flat_product(projection, x))


def weighted_sums(weight: Array, x: Array) -> Array:
    """Sums (..., R, D) of the rows x (N, D), times weights (..., N, R)."""
    return _flat_product(transpose(weight), x.T if is_sparse(x) else transpose(x))


def _flat_product(vectors: Array, x: Array) -> Array:
    """Vectors (..., R, D) times the rows x (N, D), as one matrix product: (..., R, N)."""
    xp = namespace(vectors)
    flat = xp.reshape(vectors, (-1, vectors.shape[-1]))
    scores = transpose(x @ transpose(flat)) if is_sparse(x) else xp.matmul(flat, transpose(x))
    return xp.reshape(scores, (*vectors.shape[:-1], x.shape[0]))


def label_products(labels: Array, x: Array) -> Array:
    """Sums (L, D) of the rows x (N, D), times numbers (N, L) of each label."""
    return transpose(x.T @ labels) if is_sparse(x) else transpose(labels) @ x


def gram_matrix(x: Array, weight: Array) -> Array:
    """X' diag(weight) X, (D, D)."""
    if is_sparse(x):
        return (x.T @ x.multiply(weight[:, None])).toarray()
    return transpose(x) @ (x * weight[:, None])


def scale_rows(x: Array, scale: Array) -> Array:
    """Each row times a number."""
    return type(x)(x.multiply(scale[:, None])) if is_sparse(x) else x * scale[:, None]


def row_squares(x: Array, scale: Array | None = None) -> Array:
    """Sums (N,) of the squares of each row, times a number for each column."""
    squares = x * x
    if scale is not None:
        return squares @ scale
    return squares.sum(axis=1) if is_sparse(x) else namespace(x).sum(squares, axis=1)


def ones_of_columns(x: Array) -> Array:
    """A one for each column."""
    return np.ones(x.shape[1], dtype=x.dtype) if is_sparse(x) else namespace(x).ones_like(x[0, ...])


def to_dense(x: Array) -> Array:
    """The same numbers in an array."""
    return x.toarray() if is_sparse(x) else x


class Products(Protocol):
    """Products of N rows of D features."""

    def kernel(self, scale: Array) -> Array:
        """X diag(scale) X', (N, N)."""
        ...

    def diagonal(self, inner: Array) -> Array:
        """The diagonal of X' inner X, (D,)."""
        ...


def products(rows: Array) -> Products:
    """The cheapest way to multiply such rows."""
    if not is_sparse(rows):
        return DenseProducts(rows)
    counts = np.diff(sparse.csc_array(rows).indptr).astype(np.int64)
    n_pairs = int((counts * (counts + 1) // 2).sum())
    return PairProducts.from_rows(rows) if n_pairs <= MAX_PAIRS else ColumnProducts(sparse.csc_array(rows))


@dataclass(frozen=True)
class DenseProducts:
    """Rows in an array."""

    rows: Array

    def kernel(self, scale: Array) -> Array:
        half = self.rows * namespace(scale).sqrt(scale)
        return half @ half.T  # NumPy dispatches to syrk

    def diagonal(self, inner: Array) -> Array:
        return namespace(inner).sum(self.rows * (inner @ self.rows), axis=0)


@dataclass(frozen=True)
class PairProducts:
    """Sparse rows, by the products x_if x_jf, i <= j, of the entries that share a column f."""

    table: sparse.csr_array  # (D, N * N): row f holds its products in column i * N + j
    n_rows: int

    @classmethod
    def from_rows(cls, rows: Array) -> PairProducts:
        by_column = sparse.csc_array(rows)
        by_column.sort_indices()
        n_rows, n_features = by_column.shape
        counts = np.diff(by_column.indptr).astype(np.int64)
        ends = np.repeat(by_column.indptr[1:].astype(np.int64), counts)
        partners = ends - np.arange(ends.size)  # an entry's partners are itself and those after it
        first = np.repeat(np.arange(ends.size), partners)
        second = first + np.arange(first.size) - np.repeat(np.cumsum(partners) - partners, partners)
        row = by_column.indices.astype(np.int64)
        column = row[first] * n_rows + row[second]
        indptr = np.concatenate([[0], np.cumsum(counts * (counts + 1) // 2)])
        if n_rows * n_rows < 2**31:
            column, indptr = column.astype(np.int32), indptr.astype(np.int32)
        values = by_column.data[first] * by_column.data[second]
        return cls(sparse.csr_array((values, column, indptr), shape=(n_features, n_rows * n_rows)), n_rows)

    def kernel(self, scale: np.ndarray) -> np.ndarray:
        upper = np.reshape(self.table.T @ scale, (self.n_rows, self.n_rows))
        return upper + upper.T - np.diag(np.diagonal(upper))

    def diagonal(self, inner: np.ndarray) -> np.ndarray:
        doubled = 2 * inner
        np.fill_diagonal(doubled, np.diagonal(inner))
        return np.asarray(self.table @ np.ravel(doubled))


@dataclass(frozen=True)
class ColumnProducts:
    """Sparse rows with well-filled columns, of which some are made dense at a time."""

    columns: sparse.csc_array
    max_dense_entries: int = MAX_DENSE_ENTRIES

    def kernel(self, scale: np.ndarray) -> np.ndarray:
        total = np.zeros((self.columns.shape[0],) * 2, dtype=scale.dtype)
        for index, dense in self._dense_columns():
            total += (dense * scale[index]) @ dense.T
        return total

    def diagonal(self, inner: np.ndarray) -> np.ndarray:
        return np.concatenate([np.sum(dense * (inner @ dense), axis=0) for _, dense in self._dense_columns()])

    def _dense_columns(self) -> Iterator[tuple[slice, np.ndarray]]:
        n_rows, n_features = self.columns.shape
        width = max(1, self.max_dense_entries // n_rows)
        for start in range(0, n_features, width):
            index = slice(start, min(start + width, n_features))
            yield index, self.columns[:, index].toarray()
