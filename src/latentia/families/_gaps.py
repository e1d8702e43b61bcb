"""Gaussians with full covariance on rows with gaps: densities and expected moments, exactly.

The missing cells of a row are latent. Let ``A`` be the precision of its known cells, padded with zeros, and ``d = x - mu`` on the known cells, zero elsewhere.
Then ``log N = -(log|Sigma_oo| + d'Ad + n_o log 2 pi) / 2``, the expected row is ``mu + Sigma A d`` and its covariance ``Sigma - Sigma A Sigma``.

Rows are grouped by which cells they know. A pattern of many rows is worth matrix products of its own: with ``T = Sigma A`` and ``u = mu - T mu``
the expected moments are a linear map of the moments of the zero-filled rows. Rows with rarer patterns form one batch with an ``A`` for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from latentia._arrays import (
    LOG_2PI,
    Array,
    eye_like,
    like,
    namespace,
    product_over_rows,
    product_with_rows,
    symmetric,
    to_numpy,
    transpose,
)
from latentia.core import Cells
from latentia.families._packing import doubled, pack, pairs, unpack

#: A pattern of so many rows is treated on its own.
MANY = 16
#: Numbers in the matrices of one batch of rows.
BATCH = 2**19


class Group(NamedTuple):
    """Rows that are treated together."""

    values: Array  # (n, D), zero where unknown
    mask: Array | None  # None: all cells known; (D,): the same cells in every row; (n, D): each row its own


class Patterns(NamedTuple):
    """Rows grouped by which of their cells are known."""

    groups: list[Group]
    order: list[Array] | None  # row numbers of each group; None for a single group in the order of the rows

    @classmethod
    def of(cls, cells: Cells) -> Patterns:
        if cells.observed is None:
            return cls([Group(cells.values, None)], None)
        known = to_numpy(cells.observed) > 0
        _, pattern, size = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True, return_counts=True)
        pattern = pattern.ravel()
        few = np.flatnonzero((size[pattern] < MANY) & ~known.all(axis=1))
        rows = [np.flatnonzero(known.all(axis=1))]
        rows += [np.flatnonzero(pattern == p) for p in np.flatnonzero(size >= MANY)]
        rows = (
            [r for r in rows[:1] if r.size]
            + [r for r in rows[1:] if not known[r[0]].all()]
            + ([few] if few.size else [])
        )
        xp = namespace(cells.values)
        order, groups = [], []
        for index in rows:
            order.append(like(index, cells.values, dtype=xp.int64))
            values, masks = (xp.take(a, order[-1], axis=0) for a in cells)
            own = index is few
            groups.append(Group(values, None if known[index[0]].all() else masks if own else masks[0, :]))
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


def log_density(means: Array, sigma: Array, group: Group) -> Array:
    """log N of the known cells, (..., C, K, n); `sigma` broadcasts against (..., C, K, D, D)."""
    xp = namespace(means)
    if _each_row_its_own(group):
        parts = []
        for batch in _batches(sigma, group):
            A, log_det, n_known = observed_precision(sigma[..., None, :, :], batch.mask)
            d = (batch.values - means[..., None, :]) * batch.mask
            quadratic = xp.sum(d * xp.matmul(A, d[..., None])[..., 0], axis=-1)
            parts.append(-0.5 * (n_known * LOG_2PI + log_det + quadratic))
        return xp.concat(parts, axis=-1)
    D = means.shape[-1]
    A, log_det, n_known = observed_precision(sigma, group.mask)
    pull = xp.matmul(A, means[..., None])[..., 0]
    constant = -0.5 * (n_known * LOG_2PI + log_det + xp.sum(pull * means, axis=-1))
    curve = doubled(pack(-0.5 * A), D)
    natural = xp.concat([xp.broadcast_to(curve, (*means.shape[:-1], curve.shape[-1])), pull], axis=-1)
    return product_with_rows(natural, _features(group.values)) + constant[..., None]


def expected_moments(means: Array, sigma: Array, group: Group, weight: Array) -> tuple[Array, Array]:
    """Weighted first and second moments of the completed rows, (..., C, K, D) and (..., C, K, D, D)."""
    xp = namespace(means)
    D = means.shape[-1]
    if _each_row_its_own(group):
        return _moments_row_by_row(means, sigma, group, weight)
    count = xp.sum(weight, axis=-1)
    sums = product_over_rows(weight, _features(group.values))
    first, second = sums[..., -D:], unpack(sums[..., :-D], D)
    if group.mask is None:
        return first, second
    T, u, V = _completion(means, sigma, group.mask)
    filled = xp.matmul(T, first[..., None])[..., 0]
    cross = filled[..., :, None] * u[..., None, :]
    n = count[..., None, None]
    moved = xp.matmul(T, xp.matmul(second, transpose(T)))
    return (
        filled + count[..., None] * u,
        symmetric(moved + cross + transpose(cross) + n * (u[..., :, None] * u[..., None, :] + V)),
    )


def expected_rows(means: Array, sigma: Array, group: Group) -> Array:
    """Completed rows (C, n, D) under one component of each class: means (C, D), matrices (C, D, D)."""
    xp = namespace(means)
    parts = []
    for batch in _batches(sigma, group) if _each_row_its_own(group) else [group]:
        A, _, _ = observed_precision(sigma[..., None, :, :], batch.mask)
        d = batch.values - means[..., None, :]
        d = d if batch.mask is None else d * batch.mask
        Ad = xp.matmul(A, d[..., None])[..., 0]
        parts.append(means[..., None, :] + xp.matmul(Ad, sigma))
    return xp.concat(parts, axis=-2)


def observed_precision(sigma: Array, mask: Array | None) -> tuple[Array, Array, Any]:
    """Precision of the known cells padded with zeros, log determinant of their covariance, and their number.

    A mask (n, D) goes with matrices (..., 1, D, D) and yields (..., n, D, D).
    """
    xp = namespace(sigma)
    n_known: Any = sigma.shape[-1]
    if mask is not None:
        both = mask[..., :, None] * mask[..., None, :]
        # Unit variances stand in for the unknown cells: they change neither determinant nor precision of the known.
        sigma = sigma * both + (1.0 - mask)[..., None, :] * eye_like(sigma.shape[-1], sigma)
        n_known = xp.sum(mask, axis=-1)
    L = xp.linalg.cholesky(sigma)
    log_det = 2.0 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)
    A = symmetric(xp.linalg.inv(sigma))
    return (A if mask is None else A * both), log_det, n_known


def _moments_row_by_row(means: Array, sigma: Array, group: Group, weight: Array) -> tuple[Array, Array]:
    xp = namespace(means)
    D = means.shape[-1]
    first: Array = 0.0
    second: Array = 0.0
    start = 0
    for batch in _batches(sigma, group):
        A, _, _ = observed_precision(sigma[..., None, :, :], batch.mask)
        w = weight[..., start : start + batch.values.shape[0]]
        start += batch.values.shape[0]
        d = (batch.values - means[..., None, :]) * batch.mask
        rows = means[..., None, :] + xp.matmul(xp.matmul(A, d[..., None])[..., 0], sigma)
        weighted = w[..., None] * rows
        # sum_n w (Sigma - Sigma A_n Sigma), with the sum over rows inside
        flat = xp.reshape(A, (*A.shape[:-2], D * D))
        mean_A = xp.reshape(xp.matmul(w[..., None, :], flat)[..., 0, :], (*w.shape[:-1], D, D))
        V = xp.sum(w, axis=-1)[..., None, None] * sigma - xp.matmul(sigma, xp.matmul(mean_A, sigma))
        first = first + xp.sum(weighted, axis=-2)
        second = second + symmetric(xp.matmul(transpose(weighted), rows) + V)
    return first, second


def _completion(means: Array, sigma: Array, mask: Array) -> tuple[Array, Array, Array]:
    """T, u and V of a pattern: completed rows are T x + u with covariance V."""
    xp = namespace(means)
    A, _, _ = observed_precision(sigma, mask)
    T = xp.matmul(sigma, A)
    return T, means - xp.matmul(T, means[..., None])[..., 0], sigma - xp.matmul(T, sigma)


def _each_row_its_own(group: Group) -> bool:
    return group.mask is not None and group.mask.ndim == 2


def _batches(sigma: Array, group: Group) -> Iterator[Group]:
    """Rows whose matrices fit the budget."""
    assert group.mask is not None
    rows = max(1, BATCH // math.prod(sigma.shape))
    n_rows = group.values.shape[0]
    for start in range(0, n_rows, rows):
        part = slice(start, min(start + rows, n_rows))
        yield Group(group.values[part, :], group.mask[part, :])


def _features(X: Array) -> Array:
    """Rows expanded to the upper triangle of x x', then x."""
    return namespace(X).concat([pairs(X), X], axis=1)
