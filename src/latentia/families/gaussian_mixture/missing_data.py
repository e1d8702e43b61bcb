"""Gaussians with full covariance on rows with gaps: densities and expected moments, exactly.

The missing cells m of a row are latent. Two ways to integrate them out, by what is smaller:

- A pattern of many rows is worth matrix products of its own. Let ``A`` be the precision of its known cells, padded with zeros, and ``d = x - mu`` on the known
  cells, zero elsewhere. Then ``log N = -(log|Sigma_oo| + d'Ad + n_o log 2 pi) / 2``, the expected row is ``mu + Sigma A d`` and its covariance
  ``Sigma - Sigma A Sigma``. With ``T = Sigma A`` and ``u = mu - T mu`` the expected moments are a linear map of the moments of the zero-filled rows.
- Rows with rarer patterns are grouped by how many cells they miss. With the precision ``P`` of all cells, the missing ones have the covariance ``V = P_mm^-1``
  and lie ``-V P_mo d`` from their means, and ``log|Sigma_oo| = log|Sigma| + log|P_mm|``: no matrix of a row is larger than its gaps. The quadratic form is
  that of the completed row under ``P``, a minimum, so errors of the completion enter it squared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from latentia.engine.contracts import MaskedRows
from latentia.numerics.array_api import LOG_2PI, Array, asarray_like, eye_like, namespace, to_numpy, transpose
from latentia.numerics.linalg import spd_inverse, spd_inverse_root, symmetric
from latentia.numerics.matmul import params_at_rows, weighted_row_sums
from latentia.numerics.packed_symmetric import pack, packed_outer, unpack, with_doubled_offdiagonal

#: A pattern of so many rows is treated on its own.
MIN_PATTERN_ROWS = 64


#: Numbers in the matrices of one batch of rows.
BATCH = 2**19


class Precision(NamedTuple):
    """What a covariance matrix (..., C, K, D, D) means for rows."""

    root: Array  # R with R'R the inverse of the matrix
    log_det: Array  # (..., C, K) of the matrix

    @classmethod
    def from_covariance(cls, sigma: Array) -> Precision:
        return cls(*spd_inverse_root(sigma))

    @property
    def matrix(self) -> Array:
        return namespace(self.root).matmul(transpose(self.root), self.root)


class PatternGroup(NamedTuple):
    """Rows that are treated together."""

    values: Array  # (n, D), zero where unknown
    mask: Array | None  # None: all cells known; (D,): the same cells in every row; (n, D): each row its own
    missing: Array | None = None  # (n, M) the columns that each row misses, where it has a mask of its own


class MissingnessPatterns(NamedTuple):
    """Rows grouped by which of their cells are known."""

    groups: list[PatternGroup]
    order: list[Array] | None  # row numbers of each group; None for a single group in the order of the rows

    @classmethod
    def of(cls, rows: MaskedRows) -> MissingnessPatterns:
        if rows.observed is None:
            return cls([PatternGroup(rows.values, None)], None)
        xp = namespace(rows.values)
        known = to_numpy(rows.observed) > 0
        _, pattern, size = np.unique(np.packbits(known, axis=1), axis=0, return_inverse=True, return_counts=True)
        pattern = pattern.ravel()
        n_missing = np.sum(~known, axis=1)
        n_missing[size[pattern] >= MIN_PATTERN_ROWS] *= -1  # told apart from the rare ones, and complete rows stay zero
        order, groups = [], []
        for kind in np.unique(n_missing):
            posteriors = np.flatnonzero(n_missing == kind)
            for index in (
                [posteriors]
                if kind >= 0
                else [posteriors[pattern[posteriors] == p] for p in np.unique(pattern[posteriors])]
            ):
                order.append(asarray_like(index, rows.values, dtype=xp.int64))
                values, mask = (xp.take(a, order[-1], axis=0) for a in rows)
                if kind > 0:
                    missing = np.nonzero(~known[index])[1].reshape(index.size, kind)
                    groups.append(PatternGroup(values, mask, asarray_like(missing, rows.values, dtype=xp.int64)))
                else:
                    groups.append(PatternGroup(values, mask[0, :] if kind else None))
        return cls(groups, order)

    def split_by_pattern(self, weight: Array) -> list[Array]:
        """The columns of each group."""
        if self.order is None:
            return [weight]
        xp = namespace(weight)
        return [xp.take(weight, index, axis=-1) for index in self.order]

    def restore_row_order(self, parts: list[Array]) -> Array:
        """The groups' columns put back where their rows are."""
        xp = namespace(parts[0])
        if self.order is None:
            return parts[0]
        back = xp.argsort(xp.concat(self.order))
        return xp.take(xp.concat(parts, axis=-1), back, axis=-1)


def log_density(means: Array, sigma: Array, precision: Precision, group: PatternGroup) -> Array:
    """log N of the known cells, (..., C, K, n); `sigma` broadcasts against (..., C, K, D, D)."""
    xp = namespace(means)
    D = means.shape[-1]
    if group.missing is not None:
        parts = []
        for batch in _batches(means, group):
            row = _complete(means, precision, batch)
            quadratic = xp.sum(xp.matmul(row.deviation, transpose(precision.root)) ** 2, axis=-1)
            log_det = precision.log_det[..., None] - row.log_det
            parts.append(-0.5 * ((D - group.missing.shape[1]) * LOG_2PI + log_det + quadratic))
        return xp.concat(parts, axis=-1)
    if group.mask is None:
        A, log_det, n_known = precision.matrix, precision.log_det, D
    else:
        A, log_det, n_known = _known_precision(sigma, group.mask)
    pull = xp.matmul(A, means[..., None])[..., 0]
    constant = -0.5 * (n_known * LOG_2PI + log_det + xp.sum(pull * means, axis=-1))
    curve = with_doubled_offdiagonal(pack(-0.5 * A), D)
    natural = xp.concat([xp.broadcast_to(curve, (*means.shape[:-1], curve.shape[-1])), pull], axis=-1)
    return params_at_rows(natural, _features(group.values)) + constant[..., None]


def expected_moments(
    means: Array, sigma: Array, precision: Precision, group: PatternGroup, weight: Array
) -> tuple[Array, Array]:
    """Weighted first and second moments of the completed rows, (..., C, K, D) and (..., C, K, D, D)."""
    xp = namespace(means)
    D = means.shape[-1]
    if group.missing is not None:
        return _moments_row_by_row(means, precision, group, weight)
    count = xp.sum(weight, axis=-1)
    sums = weighted_row_sums(weight, _features(group.values))
    first, second = sums[..., -D:], unpack(sums[..., :-D], D)
    if group.mask is None:
        return first, second
    A, _, _ = _known_precision(sigma, group.mask)
    T = xp.matmul(sigma, A)
    u = means - xp.matmul(T, means[..., None])[..., 0]
    filled = xp.matmul(T, first[..., None])[..., 0]
    cross = filled[..., :, None] * u[..., None, :]
    spread = u[..., :, None] * u[..., None, :] + sigma - xp.matmul(T, sigma)
    moved = xp.matmul(T, xp.matmul(second, transpose(T)))
    return (
        filled + count[..., None] * u,
        symmetric(moved + cross + transpose(cross) + count[..., None, None] * spread),
    )


def expected_rows(means: Array, sigma: Array, group: PatternGroup) -> Array:
    """Completed rows (C, n, D) under one component of each class: means (C, D), matrices (C, D, D)."""
    xp = namespace(means)
    if group.missing is not None:
        precision = Precision.from_covariance(sigma)
        done = [_complete(means, precision, batch).deviation for batch in _batches(means, group)]
        return means[..., None, :] + xp.concat(done, axis=-2)
    if group.mask is None:
        return xp.broadcast_to(group.values, (*means.shape[:-1], *group.values.shape))
    A, _, _ = _known_precision(sigma, group.mask)
    d = (group.values - means[..., None, :]) * group.mask
    return means[..., None, :] + xp.matmul(d, xp.matmul(A, sigma))


def _known_precision(sigma: Array, mask: Array) -> tuple[Array, Array, Array]:
    """Precision of the known cells padded with zeros, log determinant of their covariance, and their number."""
    xp = namespace(sigma)
    both = mask[:, None] * mask[None, :]
    # Unit variances stand in for the unknown cells: they change neither determinant nor precision of the known.
    inverse, log_det = spd_inverse(sigma * both + (1.0 - mask) * eye_like(sigma.shape[-1], sigma))
    return symmetric(inverse) * both, log_det, xp.sum(mask)


class _Completion(NamedTuple):
    """What is expected of rows that miss M cells each."""

    deviation: Array  # (..., C, K, n, D) of the completed rows from the means
    spread: Array  # (..., C, K, n, M, M) covariance of the missing cells
    log_det: Array  # (..., C, K, n) of that covariance


def _complete(means: Array, precision: Precision, group: PatternGroup) -> _Completion:
    xp = namespace(means)
    D = means.shape[-1]
    P, missing = precision.matrix, group.missing
    assert missing is not None
    place = missing[:, :, None] * D + missing[:, None, :]
    within = xp.take(xp.reshape(P, (*P.shape[:-2], D * D)), xp.reshape(place, (-1,)), axis=-1)
    V, log_det = spd_inverse(xp.reshape(within, (*P.shape[:-2], *place.shape)))
    d = (group.values - means[..., None, :]) * group.mask
    where = _places(missing, d)
    pull = xp.matmul(where, xp.matmul(d, P)[..., None])  # (..., n, M, 1)
    step = xp.matmul(transpose(where), xp.matmul(V, pull))[..., 0]
    return _Completion(d - step, V, -log_det)


def _places(missing: Array, like: Array) -> Array:
    """Indicators (n, M, D) of the missing columns."""
    xp = namespace(like)
    D = like.shape[-1]
    return xp.reshape(xp.take(eye_like(D, like), xp.reshape(missing, (-1,)), axis=0), (*missing.shape, D))


def _moments_row_by_row(means: Array, precision: Precision, group: PatternGroup, weight: Array) -> tuple[Array, Array]:
    xp = namespace(means)
    D = means.shape[-1]
    first: Array = 0.0
    second: Array = 0.0
    start = 0
    for batch in _batches(means, group):
        n = batch.values.shape[0]
        w = weight[..., start : start + n]
        start += n
        row = _complete(means, precision, batch)
        rows = means[..., None, :] + row.deviation
        weighted = w[..., None] * rows
        # sum_n w V_n, each at its place: one product over rows and missing cells
        where = _places(batch.missing, rows)
        tall = xp.reshape(where, (-1, D))
        right = xp.matmul(row.spread * w[..., None, None], where)
        spread = xp.matmul(transpose(tall), xp.reshape(right, (*right.shape[:-3], tall.shape[0], D)))
        first = first + xp.sum(weighted, axis=-2)
        second = second + xp.matmul(transpose(weighted), rows) + spread
    return first, symmetric(second)


def _batches(means: Array, group: PatternGroup) -> Iterator[PatternGroup]:
    """Rows whose matrices fit the budget."""
    assert group.mask is not None and group.missing is not None
    D, M = means.shape[-1], group.missing.shape[1]
    rows = max(1, BATCH // (math.prod(means.shape[:-1]) * (M * (M + D) + 4 * D)))
    n_rows = group.values.shape[0]
    for start in range(0, n_rows, rows):
        part = slice(start, min(start + rows, n_rows))
        yield PatternGroup(group.values[part, :], group.mask[part, :], group.missing[part, :])


def _features(X: Array) -> Array:
    """Rows expanded to the upper triangle of x x', then x."""
    return namespace(X).concat([packed_outer(X), X], axis=1)
