"""Full covariance matrices.

Eigenvalues are raised to the floor ``zeta``, the exact M-step under ``Sigma >= zeta I``. The free
coordinates are ``Sigma = zeta I + L L'`` with the logarithm of L's diagonal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from latentia.arrays.linalg import eigh, floor_eigenvalues, spd_inverse, symmetric
from latentia.arrays.namespace import Array, eye_like, namespace, transpose
from latentia.engine.rows import MaskedRows
from latentia.engine.tree import Tree
from latentia.families.gaussian_mixture.covariance import FLOOR_MARGIN, Covariance, Memo, Moments, has_weight
from latentia.families.gaussian_mixture.missing_data import Precision
from latentia.families.gaussian_mixture.missingness_patterns import MissingnessPatterns

#: Keeps Cholesky factors of matrices above the floor real after rounding.
RELATIVE_JITTER = 1e-8


class Full(Covariance):
    """A covariance matrix per component, (..., C, K, D, D)."""

    covariance_class_axis: int | None = -4
    second_class_axis: int | None = -4
    natural_class_axes: Tree = Precision(-4, -2, -3)

    def per_component(self, covariance: Array) -> Array:
        """Matrices that broadcast against (..., C, K, D, D)."""
        return covariance

    def pool(self, a: Array) -> Array:
        """Sum over the components that share a matrix; `a` is (..., C, K, D, D)."""
        return a

    def initial(self, variances: Array) -> Array:
        return variances[..., None] * eye_like(variances.shape[-1], variances)

    def natural(self, means: Array, covariance: Array) -> Precision:
        return Precision.from_covariance(means, self.per_component(covariance))

    def log_density(
        self, means: Array, covariance: Array, natural: Tree, log_weights: Array, rows: MaskedRows, memo: Memo = None
    ) -> tuple[Array, Any]:
        sigma = self.per_component(covariance)
        patterns = MissingnessPatterns.remembered(rows, memo, math.prod(sigma.shape[:-2]))
        completions = [group.complete(means, sigma, natural) for group in patterns.groups]
        parts = [
            group.log_density(means, natural, done) for group, done in zip(patterns.groups, completions, strict=True)
        ]
        density = patterns.restore_row_order(parts)
        density += log_weights[..., None]
        return density, (patterns, completions)

    def log_peak(self, means: Array, covariance: Array, natural: Tree, rows: MaskedRows, cache: Any) -> Array:
        patterns, completions = cache
        parts = [group.log_peak(means, natural, done) for group, done in zip(patterns.groups, completions, strict=True)]
        return patterns.restore_row_order(parts)

    def moments(self, means: Array, covariance: Array, rows: MaskedRows, cache: Any, weight: Array) -> Moments:
        xp = namespace(means)
        count = xp.sum(weight, axis=-1)
        first: Array = 0.0
        second: Array = 0.0
        patterns, completions = cache
        for group, done, w in zip(patterns.groups, completions, patterns.split_by_pattern(weight), strict=True):
            group_first, group_second = group.expected_moments(means, self.per_component(covariance), done, w)
            first, second = first + group_first, second + self.pool(group_second)
        return Moments(count, xp.broadcast_to(count[..., None], first.shape), first, second)

    def conditional_mean(self, means: Array, covariance: Array, rows: MaskedRows, k: int) -> Array:
        sigma = self._matrices(means, covariance, k)
        patterns = MissingnessPatterns.from_mask(rows, sigma.shape[0])
        parts = [transpose(group.expected_rows(means[:, k, :], sigma)) for group in patterns.groups]
        return transpose(patterns.restore_row_order(parts))

    def conditional_variance(self, means: Array, covariance: Array, rows: MaskedRows, k: int) -> Array:
        sigma = self._matrices(means, covariance, k)
        patterns = MissingnessPatterns.from_mask(rows, sigma.shape[0])
        parts = [transpose(group.conditional_variances(means[:, k, :], sigma)) for group in patterns.groups]
        return transpose(patterns.restore_row_order(parts))

    def _matrices(self, means: Array, covariance: Array, k: int) -> Array:
        """Those of component k of each class, (C, D, D)."""
        shape = (*means.shape, means.shape[-1])
        return namespace(means).broadcast_to(self.per_component(covariance), shape)[:, k, ...]

    def update(self, covariance: Array, moments: Moments, means: Array) -> Array:
        xp = namespace(means)
        count = self.pool(moments.count[..., None, None])
        alive = has_weight(count, moments.count)
        scatter = self._scatter(moments, means)
        new = scatter / xp.where(alive, count, xp.ones_like(count))
        eye = eye_like(means.shape[-1], means)
        return xp.where(alive, floor_eigenvalues(xp.where(alive, new, eye), self.floor), covariance)

    def gradient(self, means: Array, covariance: Array, moments: Moments) -> tuple[Array, Array]:
        xp = namespace(means)
        precision, _ = spd_inverse(covariance)
        centered_sum = moments.first - moments.count[..., None] * means
        in_means = xp.matmul(self.per_component(precision), centered_sum[..., None])[..., 0]
        count = self.pool(moments.count[..., None, None])
        inner = xp.matmul(precision, xp.matmul(self._scatter(moments, means), precision))
        in_covariance = 0.5 * symmetric(inner - count * precision)
        L = self._factor(covariance, RELATIVE_JITTER)
        free = 2.0 * xp.tril(xp.matmul(in_covariance, L))
        eye = eye_like(means.shape[-1], means)
        return in_means, xp.where(eye > 0, free * L, free)

    def _scatter(self, moments: Moments, means: Array) -> Array:
        cross = means[..., :, None] * moments.first[..., None, :]
        square = moments.count[..., None, None] * means[..., :, None] * means[..., None, :]
        return moments.second - self.pool(cross + transpose(cross) - square)

    def _factor(self, covariance: Array, margin: float) -> Array:
        """Cholesky factor of what lies above the floor.

        By eigenvalues and QR, so that it exists however ill-conditioned that is.
        """
        xp = namespace(covariance)
        eye = eye_like(covariance.shape[-1], covariance)
        eigenvalues, vectors = eigh(covariance - self.floor * eye)
        root = xp.sqrt(xp.clip(eigenvalues, min=margin * self.floor))
        R = xp.linalg.qr(root[..., :, None] * transpose(vectors)).R
        sign = xp.where(xp.linalg.diagonal(R) < 0, -xp.ones_like(root), xp.ones_like(root))
        return transpose(sign[..., :, None] * R)

    def to_free(self, covariance: Array) -> Array:
        xp = namespace(covariance)
        L = self._factor(covariance, FLOOR_MARGIN)
        eye = eye_like(covariance.shape[-1], covariance)
        return xp.where(eye > 0, xp.log(xp.where(eye > 0, L, xp.ones_like(L))), L)

    def from_free(self, free: Array) -> Array:
        xp = namespace(free)
        eye = eye_like(free.shape[-1], free)
        L = xp.where(eye > 0, xp.exp(xp.where(eye > 0, free, xp.zeros_like(free))), xp.tril(free))
        return self.floor * eye + xp.matmul(L, transpose(L))

    def to_accelerated(self, covariance: Array) -> Array:
        """Symmetric roots: unlike triangular ones they are the same in any order of the columns."""
        xp = namespace(covariance)
        eigenvalues, vectors = eigh(covariance)
        roots = xp.sqrt(xp.clip(eigenvalues, min=0.0))
        return xp.matmul(vectors * roots[..., None, :], transpose(vectors))

    def from_accelerated(self, coordinates: Array) -> Array:
        return symmetric(namespace(coordinates).matmul(coordinates, transpose(coordinates)))

    def transform_noise(self, covariance: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        return noise @ np.linalg.cholesky(covariance[c, k]).T

    def in_units(self, covariance: Array, scale: Array) -> Array:
        return covariance * (scale[:, None] * scale[None, :])

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_gaussians * n_features * (n_features + 1) // 2

    def floats_per_row(self, n_features: int) -> int:
        return n_features * (n_features + 5) // 2
