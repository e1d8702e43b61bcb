r"""The variational M-step: posteriors of the parameters from expected statistics, and their
divergence from the priors of `posterior`.

A prior is statistics added to statistics. With the Gram matrix :math:`S_i = \sum E[\tilde z \tilde
z^\top]` over the known cells of a column and :math:`c_i = \sum x E[\tilde z]`, :math:`\tilde z =
(z, 1)`,

.. math::

    \Lambda_i = S_i + D, \quad m_i = \Lambda_i^{-1} c_i, \quad
    s_i = s_0 + n_i / 2, \quad r_i = r_0 + \tfrac12 (\textstyle\sum x^2 - m_i^\top c_i),

and :math:`w_i \mid \lambda_i \sim N(m_i, (\lambda_i \Lambda_i)^{-1})`, :math:`\lambda_i \sim G(s_i,
r_i)`. Bounded columns have the same without noise, their statistics weighted by the bounds'
curvatures. Each update is exact given the others, so the bound never falls.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.families.latent_factors.m_step import augmented_matrix, log_frequencies
from latentia.families.latent_factors.posterior import FactorBelief, FactorPrior, Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorStats
from latentia.numerics.array_api import Array, eye_like, namespace
from latentia.numerics.linalg import spd_inverse
from latentia.numerics.packed_symmetric import pack
from latentia.numerics.special import digamma, log_gamma


class _Weights(NamedTuple):
    """Posterior of the weights of some predictors, given the noise of their column."""

    mean: Array  # (..., M, H, q + 1)
    cov: Array  # (..., M, H or 1, q + 1, q + 1)
    log_det: Array  # (..., M, H or 1) of the covariance
    diagonal: Array  # (..., M, H, q + 1) of the covariance


def update_belief(belief: FactorBelief, stats: FactorStats, prior: FactorPrior, counts_priors: bool) -> FactorBelief:
    """The posterior that these statistics lead to."""
    xp = namespace(stats.count)
    params, G = belief.point, belief.point.noise.shape[-1]
    means, covs, kl = [], [], 0.0
    relevance, bounded_relevance = belief.relevance, belief.bounded_relevance
    noise, cell_constant = params.noise, belief.uncertainty.cell_constant
    if G:
        D = _precisions(relevance, prior.offset_precision)
        weights = _regress(stats.gram, stats.cross, D)
        shape, rate = _noise_posterior(stats, weights, prior, params.noise.shape[-2] == 1)
        precision = shape / rate
        squares = precision[..., None] * weights.mean**2 + weights.diagonal
        known = _has_values(stats.gram, squares)
        relevance = _relevance(squares, known, prior)
        kl = kl + _weights_kl(weights, squares, known, _precisions(relevance, prior.offset_precision))
        kl = kl + xp.sum(_gamma_kl(shape, rate, prior.noise_shape, prior.noise_rate), axis=(-2, -1))
        kl = kl - _log_density(relevance, prior.relevance_shape, prior.relevance_rate)
        noise, cell_constant = 1.0 / precision, 0.5 * (digamma(shape) - xp.log(shape))
        means.append(weights.mean)
        covs.append(_packed(weights, weights.mean))
    if stats.bound_cross.shape[-2]:
        D = _precisions(bounded_relevance, prior.bounded_offset_precision)
        weights = _regress(stats.bound_gram, stats.bound_cross, D)
        squares = weights.mean**2 + weights.diagonal
        known = _has_values(stats.bound_gram, squares)
        bounded_relevance = _relevance(squares, known, prior)
        kl = kl + _weights_kl(weights, squares, known, _precisions(bounded_relevance, prior.bounded_offset_precision))
        kl = kl - _log_density(bounded_relevance, prior.relevance_shape, prior.relevance_rate)
        means.append(weights.mean)
        covs.append(_packed(weights, weights.mean))
    weight_means, weight_covs = xp.concat(means, axis=-2), xp.concat(covs, axis=-2)
    classes = _class_posterior(belief, stats, prior)
    mixing, mixing_kl = _mixing_posterior(stats.count)
    log_prior = params.log_prior
    if counts_priors:
        log_prior = log_frequencies(xp.sum(stats.count, axis=-1), log_prior)
    point = FactorParams(
        log_prior=log_prior,
        log_mix=mixing,
        means=classes.mean,
        variances=classes.rate / classes.shape,
        loadings=weight_means[..., :-1],
        offsets=weight_means[..., -1],
        noise=noise,
        edges=params.edges,
    )
    return FactorBelief(
        point,
        Uncertainty(classes.constant, cell_constant, weight_covs),
        classes.count,
        classes.shape,
        relevance,
        bounded_relevance,
        classes.strength,
        -(kl + classes.kl + mixing_kl),
    )


def _precisions(relevance: Array, offset: float) -> Array:
    """The diagonal of D, (..., 1, 1, q + 1)."""
    xp = namespace(relevance)
    one = xp.ones_like(xp.sum(relevance, axis=-1, keepdims=True))
    return xp.concat([relevance, offset * one], axis=-1)[..., None, None, :]


def _regress(gram: Array, cross: Array, D: Array) -> _Weights:
    """Posterior of weights with the prior precisions D."""
    xp = namespace(cross)
    q = cross.shape[-1] - 1
    cov, log_det = spd_inverse(augmented_matrix(gram, q) + D[..., None] * eye_like(q + 1, cross))
    if cov.shape[-3] == 1:  # complete rows: all columns of a component share it
        mean = xp.matmul(cross, cov[..., 0, :, :])
    else:
        mean = xp.matmul(cov, cross[..., None])[..., 0]
    diagonal = xp.broadcast_to(xp.linalg.diagonal(cov), mean.shape)
    return _Weights(mean, cov, xp.broadcast_to(-log_det, mean.shape[:-1]), diagonal)


def _packed(weights: _Weights, like: Array) -> Array:
    """Covariances as (..., M, H, T), packed as statistics are: (z z', z, 1)."""
    xp = namespace(like)
    q = like.shape[-1] - 1
    cov = weights.cov
    parts = [pack(cov[..., :q, :q]), cov[..., :q, q], cov[..., q:, q]]
    packed = xp.concat(parts, axis=-1)
    return xp.broadcast_to(packed, (*like.shape[:-1], packed.shape[-1]))


def _noise_posterior(stats: FactorStats, weights: _Weights, prior: FactorPrior, tied: bool) -> tuple[Array, Array]:
    """Shape and rate of the precision of each continuous column."""
    xp = namespace(weights.mean)
    residual = xp.clip(stats.sum_x2 - xp.sum(weights.mean * stats.cross, axis=-1), min=0.0)
    count = xp.broadcast_to(stats.gram[..., -1], residual.shape)
    if tied:
        residual, count = xp.sum(residual, axis=-2, keepdims=True), xp.sum(count, axis=-2, keepdims=True)
    return prior.noise_shape + 0.5 * count, prior.noise_rate + 0.5 * residual


def _has_values(gram: Array, squares: Array) -> Array:
    """One for the predictors (..., M, H) of columns with values, zero for the others.

    The posterior of the others is their prior, whatever that is; they do not count.
    """
    xp = namespace(gram)
    has_values = xp.sum(gram[..., -1], axis=-2, keepdims=True) > 0
    return xp.broadcast_to(xp.astype(has_values, squares.dtype), squares.shape[:-1])


def _relevance(squares: Array, known: Array, prior: FactorPrior) -> Array:
    """The best precisions (..., q) of the loadings with these expected squares (..., M, H, q +
    1).
    """
    xp = namespace(squares)
    n_predictors = xp.sum(known, axis=(-2, -1))[..., None]
    total = xp.sum(squares[..., :-1] * known[..., None], axis=(-3, -2))
    return (0.5 * n_predictors + prior.relevance_shape) / (0.5 * total + prior.relevance_rate)


def _log_density(precision: Array, shape: float, rate: float) -> Array:
    """Log of precision^shape exp(-rate precision), summed over the factors."""
    xp = namespace(precision)
    return xp.sum(shape * xp.log(precision) - rate * precision, axis=-1)


def _weights_kl(weights: _Weights, squares: Array, known: Array, D: Array) -> Array:
    """Divergence of the weights' posteriors from N(0, 1 / D), given the noise."""
    xp = namespace(squares)
    terms = xp.sum(D * squares - 1.0 - xp.log(D), axis=-1) - weights.log_det
    return 0.5 * xp.sum(terms * known, axis=(-2, -1))


def _gamma_kl(shape: Array, rate: Array, shape0: Array | float, rate0: Array | float) -> Array:
    """Divergence of G(shape, rate) from G(shape0, rate0)."""
    xp = namespace(shape)
    base = shape0 + xp.zeros_like(shape)
    value = (shape - base) * digamma(shape) - log_gamma(shape) + log_gamma(base)
    return value + base * (xp.log(rate) - xp.log(rate0 + xp.zeros_like(rate))) + shape * (rate0 - rate) / rate


class _Classes(NamedTuple):
    """Posterior of the latents of each class, (..., C, q) each but the last three."""

    mean: Array
    count: Array
    shape: Array
    rate: Array
    constant: Array  # (..., C)
    strength: Array  # (..., q)
    kl: Array  # (...,)


def _class_posterior(belief: FactorBelief, stats: FactorStats, prior: FactorPrior) -> _Classes:
    """Means and precisions of the latents, pulled towards what the classes share."""
    xp = namespace(stats.count)
    old, kappa, half = belief.point.means, belief.strength[..., None, :], 0.5 * prior.class_rows
    rows = xp.sum(stats.count, axis=-1)[..., None]
    first = stats.centered_sum + rows * old
    second = stats.centered_square + 2 * old * stats.centered_sum + rows * old * old
    count = rows + kappa
    mean = first / count
    shape = half + 0.5 * rows + xp.zeros_like(mean)
    rate = half + 0.5 * xp.clip(second - count * mean * mean, min=0.0)
    squares = shape / rate * mean * mean + 1.0 / count  # E[tau mu^2]
    n_classes = mean.shape[-2]
    strength = (0.5 * n_classes + prior.strength_shape) / (0.5 * xp.sum(squares, axis=-2) + prior.strength_rate)
    kappa = strength[..., None, :]
    kl = 0.5 * (kappa * squares - 1.0 - xp.log(kappa / count)) + _gamma_kl(shape, rate, half, half)
    # E[ln tau] in place of ln E[tau], and the spread of the mean
    constant = 0.5 * xp.sum(digamma(shape) - xp.log(shape) - 1.0 / count, axis=-1)
    total = xp.sum(kl, axis=(-2, -1)) - _log_density(strength, prior.strength_shape, prior.strength_rate)
    return _Classes(mean, count, shape, rate, constant, strength, total)


def _mixing_posterior(count: Array) -> tuple[Array, Array]:
    """Expected log shares (..., C, M) under a flat Dirichlet prior, and the divergence from it."""
    xp = namespace(count)
    n_components = count.shape[-1]
    zeros = xp.zeros_like(xp.sum(count, axis=-1))
    if n_components == 1:
        return xp.zeros_like(count), xp.sum(zeros, axis=-1)
    shape = count + 1.0
    total = xp.sum(shape, axis=-1)
    expected = digamma(shape) - digamma(total)[..., None]
    kl = log_gamma(total) - xp.sum(log_gamma(shape), axis=-1) - log_gamma(zeros + n_components)
    return expected, xp.sum(kl + xp.sum(count * expected, axis=-1), axis=-1)
