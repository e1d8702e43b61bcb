"""Types of a Gaussian component's covariance, as objects: the contract, and diagonal covariances.

A Gaussian is an exponential family, so all that is heavy is two matrix products with the rows'
*features* ``F = [x_i x_j, x_i, observed_i]``: log densities are ``natural parameters @ F.T`` and
moments are ``weights @ F``. Diagonal types need ``x_i^2`` only, and a missing cell drops out of the
products.

Variances never fall below the floor ``zeta``: they are raised to it, which is the exact constrained
M-step. The free coordinates are ``sigma^2 = zeta + exp(z)`` (eq. 3.23).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import LOG_2PI, Array, namespace
from latentia.engine.rows import MaskedRows
from latentia.engine.tree import Tree

#: Components with less weight than this keep their parameters; where all weight is less than that
#: of
#: one row, with less than this fraction of it.
MIN_WEIGHT = 1e-10

#: Where EM rests on the floor, free coordinates start this fraction of the floor above it.
FLOOR_MARGIN = 1e-2


Memo = dict[str, Any] | None


class Moments(NamedTuple):
    """Expected moments of the rows of each component, about the origin."""

    count: Array  # (..., C, K)
    n_observed: Array  # (..., C, K, D) count of the observed cells; full types fill the missing ones
    first: Array  # (..., C, K, D)
    second: Array  # (..., C, K, D) or (..., C, K, D, D), summed over C and K if tied


class Covariance(ABC):
    """One type. Its parameter, `covariance`, holds variances or covariance matrices."""

    #: Axis of the parameter / of the second moments that runs over the classes (see `pytree`).
    covariance_class_axis: int | None
    second_class_axis: int | None
    #: Whether columns must be scaled alike, because the type compares their variances.
    common_scale: ClassVar[bool] = False

    def __init__(self, floor: float):
        self.floor = floor

    @abstractmethod
    def initial(self, variances: Array) -> Array:
        """The covariance that has these variances (..., C, K, D) on its diagonal."""

    #: Class axes of what `natural` returns.
    natural_class_axes: Tree = ()

    def natural(self, means: Array, covariance: Array) -> Tree:
        """What `log_density` needs of the parameters for any row, computed once for all chunks."""
        return ()

    def shift_cells(self, natural: Tree, constant: Array) -> Tree:
        """`natural` with (..., C, K, D) added to the log density for each known cell.

        Types that treat a row's cells jointly have no such constants.
        """
        return natural

    @abstractmethod
    def log_density(
        self, means: Array, covariance: Array, natural: Tree, log_weights: Array, rows: MaskedRows, memo: Memo = None
    ) -> tuple[Array, Any]:
        """Log of weight times N(x) of observed cells (..., C, K, N), and a cache for `moments`.

        What is known of the rows may be in `memo` (see `RememberingFamily`).
        """

    @abstractmethod
    def log_peak(self, means: Array, covariance: Array, natural: Tree, rows: MaskedRows, cache: Any) -> Array:
        """Log N of the observed cells at their means, which broadcasts against (..., C, K, N)."""

    @abstractmethod
    def moments(self, means: Array, covariance: Array, rows: MaskedRows, cache: Any, weight: Array) -> Moments:
        """Weighted expected moments, weights (..., C, K, N)."""

    @abstractmethod
    def conditional_mean(self, means: Array, covariance: Array, rows: MaskedRows, k: int) -> Array:
        """Expected rows (C, N, D) under component k of each class, for parameters without leading
        axes.
        """

    def conditional_variance(self, means: Array, covariance: Array, rows: MaskedRows, k: int) -> Array:
        """Variances of the missing cells, which broadcast against those means; by default zero."""
        return namespace(means).zeros_like(means[:, k, None, :])

    @abstractmethod
    def update(self, covariance: Array, moments: Moments, means: Array) -> Array:
        """The M-step of the covariance under new means."""

    @abstractmethod
    def gradient(self, means: Array, covariance: Array, moments: Moments) -> tuple[Array, Array]:
        """Gradient in the means and in the free coordinates of the covariance."""

    @abstractmethod
    def to_free(self, covariance: Array) -> Array:
        """Unconstrained coordinates."""

    @abstractmethod
    def from_free(self, free: Array) -> Array:
        """The covariance at unconstrained coordinates."""

    def to_accelerated(self, covariance: Array) -> Array:
        """Coordinates in which steps are extrapolated: any numbers are those of a covariance."""
        return self.to_free(covariance)

    def from_accelerated(self, coordinates: Array) -> Array:
        """The covariance at these coordinates."""
        return self.from_free(coordinates)

    @abstractmethod
    def transform_noise(self, covariance: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        """Standard normal rows (n, D) as rows with the covariance of component k of class c.

        For parameters without leading axes, in NumPy.
        """

    @abstractmethod
    def in_units(self, covariance: Array, scale: Array) -> Array:
        """The parameter in the units of X, for columns that were divided by `scale` (D,)."""

    @abstractmethod
    def n_free(self, n_features: int, n_gaussians: int) -> int:
        """Number of free parameters."""

    @abstractmethod
    def floats_per_row(self, n_features: int) -> int:
        """Number of features a row expands to."""


class Diagonal(Covariance):
    """A variance per feature and component, (..., C, K, D)."""

    covariance_class_axis: int | None = -3
    second_class_axis: int | None = -3
    natural_class_axes: Tree = (-3, -3, -3, -2)

    def variances(self, covariance: Array, means: Array) -> Array:
        """Variances in the shape of the means."""
        return covariance

    def pool(self, a: Array) -> Array:
        """Sum over what shares a variance."""
        return a

    def initial(self, variances: Array) -> Array:
        return variances

    def natural(self, means: Array, covariance: Array) -> tuple[Array, Array, Array, Array]:
        """Coefficients (..., C, K, D) of x^2, x and observed, and the last's sum (..., C, K)."""
        xp = namespace(means)
        variance = self.variances(covariance, means)
        precision = 1.0 / variance
        precision_mean = precision * means
        constant = -0.5 * (LOG_2PI + xp.log(variance) + precision_mean * means)
        return -0.5 * precision, precision_mean, constant, xp.sum(constant, axis=-1)

    def shift_cells(self, natural: Tree, constant: Array) -> Tree:
        quadratic, linear, old, total = natural
        return quadratic, linear, old + constant, total + namespace(constant).sum(constant, axis=-1)

    def log_density(
        self, means: Array, covariance: Array, natural: Tree, log_weights: Array, rows: MaskedRows, memo: Memo = None
    ) -> tuple[Array, Any]:
        # One product per feature: side by side in one matrix they would have to be copied first.
        quadratic, linear, constant, total = natural
        squares = rows.values * rows.values
        density = params_at_rows(quadratic, squares)
        density += params_at_rows(linear, rows.values)
        if rows.observed is None:
            density += (log_weights + total)[..., None]
        else:
            density += params_at_rows(constant, rows.observed)
            density += log_weights[..., None]
        return density, squares

    def log_peak(self, means: Array, covariance: Array, natural: Tree, rows: MaskedRows, cache: Any) -> Array:
        xp = namespace(means)
        per_cell = -0.5 * (LOG_2PI + xp.log(self.variances(covariance, means)))
        if rows.observed is None:
            return xp.sum(per_cell, axis=-1)[..., None]
        return params_at_rows(per_cell, rows.observed)

    def moments(self, means: Array, covariance: Array, rows: MaskedRows, cache: Any, weight: Array) -> Moments:
        xp = namespace(means)
        count = xp.sum(weight, axis=-1)
        first, second = weighted_row_sums(weight, rows.values), weighted_row_sums(weight, cache)
        if rows.observed is None:
            n_observed = xp.zeros_like(first) + count[..., None]
        else:
            n_observed = weighted_row_sums(weight, rows.observed)
        return Moments(count, n_observed, first, second)

    def conditional_mean(self, means: Array, covariance: Array, rows: MaskedRows, k: int) -> Array:
        xp = namespace(means)
        observed = xp.ones_like(rows.values) if rows.observed is None else rows.observed
        return xp.where(observed > 0, rows.values, means[:, k, None, :])

    def conditional_variance(self, means: Array, covariance: Array, rows: MaskedRows, k: int) -> Array:
        return self.variances(covariance, means)[:, k, None, :]

    def update(self, covariance: Array, moments: Moments, means: Array) -> Array:
        xp = namespace(means)
        n_observed = self.pool(moments.n_observed)
        alive = has_weight(n_observed, moments.count)
        scatter = self.pool(_centered_squares(moments, means))
        variance = scatter / xp.where(alive, n_observed, xp.ones_like(n_observed))
        return xp.where(alive, xp.clip(variance, min=self.floor), covariance)

    def gradient(self, means: Array, covariance: Array, moments: Moments) -> tuple[Array, Array]:
        precision = 1.0 / self.variances(covariance, means)
        in_means = precision * (moments.first - moments.n_observed * means)
        in_variances = 0.5 * precision * (_centered_squares(moments, means) * precision - moments.n_observed)
        return in_means, self.pool(in_variances) * (covariance - self.floor)

    def to_free(self, covariance: Array) -> Array:
        xp = namespace(covariance)
        return xp.log(xp.clip(covariance - self.floor, min=FLOOR_MARGIN * self.floor))

    def from_free(self, free: Array) -> Array:
        return self.floor + namespace(free).exp(free)

    def transform_noise(self, covariance: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        return np.asarray(noise * np.sqrt(covariance[c, k]))

    def in_units(self, covariance: Array, scale: Array) -> Array:
        return covariance * scale**2

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_features * n_gaussians

    def floats_per_row(self, n_features: int) -> int:
        return 3 * n_features


def has_weight(weight_sum: Array, count: Array) -> Array:
    """Where a sum of weights is worth dividing by, among the counts (..., C, K) of components."""
    xp = namespace(weight_sum)
    minimum = MIN_WEIGHT * xp.clip(xp.sum(count, axis=(-2, -1)), max=1.0)
    return weight_sum > xp.reshape(minimum, (*minimum.shape, *[1] * (weight_sum.ndim - minimum.ndim)))


def _centered_squares(moments: Moments, means: Array) -> Array:
    """Second moments about the means, axis by axis."""
    return moments.second - 2 * means * moments.first + moments.n_observed * means * means
