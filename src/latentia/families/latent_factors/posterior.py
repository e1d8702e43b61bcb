r"""The posterior of a latent classification model's parameters, as a value.

Priors. With the precision :math:`\lambda = 1/\theta` of a continuous column and the weights
:math:`w = (\text{loadings}, \text{offset})` of a predictor,

.. math::

    \lambda_i \sim G(s_0, r_0), \qquad w_i \mid \lambda_i \sim N(0, (\lambda_i D)^{-1}), \qquad
    D = \operatorname{diag}(\alpha_1, \dots, \alpha_q, \alpha_b),

and :math:`w \sim N(0, D^{-1})` for the predictors of bounded columns, whose :math:`\alpha` are
their own. :math:`1 / \alpha_j` is the relevance of factor j (automatic relevance determination):
where no column needs the factor, :math:`\alpha_j` grows and the loadings vanish. For the latents of
class c, with :math:`\tau = 1/\Gamma_{cj}`,

.. math:: \tau_{cj} \sim G(g/2, g/2), \qquad \mu_{cj} \mid \tau \sim N(0, (\kappa_j \tau)^{-1}),

so that g rows of a common unit variance and :math:`\kappa_j` rows at the common mean pull each
class towards what all share. Shares of components have the prior :math:`\mathrm{Dir}(1)`.
:math:`\alpha` and :math:`\kappa` are set where they raise the bound most, under the densities
:math:`(\alpha_j e^{-\alpha_j})^{u/2}` and :math:`(\kappa_j e^{-\kappa_j})^{k/2}`: as if each factor
had u loadings and k class means of unit size beside its own. Where rows are few or hardly known, a
factor then keeps loadings with which it can still tell classes apart, instead of none.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.namespace import Array, digamma, log_gamma, namespace
from latentia.families.latent_factors.values import FactorParams


class FactorPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    noise_shape: float = 1.0  # s_0
    noise_rate: float = 0.1  # r_0, for columns in standard units
    offset_precision: float = 0.01  # alpha_b of continuous columns, and of bounded ones:
    bounded_offset_precision: float = 0.1
    class_rows: float = 1000.0  # g: rows of the common variance that each class is given
    unit_loadings: float = 0.2  # u: loadings of unit size that each factor is given
    unit_means: float = 6.0  # k: class means of unit size that each factor is given


class FactorBelief(NamedTuple):
    """The parameters of a Bayesian family: those of the posteriors, and the priors' strengths."""

    log_prior: Array  # (..., C) of the classes, a point
    mixing: Array  # (..., C, M) Dirichlet shapes of the shares of components
    class_mean: Array  # (..., C, q)
    class_count: Array  # (..., C, q) rows that the mean rests on, the prior's included
    class_shape: Array  # (..., C, q) of the precision of a latent
    class_rate: Array  # (..., C, q)
    weights: Array  # (..., M, H, q + 1) means of (loadings, offset)
    weight_cov: Array  # (..., M, H, T) their covariances, packed; times 1 / theta if continuous
    weight_log_det: Array  # (..., M, H) log determinants of these
    noise_shape: Array  # (..., M or 1, G) of the precision of a continuous column
    noise_rate: Array  # (..., M or 1, G)
    precision: Array  # (..., q) alpha of the continuous columns
    bounded_precision: Array  # (..., q) alpha of the bounded ones
    strength: Array  # (..., q) kappa


#: The axis of each array that runs over the classes.
BELIEF_CLASS_AXES = FactorBelief(-1, -2, -2, -2, -2, -2, *[None] * 8)


class Uncertainty(NamedTuple):
    """What the E-step needs of the posterior beside its means."""

    class_constant: Array  # (..., C) added to the score of a class
    cell_constant: Array  # (..., M or 1, G) added for each known cell of a continuous column
    weights: Array  # (..., M, H, T) covariances of (loadings, offset), packed


class ExpectedParams(NamedTuple):
    """A belief as the E-step sees it."""

    point: FactorParams  # means; variances and noise are inverses of mean precisions
    uncertainty: Uncertainty


EXPECTED_CLASS_AXES = ExpectedParams(FactorParams(-1, -2, -2, -2, None, None, None, None), Uncertainty(-1, None, None))


def expected_params(belief: FactorBelief) -> ExpectedParams:
    """Expectations over the posterior."""
    xp = namespace(belief.weights)
    log_mix = digamma(belief.mixing) - digamma(xp.sum(belief.mixing, axis=-1, keepdims=True))
    q = belief.class_mean.shape[-1]
    point = FactorParams(
        log_prior=belief.log_prior,
        log_mix=log_mix,
        means=belief.class_mean,
        variances=belief.class_rate / belief.class_shape,
        loadings=belief.weights[..., :q],
        offsets=belief.weights[..., q],
        noise=belief.noise_rate / belief.noise_shape,
        edges=xp.ones_like(belief.weights[..., 0, :, :q]),
    )
    # E[ln tau] in place of ln E[tau], and the spread of the mean
    gap = digamma(belief.class_shape) - xp.log(belief.class_shape) - 1.0 / belief.class_count
    cells = 0.5 * (digamma(belief.noise_shape) - xp.log(belief.noise_shape))
    return ExpectedParams(point, Uncertainty(0.5 * xp.sum(gap, axis=-1), cells, belief.weight_cov))


def divergence(belief: FactorBelief, prior: FactorPrior) -> Array:
    """Of the posteriors from their priors, less the log density of alpha and kappa; (...,)."""
    xp = namespace(belief.weights)
    G, half = belief.noise_shape.shape[-1], 0.5 * prior.class_rows
    kl = xp.sum(_mixing_divergence(belief.mixing), axis=-1)
    kappa = belief.strength[..., None, :]
    squares = kappa * mean_squares(belief)
    spread = 0.5 * (squares - 1.0 - xp.log(kappa / belief.class_count))
    classes = spread + gamma_divergence(belief.class_shape, belief.class_rate, half, half)
    kl = kl + xp.sum(classes, axis=(-2, -1))
    kl = kl - _log_density(belief.strength, prior.unit_means)
    if G:
        precision = diagonal_precision(belief.precision, prior.offset_precision)
        kl = kl + _weights_divergence(belief, slice(None, G), precision, known_columns(belief, prior))
        noise = gamma_divergence(belief.noise_shape, belief.noise_rate, prior.noise_shape, prior.noise_rate)
        kl = kl + xp.sum(noise, axis=(-2, -1))
        kl = kl - _log_density(belief.precision, prior.unit_loadings)
    if belief.weights.shape[-2] > G:
        precision = diagonal_precision(belief.bounded_precision, prior.bounded_offset_precision)
        kl = kl + _weights_divergence(belief, slice(G, None), precision, 1.0)
        kl = kl - _log_density(belief.bounded_precision, prior.unit_loadings)
    return kl


def mean_squares(belief: FactorBelief) -> Array:
    """E[tau mu^2], (..., C, q)."""
    return belief.class_shape / belief.class_rate * belief.class_mean**2 + 1.0 / belief.class_count


def weight_squares(belief: FactorBelief, index: slice) -> Array:
    """Expected squares of the weights of some predictors, in units of the noise; (..., M, H, q +
    1).
    """
    xp = namespace(belief.weights)
    q, G = belief.class_mean.shape[-1], belief.noise_shape.shape[-1]
    cov = belief.weight_cov[..., index, :]
    diagonal = [sum(range(q, q - j, -1)) for j in range(q)]  # where z_j z_j is among the packed products
    variance = xp.stack([cov[..., k] for k in diagonal] + [cov[..., -1]], axis=-1)
    squares = belief.weights[..., index, :] ** 2
    if index.stop == G:
        squares = squares * (belief.noise_shape / belief.noise_rate)[..., None]
    return squares + variance


def diagonal_precision(precision: Array, offset: float) -> Array:
    """The diagonal of D, (..., 1, 1, q + 1)."""
    xp = namespace(precision)
    one = xp.ones_like(xp.sum(precision, axis=-1, keepdims=True))
    return xp.concat([precision, offset * one], axis=-1)[..., None, None, :]


def gamma_divergence(shape: Array, rate: Array, shape0: float, rate0: float) -> Array:
    """Of G(shape, rate) from G(shape0, rate0)."""
    xp = namespace(shape)
    base = shape0 + xp.zeros_like(shape)
    value = (shape - base) * digamma(shape) - log_gamma(shape) + log_gamma(base)
    return value + base * (xp.log(rate) - xp.log(rate0 + xp.zeros_like(rate))) + shape * (rate0 - rate) / rate


def _weights_divergence(belief: FactorBelief, index: slice, precision: Array, known: Array | float) -> Array:
    """Of the weights of some predictors from N(0, 1 / D), given the noise; `known` ones count."""
    xp = namespace(belief.weights)
    terms = xp.sum(precision * weight_squares(belief, index) - 1.0 - xp.log(precision), axis=-1)
    return 0.5 * xp.sum((terms - belief.weight_log_det[..., index]) * known, axis=(-2, -1))


def known_columns(belief: FactorBelief, prior: FactorPrior) -> Array:
    """One for continuous columns with values, zero for those whose posterior is their prior."""
    xp = namespace(belief.weights)
    known = xp.astype(belief.noise_shape > prior.noise_shape, belief.weights.dtype)
    return xp.broadcast_to(known, (*belief.weights.shape[:-2], known.shape[-1]))


def _mixing_divergence(shape: Array) -> Array:
    """Of the shares of each class from Dir(1)."""
    xp = namespace(shape)
    total = xp.sum(shape, axis=-1)
    expected = digamma(shape) - digamma(total)[..., None]
    flat = log_gamma(xp.zeros_like(total) + shape.shape[-1])
    return log_gamma(total) - flat + xp.sum((shape - 1.0) * expected - log_gamma(shape), axis=-1)


def _log_density(precision: Array, n_units: float) -> Array:
    """Log of (a exp(-a))^(n/2) at the precisions a, summed over the factors."""
    xp = namespace(precision)
    return 0.5 * n_units * xp.sum(xp.log(precision) - precision, axis=-1)
