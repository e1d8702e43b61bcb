"""Full and tied covariance matrices; rows with gaps are grouped by which of their cells are known.

The missing cells of a row are latent. With the pattern's observed precision ``A`` (padded with zeros), ``T = Sigma A`` and ``u = mu - T mu``, the expected row is
``T x + u`` and its covariance ``V = Sigma - Sigma A Sigma``: expected moments are a linear map of the moments of the zero-filled rows, once per pattern.

Eigenvalues are raised to the floor ``zeta``, the exact M-step under ``Sigma >= zeta I``. The free coordinates are
``Sigma = zeta I + L L'`` with the logarithm of L's diagonal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia._arrays import (
    LOG_2PI,
    Array,
    eye_like,
    floor_eigenvalues,
    like,
    namespace,
    product_over_rows,
    product_with_rows,
    symmetric,
    to_numpy,
    transpose,
)
from latentia.core import Cells
from latentia.families._covariance import ABOVE_FLOOR, TINY, Covariance, Moments

#: Keeps Cholesky factors of matrices above the floor real after rounding.
NEXT_TO_NOTHING = 1e-8


class Full(Covariance):
    """A covariance matrix per component, (..., C, K, D, D)."""

    spread_class_axis: int | None = -4
    second_class_axis: int | None = -4

    def each(self, spread: Array) -> Array:
        """Matrices that broadcast against (..., C, K, D, D)."""
        return spread

    def pool(self, a: Array) -> Array:
        """Sum over the components that share a matrix; `a` is (..., C, K, D, D)."""
        return a

    def initial(self, variances: Array) -> Array:
        namespace(variances)
        return variances[..., None] * eye_like(variances.shape[-1], variances)

    def log_density(self, means: Array, spread: Array, cells: Cells) -> tuple[Array, Any]:
        xp = namespace(means)
        patterns = Patterns.of(cells)
        parts = []
        for mask, values in patterns.groups:
            A, log_det, n_known = _observed_precision(self.each(spread), mask)
            pull = xp.matmul(A, means[..., None])[..., 0]
            constant = -0.5 * (n_known * LOG_2PI + log_det + xp.sum(pull * means, axis=-1))
            packed = xp.broadcast_to(_pack(-0.5 * A), (*means.shape[:-1], values.shape[1] - means.shape[-1]))
            natural = xp.concat([packed, pull], axis=-1)
            parts.append(product_with_rows(natural, values) + constant[..., None])
        return patterns.in_row_order(parts), patterns

    def moments(self, means: Array, spread: Array, cells: Cells, cache: Any, weight: Array) -> Moments:
        xp = namespace(means)
        D = means.shape[-1]
        count = xp.sum(weight, axis=-1)
        first: Array = 0.0
        second: Array = 0.0
        for (mask, values), w in zip(cache.groups, cache.in_group_order(weight), strict=True):
            sums = product_over_rows(w, values)
            n, s1, s2 = xp.sum(w, axis=-1), sums[..., -D:], _unpack(sums[..., :-D], D)
            if mask is not None:
                s1, s2 = _complete(self.each(spread), means, mask, n, s1, s2)
            first, second = first + s1, second + s2
        return Moments(count, xp.broadcast_to(count[..., None], first.shape), first, self.pool(second))

    def conditional_mean(self, means: Array, spread: Array, cells: Cells, k: int) -> Array:
        xp = namespace(means)
        sigma = xp.broadcast_to(self.each(spread), (*means.shape, means.shape[-1]))[:, k, ...]
        D = means.shape[-1]
        patterns = Patterns.of(cells)
        parts = []
        for mask, values in patterns.groups:
            T = xp.matmul(sigma, _observed_precision(sigma, mask)[0])
            u = means[:, k, :, None] - xp.matmul(T, means[:, k, :, None])
            parts.append(xp.matmul(T, transpose(values[:, -D:])) + u)
        return transpose(patterns.in_row_order(parts))

    def update(self, spread: Array, moments: Moments, means: Array) -> Array:
        xp = namespace(means)
        count = self.pool(moments.count[..., None, None])
        alive = count > TINY
        scatter = self._scatter(moments, means)
        covariance = scatter / xp.where(alive, count, xp.ones_like(count))
        eye = eye_like(means.shape[-1], means)
        return xp.where(alive, floor_eigenvalues(xp.where(alive, covariance, eye), self.floor), spread)

    def slopes(self, means: Array, spread: Array, moments: Moments) -> tuple[Array, Array]:
        xp = namespace(means)
        precision = xp.linalg.inv(spread)
        pull = moments.first - moments.count[..., None] * means
        mean_slope = xp.matmul(self.each(precision), pull[..., None])[..., 0]
        count = self.pool(moments.count[..., None, None])
        inner = xp.matmul(precision, xp.matmul(self._scatter(moments, means), precision))
        slope = 0.5 * symmetric(inner - count * precision)
        L = self._factor(spread, NEXT_TO_NOTHING)
        free = 2.0 * xp.tril(xp.matmul(slope, L))
        eye = eye_like(means.shape[-1], means)
        return mean_slope, xp.where(eye > 0, free * L, free)

    def _scatter(self, moments: Moments, means: Array) -> Array:
        cross = means[..., :, None] * moments.first[..., None, :]
        square = moments.count[..., None, None] * means[..., :, None] * means[..., None, :]
        return moments.second - self.pool(cross + transpose(cross) - square)

    def _factor(self, spread: Array, above_floor: float) -> Array:
        eye = eye_like(spread.shape[-1], spread)
        above = floor_eigenvalues(spread - self.floor * eye, above_floor * self.floor)
        return namespace(spread).linalg.cholesky(above)

    def to_free(self, spread: Array) -> Array:
        xp = namespace(spread)
        L = self._factor(spread, ABOVE_FLOOR)
        eye = eye_like(spread.shape[-1], spread)
        return xp.where(eye > 0, xp.log(xp.where(eye > 0, L, xp.ones_like(L))), L)

    def from_free(self, free: Array) -> Array:
        xp = namespace(free)
        eye = eye_like(free.shape[-1], free)
        L = xp.where(eye > 0, xp.exp(xp.where(eye > 0, free, xp.zeros_like(free))), xp.tril(free))
        return self.floor * eye + xp.matmul(L, transpose(L))

    def matrices(self, spread: Array, n_features: int) -> Array:
        return self.each(spread)

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_gaussians * n_features * (n_features + 1) // 2

    def row_size(self, n_features: int) -> int:
        return n_features * (n_features + 5) // 2


class Tied(Full):
    """One covariance matrix that all components of all classes share, (..., D, D)."""

    spread_class_axis = None
    second_class_axis = None

    def each(self, spread: Array) -> Array:
        return spread[..., None, None, :, :]

    def pool(self, a: Array) -> Array:
        return namespace(a).sum(a, axis=(-4, -3))

    def initial(self, variances: Array) -> Array:
        xp = namespace(variances)
        return super().initial(xp.mean(variances, axis=(-3, -2)))

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_features * (n_features + 1) // 2


class Patterns(NamedTuple):
    """Rows grouped by which of their cells are known, with the features of each group."""

    groups: list[tuple[Array | None, Array]]  # mask (D,) or None when complete; features (n, P)
    order: list[Array] | None  # row numbers of each group; None for a single group

    @classmethod
    def of(cls, cells: Cells) -> Patterns:
        if cells.observed is None:
            return cls([(None, _quadratic(cells.values))], None)
        xp = namespace(cells.values)
        known = to_numpy(cells.observed) > 0
        _, example, group = np.unique(np.packbits(known, axis=1), axis=0, return_index=True, return_inverse=True)
        rows = np.argsort(group.ravel(), kind="stable")
        cuts = np.flatnonzero(np.diff(group.ravel()[rows])) + 1
        order, groups = [], []
        for index in np.split(rows, cuts):
            order.append(like(index, cells.values, dtype=xp.int64))
            mask = None if known[index[0]].all() else cells.observed[int(index[0]), :]
            groups.append((mask, _quadratic(xp.take(cells.values, order[-1], axis=0))))
        return cls(groups, order)

    def in_group_order(self, weight: Array) -> list[Array]:
        """The columns of each group."""
        if self.order is None:
            return [weight]
        xp = namespace(weight)
        return [xp.take(weight, index, axis=-1) for index in self.order]

    def in_row_order(self, parts: list[Array]) -> Array:
        """The groups' columns put back where their rows are."""
        xp = namespace(parts[0])
        if self.order is None:
            return parts[0]
        back = xp.argsort(xp.concat(self.order))
        return xp.take(xp.concat(parts, axis=-1), back, axis=-1)


def _quadratic(X: Array) -> Array:
    """Rows expanded to the upper triangle of x x', then x."""
    xp = namespace(X)
    return xp.concat([X[:, i : i + 1] * X[:, i:] for i in range(X.shape[1])] + [X], axis=1)


def _pack(A: Array) -> Array:
    """Symmetric matrices as coefficients of the upper triangle: off-diagonal entries count twice."""
    xp = namespace(A)
    D = A.shape[-1]
    rows = [xp.concat([A[..., i, i : i + 1], 2 * A[..., i, i + 1 :]], axis=-1) for i in range(D)]
    return xp.concat(rows, axis=-1)


def _unpack(packed: Array, D: int) -> Array:
    """Upper triangles as symmetric matrices."""
    xp = namespace(packed)
    position = np.zeros((D, D), dtype=np.int64)
    upper = np.triu_indices(D)
    position[upper] = np.arange(len(upper[0]))
    position = np.maximum(position, position.T)
    flat = xp.take(packed, like(position.ravel(), packed, dtype=xp.int64), axis=-1)
    return xp.reshape(flat, (*packed.shape[:-1], D, D))


def _observed_precision(sigma: Array, mask: Array | None) -> tuple[Array, Array, Any]:
    """Precision of the known cells padded with zeros, log determinant of their covariance, and their number."""
    xp = namespace(sigma)
    D = sigma.shape[-1]
    n_known: Any = D
    if mask is not None:
        both = mask[:, None] * mask[None, :]
        # Unit variances stand in for the unknown cells: they change neither determinant nor precision of the known.
        sigma = sigma * both + (1.0 - mask) * eye_like(D, sigma)
        n_known = xp.sum(mask)
    L = xp.linalg.cholesky(sigma)
    log_det = 2.0 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)
    A = symmetric(xp.linalg.inv(sigma))
    return (A if mask is None else A * both), log_det, n_known


def _complete(
    sigma: Array, means: Array, mask: Array, count: Array, first: Array, second: Array
) -> tuple[Array, Array]:
    """Expected moments of full rows from those of the known, zero-filled cells of one pattern."""
    xp = namespace(means)
    A, _, _ = _observed_precision(sigma, mask)
    T = xp.matmul(sigma, A)
    u = means - xp.matmul(T, means[..., None])[..., 0]
    V = sigma - xp.matmul(T, sigma)
    filled = xp.matmul(T, first[..., None])[..., 0]
    cross = filled[..., :, None] * u[..., None, :]
    n = count[..., None, None]
    moved = xp.matmul(T, xp.matmul(second, transpose(T)))
    return (
        filled + count[..., None] * u,
        symmetric(moved + cross + transpose(cross) + n * (u[..., :, None] * u[..., None, :] + V)),
    )
