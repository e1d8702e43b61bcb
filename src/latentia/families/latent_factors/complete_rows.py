r"""Complete continuous rows: a sweep is two matrix products, and none at all over rows when there is one component.

Given class and component, :math:`x \sim N(a, V)` with :math:`a = L\mu + \eta`, :math:`V = L\Gamma L^\top + \Theta`, and z given x has mean
:math:`\mu + B(x - a)`, :math:`B = \Gamma L^\top V^{-1}`, and covariance :math:`P = \Gamma - BL\Gamma`, the same for all rows. So the log density is linear in
:math:`\Phi(x) = (x_i x_j, x, 1)`, and every expected statistic is a function of the weighted sums of :math:`\Phi`. With one component and likelihood training
the weights are the labels, the sums are the class counts, means and scatter matrices, and an iteration of EM does not see the rows (`ClassMoments`).
V is inverted as it stands (n by n) or through the q by q matrix :math:`I + \Gamma^{1/2}L^\top\Theta^{-1}L\Gamma^{1/2}`, whichever is smaller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.engine.contracts import Chunk, Source, Sweep, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.numerics.array_api import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse
from latentia.numerics.packed_symmetric import pack, packed_outer, unpack, with_doubled_offdiagonal


class Shared(NamedTuple):
    """What all rows of a class and component share."""

    natural: Array  # (..., C, M, F) coefficients of the log joint in the features of a row
    mean: Array  # (..., C, M, n) of x
    gain: Array  # (..., C, M, q, n) B
    cov: Array  # (..., C, M, q, q) P


def features(values: Array) -> Array:
    """Phi of rows (N, n): (N, n(n+1)/2 + n + 1)."""
    xp = namespace(values)
    return xp.concat([packed_outer(values), values, xp.ones_like(values[:, :1])], axis=-1)


def shared(params: Any) -> Shared:
    """Log density and posterior of z of each class and component, as functions of x."""
    xp = namespace(params.loadings)
    L = params.loadings[..., None, :, :, :]  # (..., 1, M, n, q)
    theta = params.noise[..., None, :, :]  # (..., 1, M or 1, n)
    mu, gamma = params.means[..., :, None, :], params.variances[..., :, None, :]  # (..., C, 1, q)
    a = xp.matmul(L, mu[..., None])[..., 0] + params.offsets[..., None, :, :]
    n, q = L.shape[-2:]
    if q == 0 or q >= n:
        LG = L * gamma[..., None, :]
        V = xp.matmul(LG, transpose(L)) + theta[..., None] * eye_like(n, L)
        Vi, log_det = spd_inverse(V)
        B = xp.matmul(transpose(LG), Vi)
        P = gamma[..., None] * eye_like(q, L) - xp.matmul(B, LG)
    else:
        root = xp.sqrt(gamma)
        K = L * root[..., None, :]
        KT = K / theta[..., None]
        A = eye_like(q, L) + xp.matmul(transpose(K), KT)
        Ai, log_det = spd_inverse(A)
        log_det = log_det + xp.sum(xp.log(theta), axis=-1)
        pull = xp.matmul(Ai, transpose(KT))
        B = root[..., None] * pull
        P = root[..., None] * Ai * root[..., None, :]
        Vi = (1.0 / theta)[..., None] * eye_like(n, L) - xp.matmul(KT, pull)
    slope = xp.matmul(Vi, a[..., None])[..., 0]
    constant = -0.5 * (n * LOG_2PI + log_det + xp.sum(slope * a, axis=-1))
    constant = constant + params.log_prior[..., :, None] + params.log_mix
    natural = xp.concat([-0.5 * with_doubled_offdiagonal(pack(Vi), n), slope, constant[..., None]], axis=-1)
    return Shared(natural, a, B, P)


def component_scores(natural: Array, phi: Array) -> Array:
    """Log joint of each class and component (..., C, M, N), as one product."""
    xp = namespace(natural)
    flat = xp.reshape(natural, (-1, natural.shape[-1]))
    return xp.reshape(xp.matmul(flat, transpose(phi)), (*natural.shape[:-1], phi.shape[0]))


def row_moments(weight: Array, phi: Array) -> Array:
    """Weighted sums of the features, (..., C, M, F), as one product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    return xp.reshape(xp.matmul(flat, phi), (*weight.shape[:-1], phi.shape[1]))


class LatentMoments(NamedTuple):
    """Expected sums of the latents z and the rows x, by class and component."""

    count: Array  # (..., C, M)
    pulled: Array  # (..., C, M, q) sum of z - mu
    square: Array  # (..., C, M, q, q) sum of (z - mu)(z - mu)'
    first: Array  # (..., C, M, n) sum of x
    cross: Array  # (..., C, M, n, q) sum of x z'
    diagonal: Array  # (..., C, M, n) sum of x^2


def latent_moments(params: Any, known: Shared, sums: Array) -> LatentMoments:
    """From weighted sums of Phi to expected sums that involve z."""
    xp = namespace(sums)
    n = known.mean.shape[-1]
    second, first, count = unpack(sums[..., : -n - 1], n), sums[..., -n - 1 : -1], sums[..., -1]
    a, B, P = known.mean, known.gain, known.cov
    mu = params.means[..., :, None, :]
    about = second - first[..., :, None] * a[..., None, :]  # sum of x (x - a)'
    d1 = first - count[..., None] * a
    d2 = about - a[..., :, None] * d1[..., None, :]
    Bt = transpose(B)
    pulled = xp.matmul(B, d1[..., None])[..., 0]
    square = count[..., None, None] * P + xp.matmul(B, xp.matmul(d2, Bt))
    cross = first[..., :, None] * mu[..., None, :] + xp.matmul(about, Bt)
    return LatentMoments(count, pulled, square, first, cross, xp.linalg.diagonal(second))


class ClassMoments:
    """A problem whose sweeps need only the sums of Phi in each class: one component, likelihood, complete rows."""

    def __init__(self, family: Any, source: Source):
        self.family = family
        self.total_weight = source.total_weight
        width = source.n_features * (source.n_features + 3) // 2 + 1
        totals = source.sum_over_chunks(_class_sums, rows_per_chunk(3 * width), by_label=True)
        some = next(iter(totals.values()))
        xp = namespace(some)
        empty = xp.zeros_like(some)
        self.sums = xp.stack([totals.get(c, empty) for c in range(family.n_classes)], axis=0)[:, None, :]

    def sweep(self, params: Any) -> Sweep:
        """Value and statistics, at a cost that does not depend on the number of rows."""
        xp = namespace(self.sums)
        known = shared(params)
        value = xp.sum(known.natural * self.sums, axis=(-3, -2, -1)) + self.family.log_prior(params)
        sums = xp.broadcast_to(self.sums, known.natural.shape)
        return Sweep(value, self.family.statistics_from_moments(params, latent_moments(params, known, sums)))


def _class_sums(chunk: Chunk) -> Totals:
    xp = namespace(chunk.rows.values)
    phi = features(chunk.rows.values)
    weight = xp.ones_like(phi[:, 0]) if chunk.weight is None else chunk.weight
    return {chunk.label: xp.matmul(weight[None, :], phi)[0, :]}
