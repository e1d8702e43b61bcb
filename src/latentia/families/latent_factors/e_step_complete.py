r"""E-step of complete continuous rows: a sweep is two matrix products.

Given class and component, :math:`x \sim N(a, V)` with :math:`a = L\mu + \eta`, :math:`V = L\Gamma
L^\top + \Theta`, and z given x has mean :math:`\mu + B(x - a)`, :math:`B = \Gamma L^\top V^{-1}`,
and covariance :math:`P = \Gamma - BL\Gamma`, the same for all rows. So the log density is linear in
:math:`\Phi(x) = (x_i x_j, x, 1)`, and every expected statistic is a function of the weighted sums
of :math:`\Phi`. V is inverted as it stands (n by n) or through the q by q matrix :math:`I +
\Gamma^{1/2}L^\top\Theta^{-1}L\Gamma^{1/2}`, whichever is smaller.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.engine.source import MaskedRows
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.values import FactorParams, FactorStats
from latentia.numerics.array_api import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse
from latentia.numerics.matmul import params_at_rows, weighted_row_sums
from latentia.numerics.packed_symmetric import pack, quadratic_features, unpack, with_doubled_offdiagonal


class RowInvariantPosterior(NamedTuple):
    """Of each class and component: what makes score and posterior of a row from its cells."""

    natural: Array  # (..., C, M, F) coefficients of the log joint in the features of a row
    mean: Array  # (..., C, M, n) of x
    gain: Array  # (..., C, M, q, n) B
    cov: Array  # (..., C, M, q, q) P


def class_component_moments(params: FactorParams) -> RowInvariantPosterior:
    """Log density and posterior of z of each class and component, as functions of x."""
    xp = namespace(params.loadings)
    L = params.loadings[..., None, :, :, :]  # (..., 1, M, n, q)
    theta = params.noise[..., None, :, :]  # (..., 1, M or 1, n)
    mu, gamma = params.means[..., :, None, :], params.variances[..., :, None, :]  # (..., C, 1, q)
    a = xp.matmul(L, mu[..., None])[..., 0] + params.offsets[..., None, :, :]
    n, q = L.shape[-2:]
    if q == 0 or q >= n:
        LG = L * gamma[..., None, :]
        Vi, log_det = spd_inverse(xp.matmul(LG, transpose(L)) + theta[..., None] * eye_like(n, L))
        B = xp.matmul(transpose(LG), Vi)
        P = gamma[..., None] * eye_like(q, L) - xp.matmul(B, LG)
    else:
        root = xp.sqrt(gamma)
        K = L * root[..., None, :]
        KT = K / theta[..., None]
        Ai, log_det = spd_inverse(eye_like(q, L) + xp.matmul(transpose(K), KT))
        log_det = log_det + xp.sum(xp.log(theta), axis=-1)
        AiK = xp.matmul(Ai, transpose(KT))
        B = root[..., None] * AiK
        P = root[..., None] * Ai * root[..., None, :]
        Vi = (1.0 / theta)[..., None] * eye_like(n, L) - xp.matmul(KT, AiK)
    precision_mean = xp.matmul(Vi, a[..., None])[..., 0]
    constant = -0.5 * (n * LOG_2PI + log_det + xp.sum(precision_mean * a, axis=-1))
    constant = constant + params.log_prior[..., :, None] + params.log_mix
    quadratic = -0.5 * with_doubled_offdiagonal(pack(Vi), n)
    return RowInvariantPosterior(xp.concat([quadratic, precision_mean, constant[..., None]], axis=-1), a, B, P)


class CompleteRowPosterior(NamedTuple):
    """The latents of complete continuous rows, which follow from the features of a row."""

    features: Array  # (N, F)
    invariant: RowInvariantPosterior

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        deviation = rows.values - self.invariant.mean[..., None, :]
        step = namespace(deviation).matmul(deviation, transpose(self.invariant.gain))
        return params.means[..., :, None, None, :] + step

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        return feature_statistics(params, self.invariant, weighted_row_sums(weight, self.features), shared_gram)


def infer_complete_rows(params: FactorParams, values: Array) -> tuple[Array, CompleteRowPosterior]:
    """Log joint of class, component and row (..., C, M, N), and the posterior of the latents."""
    phi, invariant = quadratic_features(values), class_component_moments(params)
    return params_at_rows(invariant.natural, phi), CompleteRowPosterior(phi, invariant)


def feature_statistics(
    params: FactorParams, invariant: RowInvariantPosterior, sums: Array, shared_gram: bool
) -> FactorStats:
    """Statistics from weighted sums of the features, (..., C, M, F)."""
    xp = namespace(sums)
    a, Bt = invariant.mean, transpose(invariant.gain)
    mu, n = params.means[..., :, None, :], a.shape[-1]
    second, first, count = unpack(sums[..., : -n - 1], n), sums[..., -n - 1 : -1], sums[..., -1]
    # sums of x - a, x (x - a)' and (x - a)(x - a)'
    d1 = first - count[..., None] * a
    xd = second - first[..., :, None] * a[..., None, :]
    d2 = xd - a[..., :, None] * d1[..., None, :]
    # sums of z - mu, (z - mu)(z - mu)' and x z'
    e1 = xp.matmul(invariant.gain, d1[..., None])[..., 0]
    e2 = count[..., None, None] * invariant.cov + xp.matmul(invariant.gain, xp.matmul(d2, Bt))
    xz = first[..., :, None] * mu[..., None, :] + xp.matmul(xd, Bt)
    # about the origin, added up over the classes, which share the loadings
    weight = count[..., None]
    lean = e1[..., :, None] * mu[..., None, :]
    zz = e2 + lean + transpose(lean) + weight[..., None] * mu[..., :, None] * mu[..., None, :]
    gram = xp.sum(xp.concat([pack(zz), e1 + weight * mu, weight], axis=-1), axis=-3)[..., None, :]
    if not shared_gram:
        gram = xp.broadcast_to(gram, (*gram.shape[:-2], n, gram.shape[-1]))
    cross = xp.concat([xz, first[..., None]], axis=-1)
    return FactorStats(
        count=count,
        centered_sum=xp.sum(e1, axis=-2),
        centered_square=xp.sum(xp.linalg.diagonal(e2), axis=-2),
        gram=gram,
        cross=xp.sum(cross, axis=-4),
        sum_x2=xp.sum(xp.linalg.diagonal(second), axis=-3),
        bound_gram=xp.zeros_like(gram[..., :0, :]),
        bound_cross=xp.zeros_like(cross[..., 0, :, :0, :]),
    )
