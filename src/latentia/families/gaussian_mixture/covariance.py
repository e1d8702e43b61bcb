"""Types of a Gaussian component's covariance, as objects: the contract, variances, and matrices.

A Gaussian is an exponential family, so all that is heavy is two matrix products with the rows'
*features* ``F = [x_i x_j, x_i, observed_i]``: log densities are ``natural parameters @ F.T`` and
moments are ``weights @ F``.

- `Diagonal` types need ``x_i^2`` only, and a missing cell drops out of the products. Variances are
  raised to the floor ``zeta``, which is the exact constrained M-step; the free coordinates are
  ``sigma^2 = zeta + exp(z)`` (eq. 3.23).
- `Full` matrices meet missing cells in `gaps`. Eigenvalues are raised to the floor, the exact
  M-step under ``Sigma >= zeta I``; the free coordinates are ``Sigma = zeta I + L L'`` with the
  logarithm of L's diagonal.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from latentia.arrays.linalg import eigh, floor_eigenvalues, params_at_rows, spd_inverse, symmetric, weighted_row_sums
from latentia.arrays.namespace import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.engine.rows import MaskedRows, Memo
from latentia.engine.tree import Axes, Tree
from latentia.families.gaussian_mixture.gaps import CompletedRows, MissingnessPatterns, Precision

#: Components with less weight than this keep their parameters; where all weight is less than that
#: of
#: one row, with less than this fraction of it.
MIN_WEIGHT = 1e-10

#: Where EM rests on the floor, free coordinates start this fraction of the floor above it.
FLOOR_MARGIN = 1e-2


class Moments(NamedTuple):
    """Expected moments of the rows of each component, about the origin."""

    count: Array  # type: ignore[assignment]  # (..., C, K); tuples have a method of this name
    n_observed: Array  # (..., C, K, D) count of the observed cells; full types fill the missing ones
    first: Array  # (..., C, K, D)
    second: Array  # (..., C, K, D) or (..., C, K, D, D), summed over C and K if tied


class SeenRows(Protocol):
    """Rows as components see them that have one type of covariance."""

    def log_peak(self) -> Array:
        """Log N of the observed cells at their means, which broadcasts against (..., C, K, N)."""

    def moments(self, weight: Array) -> Moments:
        """Weighted expected moments, weights (..., C, K, N)."""


class Covariance(ABC):
    """One type. Its parameter, `covariance`, holds variances or covariance matrices."""

    #: Axis of the parameter / of the second moments that runs over the classes (see `engine.tree`).
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
    natural_class_axes: Axes = ()

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
        self,
        means: Array,
        covariance: Array,
        natural: Tree,
        log_weights: Array,
        rows: MaskedRows,
        memo: Memo | None = None,
    ) -> tuple[Array, SeenRows]:
        """Log of weight times N(x) of observed cells (..., C, K, N), and what was found of the rows
        on the way.

        What is known of the rows may be in `memo` (see `Family.infer`).
        """

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


class DiagonalNatural(NamedTuple):
    """Coefficients (..., C, K, D) of a log density."""

    square: Array  # of x^2
    linear: Array  # of x
    observed: Array
    total: Array  # (..., C, K) sum of the last over the columns


class _SquaredRows(NamedTuple):
    """Rows and their squares."""

    variances: Array  # (..., C, K, D)
    rows: MaskedRows
    squares: Array

    def log_peak(self) -> Array:
        xp = namespace(self.variances)
        per_cell = -0.5 * (LOG_2PI + xp.log(self.variances))
        if self.rows.observed is None:
            return xp.sum(per_cell, axis=-1)[..., None]
        return params_at_rows(per_cell, self.rows.observed)

    def moments(self, weight: Array) -> Moments:
        xp, rows = namespace(weight), self.rows
        count = xp.sum(weight, axis=-1)
        first, second = weighted_row_sums(weight, rows.values), weighted_row_sums(weight, self.squares)
        if rows.observed is None:
            n_observed = xp.zeros_like(first) + count[..., None]
        else:
            n_observed = weighted_row_sums(weight, rows.observed)
        return Moments(count, n_observed, first, second)


class Diagonal(Covariance):
    """A variance per feature and component, (..., C, K, D)."""

    covariance_class_axis: int | None = -3
    second_class_axis: int | None = -3
    natural_class_axes: Axes = (-3, -3, -3, -2)

    def variances(self, covariance: Array, means: Array) -> Array:
        """Variances in the shape of the means."""
        return covariance

    def pool(self, a: Array) -> Array:
        """Sum over what shares a variance."""
        return a

    def initial(self, variances: Array) -> Array:
        return variances

    def natural(self, means: Array, covariance: Array) -> DiagonalNatural:
        xp = namespace(means)
        variance = self.variances(covariance, means)
        precision = 1.0 / variance
        precision_mean = precision * means
        constant = -0.5 * (LOG_2PI + xp.log(variance) + precision_mean * means)
        return DiagonalNatural(-0.5 * precision, precision_mean, constant, xp.sum(constant, axis=-1))

    def shift_cells(self, natural: Tree, constant: Array) -> Tree:
        assert isinstance(natural, DiagonalNatural)
        total = natural.total + namespace(constant).sum(constant, axis=-1)
        return natural._replace(observed=natural.observed + constant, total=total)

    def log_density(
        self,
        means: Array,
        covariance: Array,
        natural: Tree,
        log_weights: Array,
        rows: MaskedRows,
        memo: Memo | None = None,
    ) -> tuple[Array, SeenRows]:
        assert isinstance(natural, DiagonalNatural)
        # One product per feature: side by side in one matrix they would have to be copied first.
        squares = rows.values * rows.values
        density = params_at_rows(natural.square, squares)
        density += params_at_rows(natural.linear, rows.values)
        if rows.observed is None:
            density += (log_weights + natural.total)[..., None]
        else:
            density += params_at_rows(natural.observed, rows.observed)
            density += log_weights[..., None]
        return density, _SquaredRows(self.variances(covariance, means), rows, squares)

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


#: Keeps Cholesky factors of matrices above the floor real after rounding.
RELATIVE_JITTER = 1e-8


class _GroupedRows(NamedTuple):
    """Rows in groups by their missing cells, and each group completed."""

    type: Full
    means: Array
    sigma: Array  # broadcasts against (..., C, K, D, D)
    precision: Precision
    patterns: MissingnessPatterns
    completed: list[CompletedRows]

    def log_peak(self) -> Array:
        return self.patterns.restore_row_order([rows.log_peak(self.means, self.precision) for rows in self.completed])

    def moments(self, weight: Array) -> Moments:
        xp, means = namespace(weight), self.means
        count = xp.sum(weight, axis=-1)
        parts = zip(self.completed, self.patterns.split_by_pattern(weight), strict=True)
        moments = [rows.expected_moments(means, self.sigma, w) for rows, w in parts]
        first, second = moments[0][0], self.type.pool(moments[0][1])
        for more_first, more_second in moments[1:]:
            first, second = first + more_first, second + self.type.pool(more_second)
        return Moments(count, xp.broadcast_to(count[..., None], first.shape), first, second)


class Full(Covariance):
    """A covariance matrix per component, (..., C, K, D, D)."""

    covariance_class_axis: int | None = -4
    second_class_axis: int | None = -4
    natural_class_axes: Axes = (-4, -2, -3)

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
        self,
        means: Array,
        covariance: Array,
        natural: Tree,
        log_weights: Array,
        rows: MaskedRows,
        memo: Memo | None = None,
    ) -> tuple[Array, SeenRows]:
        assert isinstance(natural, Precision)
        sigma = self.per_component(covariance)
        patterns = MissingnessPatterns.remembered(rows, memo, math.prod(sigma.shape[:-2]))
        completed = [group.complete(means, sigma, natural) for group in patterns.groups]
        density = patterns.restore_row_order([group.log_density(means, natural) for group in completed])
        density += log_weights[..., None]
        return density, _GroupedRows(self, means, sigma, natural, patterns, completed)

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
