"""The covariance types by the names users give, and those that pool what another type keeps apart.

A new type is a subclass of `Covariance` (or of a type that it resembles) and a line in
`COVARIANCES`.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import Array, namespace
from latentia.families.gaussian_mixture.covariance import Covariance, Diagonal
from latentia.families.gaussian_mixture.full_covariance import Full
from latentia.families.gaussian_mixture.missing_data import Precision


class Spherical(Diagonal):
    """One variance per component, (..., C, K)."""

    covariance_class_axis = -2
    common_scale = True

    def variances(self, covariance: Array, means: Array) -> Array:
        return namespace(covariance).broadcast_to(covariance[..., None], means.shape)

    def pool(self, a: Array) -> Array:
        return namespace(a).sum(a, axis=-1)

    def initial(self, variances: Array) -> Array:
        return namespace(variances).mean(variances, axis=-1)

    def in_units(self, covariance: Array, scale: Array) -> Array:
        return covariance * scale[0] ** 2

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_gaussians


class Tied(Full):
    """One covariance matrix that all components of all classes share, (..., D, D)."""

    covariance_class_axis = None
    second_class_axis = None
    natural_class_axes = Precision(None, None, -3)

    def per_component(self, covariance: Array) -> Array:
        return covariance[..., None, None, :, :]

    def pool(self, a: Array) -> Array:
        return namespace(a).sum(a, axis=(-4, -3))

    def initial(self, variances: Array) -> Array:
        xp = namespace(variances)
        return super().initial(xp.mean(variances, axis=(-3, -2)))

    def transform_noise(self, covariance: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        return super().transform_noise(covariance[None, None], 0, 0, noise)

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_features * (n_features + 1) // 2


COVARIANCES: dict[str, type[Covariance]] = {"diag": Diagonal, "full": Full, "tied": Tied, "spherical": Spherical}
