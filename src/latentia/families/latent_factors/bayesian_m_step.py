r"""The variational M-step: posteriors of the parameters from expected statistics.

A prior is statistics added to statistics. With the Gram matrix :math:`S_i = \sum E[\tilde z \tilde
z^\top]` over the known cells of a column and :math:`c_i = \sum x E[\tilde z]`, where :math:`\tilde
z = (z, 1)`,

.. math::

    \Lambda_i = S_i + D, \quad m_i = \Lambda_i^{-1} c_i, \quad
    s_i = s_0 + n_i / 2, \quad r_i = r_0 + \tfrac12 (\textstyle\sum x^2 - m_i^\top c_i),

and :math:`w_i \mid \lambda_i \sim N(m_i, (\lambda_i \Lambda_i)^{-1})`, :math:`\lambda_i \sim G(s_i,
r_i)`. Bounded columns have the same without noise, their statistics weighted by the bounds'
curvatures. Each update is the best given the others, so the bound never falls.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.linalg import pack, spd_inverse
from latentia.arrays.namespace import Array, eye_like, namespace
from latentia.families.latent_factors.m_step import augmented_matrix, log_frequencies
from latentia.families.latent_factors.posterior import (
    FactorBelief,
    FactorPrior,
    diagonal_precision,
    known_columns,
    mean_squares,
    weight_squares,
)
from latentia.families.latent_factors.values import FactorStats


def update_belief(belief: FactorBelief, stats: FactorStats, prior: FactorPrior, counts_priors: bool) -> FactorBelief:
    """The posterior that these statistics lead to, then the strengths of the priors."""
    xp = namespace(stats.count)
    belief = belief._replace(mixing=1.0 + stats.count, **_class_posterior(belief, stats, prior))
    if counts_priors:
        belief = belief._replace(log_prior=log_frequencies(xp.sum(stats.count, axis=-1), belief.log_prior))
    G, H, groups = belief.noise_shape.shape[-1], belief.weights.shape[-2], []
    if G:
        D = diagonal_precision(belief.precision, prior.offset_precision)
        groups.append(_regress(stats.gram, stats.cross, D))
        belief = belief._replace(**_noise_posterior(stats, groups[0].mean, prior, belief.noise_shape.shape[-2] == 1))
    if H > G:
        D = diagonal_precision(belief.bounded_precision, prior.bounded_offset_precision)
        groups.append(_regress(stats.bound_gram, stats.bound_cross, D))
    belief = belief._replace(
        weights=xp.concat([group.mean for group in groups], axis=-2),
        weight_cov=xp.concat([group.cov for group in groups], axis=-2),
        weight_log_det=xp.concat([group.log_det for group in groups], axis=-1),
    )
    return _with_best_strengths(belief, prior)


class _Weights(NamedTuple):
    """Posterior of the weights of some predictors, given the noise of their column."""

    mean: Array  # (..., M, H, q + 1)
    cov: Array  # (..., M, H, T) packed
    log_det: Array  # (..., M, H)


def _regress(gram: Array, cross: Array, D: Array) -> _Weights:
    """Posterior of weights with the prior precisions D."""
    xp = namespace(cross)
    q = cross.shape[-1] - 1
    cov, log_det = spd_inverse(augmented_matrix(gram, q) + D[..., None] * eye_like(q + 1, cross))
    if cov.shape[-3] == 1:  # complete rows: all columns of a component share it
        mean = xp.matmul(cross, cov[..., 0, :, :])
    else:
        mean = xp.matmul(cov, cross[..., None])[..., 0]
    packed = xp.concat([pack(cov[..., :q, :q]), cov[..., :q, q], cov[..., q:, q]], axis=-1)
    packed = xp.broadcast_to(packed, (*mean.shape[:-1], packed.shape[-1]))
    return _Weights(mean, packed, xp.broadcast_to(-log_det, mean.shape[:-1]))


def _noise_posterior(stats: FactorStats, mean: Array, prior: FactorPrior, tied: bool) -> dict[str, Array]:
    """The precision of each continuous column."""
    xp = namespace(mean)
    residual = xp.clip(stats.sum_x2 - xp.sum(mean * stats.cross, axis=-1), min=0.0)
    count = xp.broadcast_to(stats.gram[..., -1], residual.shape)
    if tied:
        residual, count = xp.sum(residual, axis=-2, keepdims=True), xp.sum(count, axis=-2, keepdims=True)
    return {"noise_shape": prior.noise_shape + 0.5 * count, "noise_rate": prior.noise_rate + 0.5 * residual}


def _class_posterior(belief: FactorBelief, stats: FactorStats, prior: FactorPrior) -> dict[str, Array]:
    """Means and precisions of the latents of each class, pulled towards what the classes share."""
    xp = namespace(stats.count)
    old, half = belief.class_mean, 0.5 * prior.class_rows
    rows = xp.sum(stats.count, axis=-1)[..., None]
    first = stats.centered_sum + rows * old
    second = stats.centered_square + 2 * old * stats.centered_sum + rows * old * old
    count = rows + belief.strength[..., None, :]
    mean = first / count
    return {
        "class_mean": mean,
        "class_count": count,
        "class_shape": half + 0.5 * rows + xp.zeros_like(mean),
        "class_rate": half + 0.5 * xp.clip(second - count * mean * mean, min=0.0),
    }


def _with_best_strengths(belief: FactorBelief, prior: FactorPrior) -> FactorBelief:
    """The precisions of loadings and the pull of class means that raise the bound most."""
    xp = namespace(belief.weights)
    G, C = belief.noise_shape.shape[-1], belief.class_mean.shape[-2]
    squares = xp.sum(mean_squares(belief), axis=-2)
    strength = (C + prior.unit_means) / (squares + prior.unit_means)
    precision = belief.precision
    if G:
        known = known_columns(belief, prior)[..., None]
        precision = _best_precision(belief, slice(None, G), prior.unit_loadings, known)
    bounded = belief.bounded_precision
    if belief.weights.shape[-2] > G:
        known = xp.ones_like(belief.weights[..., G:, :1])
        bounded = _best_precision(belief, slice(G, None), prior.unit_loadings, known)
    return belief._replace(strength=strength, precision=precision, bounded_precision=bounded)


def _best_precision(belief: FactorBelief, index: slice, unit_loadings: float, known: Array) -> Array:
    """Alpha of some predictors, of which the `known` (..., M, H, 1) count."""
    xp = namespace(belief.weights)
    total = xp.sum(weight_squares(belief, index)[..., :-1] * known, axis=(-3, -2))
    n_weights = xp.sum(known, axis=(-3, -2))
    return (n_weights + unit_loadings) / (total + unit_loadings)
