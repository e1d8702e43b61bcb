"""Shapes of a Gaussian component's covariance, as objects: the contract, diagonal and spherical shapes.

A Gaussian is an exponential family, so all that is heavy is two matrix products with the rows' *features* ``F = [x_i x_j, x_i, observed_i]``: log densities
are ``natural parameters @ F.T`` and moments are ``weights @ F``. Diagonal shapes need ``x_i^2`` only, and a missing cell drops out of the products.

Variances never fall below the floor ``zeta``: they are raised to it, which is the exact constrained M-step. The free coordinates are
``sigma^2 = zeta + exp(z)`` (eq. 3.23).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.contracts import MaskedRows
from latentia.engine.pytree import Tree
from latentia.numerics.array_api import LOG_2PI, Array, namespace
from latentia.numerics.matmul import params_at_rows, weighted_row_sums

#: Components with less weight than this keep their parameters, and with less than this share of all weight where that is less than one row's.
TINY = 1e-10


#: Where EM rests on the floor, free coordinates start this share of the floor above it.
ABOVE_FLOOR = 1e-2


class Moments(NamedTuple):
    """Expected moments of the rows of each component, about the origin."""

    count: Array  # (..., C, K)
    mass: Array  # (..., C, K, D) count of the known cells; full shapes fill the unknown ones
    first: Array  # (..., C, K, D)
    second: Array  # (..., C, K, D) or (..., C, K, D, D), summed over C and K if tied


class Covariance(ABC):
    """One shape. `spread` is its parameter: variances or covariance matrices."""

    spread_class_axis: int | None
    second_class_axis: int | None

    def __init__(self, floor: float):
        self.floor = floor

    @abstractmethod
    def initial(self, variances: Array) -> Array:
        """The spread that has these variances (..., C, K, D) on its diagonal."""

    #: Class axes of what `natural` returns.
    natural_class_axes: Tree = ()

    def natural(self, means: Array, spread: Array) -> Tree:
        """What `log_density` needs of the parameters for any row, computed once for all blocks of rows."""
        return ()

    @abstractmethod
    def log_density(
        self, means: Array, spread: Array, natural: Tree, log_weights: Array, rows: MaskedRows
    ) -> tuple[Array, Any]:
        """log of weight times N(x) of known cells (..., C, K, N), and what `moments` can reuse."""

    @abstractmethod
    def moments(self, means: Array, spread: Array, rows: MaskedRows, cache: Any, weight: Array) -> Moments:
        """Weighted expected moments, weights (..., C, K, N)."""

    @abstractmethod
    def conditional_mean(self, means: Array, spread: Array, rows: MaskedRows, k: int) -> Array:
        """Expected cells (C, N, D) under component k of each class, for parameters without leading axes."""

    @abstractmethod
    def update(self, spread: Array, moments: Moments, means: Array) -> Array:
        """The M-step of the spread under new means."""

    @abstractmethod
    def slopes(self, means: Array, spread: Array, moments: Moments) -> tuple[Array, Array]:
        """Gradient in the means and in the free spread."""

    @abstractmethod
    def to_free(self, spread: Array) -> Array:
        """Unconstrained coordinates."""

    @abstractmethod
    def from_free(self, free: Array) -> Array:
        """The spread at unconstrained coordinates."""

    @abstractmethod
    def draw(self, spread: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        """Standard normal rows (n, D) with the spread of component k of class c, for parameters without leading axes, on the host."""

    @abstractmethod
    def n_free(self, n_features: int, n_gaussians: int) -> int:
        """Number of free parameters."""

    @abstractmethod
    def floats_per_row(self, n_features: int) -> int:
        """Numbers of features a row expands to."""


class Diagonal(Covariance):
    """A variance per feature and component, (..., C, K, D)."""

    spread_class_axis: int | None = -3
    second_class_axis: int | None = -3
    natural_class_axes: Tree = (-3, -3, -3, -2)

    def variances(self, spread: Array, means: Array) -> Array:
        """Variances in the shape of the means."""
        return spread

    def pool(self, a: Array) -> Array:
        """Sum over what shares a variance."""
        return a

    def initial(self, variances: Array) -> Array:
        return variances

    def natural(self, means: Array, spread: Array) -> tuple[Array, Array, Array, Array]:
        """Coefficients (..., C, K, D) of x^2, x and observed, and the sum (..., C, K) of the last where all cells are known."""
        xp = namespace(means)
        variance = self.variances(spread, means)
        precision = 1.0 / variance
        pull = precision * means
        constant = -0.5 * (LOG_2PI + xp.log(variance) + pull * means)
        return -0.5 * precision, pull, constant, xp.sum(constant, axis=-1)

    def log_density(
        self, means: Array, spread: Array, natural: Tree, log_weights: Array, rows: MaskedRows
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

    def moments(self, means: Array, spread: Array, rows: MaskedRows, cache: Any, weight: Array) -> Moments:
        xp = namespace(means)
        count = xp.sum(weight, axis=-1)
        first, second = weighted_row_sums(weight, rows.values), weighted_row_sums(weight, cache)
        if rows.observed is None:
            mass = xp.zeros_like(first) + count[..., None]
        else:
            mass = weighted_row_sums(weight, rows.observed)
        return Moments(count, mass, first, second)

    def conditional_mean(self, means: Array, spread: Array, rows: MaskedRows, k: int) -> Array:
        known = namespace(means).ones_like(rows.values) if rows.observed is None else rows.observed
        return namespace(means).where(known > 0, rows.values, means[:, k, None, :])

    def update(self, spread: Array, moments: Moments, means: Array) -> Array:
        xp = namespace(means)
        mass = self.pool(moments.mass)
        alive = has_weight(mass, moments.count)
        scatter = self.pool(_centered_squares(moments, means))
        variance = scatter / xp.where(alive, mass, xp.ones_like(mass))
        return xp.where(alive, xp.clip(variance, min=self.floor), spread)

    def slopes(self, means: Array, spread: Array, moments: Moments) -> tuple[Array, Array]:
        precision = 1.0 / self.variances(spread, means)
        mean_slope = precision * (moments.first - moments.mass * means)
        slope = 0.5 * precision * (_centered_squares(moments, means) * precision - moments.mass)
        return mean_slope, self.pool(slope) * (spread - self.floor)

    def to_free(self, spread: Array) -> Array:
        xp = namespace(spread)
        return xp.log(xp.clip(spread - self.floor, min=ABOVE_FLOOR * self.floor))

    def from_free(self, free: Array) -> Array:
        return self.floor + namespace(free).exp(free)

    def draw(self, spread: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        return np.asarray(noise * np.sqrt(spread[c, k]))

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_features * n_gaussians

    def floats_per_row(self, n_features: int) -> int:
        return 3 * n_features


class Spherical(Diagonal):
    """One variance per component, (..., C, K)."""

    spread_class_axis = -2

    def variances(self, spread: Array, means: Array) -> Array:
        return namespace(spread).broadcast_to(spread[..., None], means.shape)

    def pool(self, a: Array) -> Array:
        return namespace(a).sum(a, axis=-1)

    def initial(self, variances: Array) -> Array:
        return namespace(variances).mean(variances, axis=-1)

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_gaussians


def has_weight(mass: Array, count: Array) -> Array:
    """Where a mass is worth dividing by, among the counts (..., C, K) of all components."""
    xp = namespace(mass)
    least = TINY * xp.clip(xp.sum(count, axis=(-2, -1)), max=1.0)
    return mass > xp.reshape(least, (*least.shape, *[1] * (mass.ndim - least.ndim)))


def _centered_squares(moments: Moments, means: Array) -> Array:
    """Second moments about the means, axis by axis."""
    return moments.second - 2 * means * moments.first + moments.mass * means * means
