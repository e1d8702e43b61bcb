"""The N x N form of the projection's posterior, for more features than rows; see `projection`."""

from __future__ import annotations

import math

from array_api_compat import device

from latentia.arrays.linalg import map_parallel, spd_inverse
from latentia.arrays.namespace import Array, eye_like, namespace, transpose
from latentia.families.probit_embedding.projection import KnownRows, ProjectionPosterior, SpectralForm, row_spectrum
from latentia.families.probit_embedding.row_products import Products, products, row_squares, to_dense


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
