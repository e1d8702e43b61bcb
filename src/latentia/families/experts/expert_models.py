r"""What an expert is: a softmax over the classes, or a linear-Gaussian model of continuous outputs.

Linear experts (the regression model of section VI.B of Ahmed & Campbell 2011): :math:`y_o | x, g \sim N(w_{go}^T x, \tau_{go}^{-1})` for each output o, with the weight prior of
`gaussian_weights` and :math:`\tau \sim G(e_0, f_0)`. With :math:`r_n` the expert's share of row n,

.. math:: \Sigma^{-1} = \langle\beta\rangle I + \langle\tau\rangle \sum_n r_n x_n x_n^T, \quad e = e_0 + \tfrac12 \sum_n r_n, \quad
    f = f_0 + \tfrac12 \sum_n r_n [(y_n - \mu^T x_n)^2 + x_n^T \Sigma x_n].

Residuals are taken about the current fit, so that they do not cancel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import (
    AcceleratedCoordinates,
    GaussianWeights,
    Pull,
    from_accelerated,
    score_variance,
    start_weights,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.building_blocks.logsumexp_bound import SoftmaxBound, softmax_bound
from latentia.numerics.array_api import LOG_2PI, Array, namespace, one_hot, transpose
from latentia.numerics.matmul import params_at_rows, weighted_row_sums
from latentia.numerics.packed_symmetric import unpack
from latentia.numerics.special import digamma, log_gamma


class SoftmaxLeafPosterior(NamedTuple):
    """Scores of rows under softmax experts."""

    score: Array  # (..., L, N) bound of E log p(y | x, g)
    own: Array  # (K, N) indicators of the labels
    bound: SoftmaxBound


@dataclass(frozen=True)
class SoftmaxExpert:
    """Experts that are softmax models over K classes; parameters are weights (..., L, K, D)."""

    n_classes: int
    prior: GammaPrior = field(default_factory=GammaPrior)

    @property
    def n_scores(self) -> int:
        return self.n_classes

    def start(self, mean: Array, variance: float) -> GaussianWeights:
        return start_weights(mean, variance, self.prior)

    def infer(self, params: GaussianWeights, x: Array, outer: Array, y: Array) -> SoftmaxLeafPosterior:
        xp = namespace(x)
        mean = params_at_rows(params.mean, x)
        bound = softmax_bound(mean, score_variance(params.covariance, outer))
        own = one_hot(y, self.n_classes, x.dtype)
        return SoftmaxLeafPosterior(xp.sum(own * mean, axis=-2) - bound.value, own, bound)

    def statistics(self, posterior: SoftmaxLeafPosterior, share: Array, x: Array, outer: Array) -> Pull:
        share = share[..., None, :]
        precision = weighted_row_sums(share * posterior.bound.curvature, outer)
        return Pull(precision, weighted_row_sums(share * (posterior.own + posterior.bound.slope), x))

    def update(self, params: GaussianWeights, stats: Pull, beta: float) -> GaussianWeights:
        return update_weights(params, stats, self.prior, beta, shared=True)

    def log_prior(self, params: GaussianWeights, beta: float) -> Array:
        return namespace(params.mean).sum(weights_log_prior(params, self.prior, beta), axis=(-2, -1))

    def floats_per_row(self, params: GaussianWeights) -> int:
        return math.prod(params.mean.shape[:-1])

    def to_accelerated(self, params: GaussianWeights) -> AcceleratedCoordinates:
        return to_accelerated(params)

    def from_accelerated(self, free: AcceleratedCoordinates, params: GaussianWeights) -> GaussianWeights:
        return from_accelerated(free, params)


class LinearParams(NamedTuple):
    """Posteriors of linear experts: weights, and the precision of the noise."""

    weights: GaussianWeights  # (..., L, O, D)
    shape: Array  # (..., L, O)
    rate: Array  # (..., L, O)

    @property
    def noise_variance(self) -> Array:
        """Point estimate (..., L, O): the mean of 1 / tau where it exists, 1 over that of tau where rows are too few."""
        xp = namespace(self.shape)
        return self.rate / xp.where(self.shape > 1.5, self.shape - 1, self.shape)


class LinearStats(NamedTuple):
    """Moments of the inputs and of the residuals about the current fit."""

    outer: Array  # (..., L, P)
    moment: Array  # (..., L, O, D)
    square: Array  # (..., L, O)
    mass: Array  # (..., L, 1)


class LinearPosterior(NamedTuple):
    """Scores of rows under linear experts."""

    score: Array  # (..., L, N) E log p(y | x, g)
    residual: Array  # (..., L, O, N)


@dataclass(frozen=True)
class LinearGaussianExpert:
    """Experts that are linear in x with Gaussian noise, for O outputs."""

    n_outputs: int
    prior: GammaPrior = field(default_factory=GammaPrior)
    # weak, so that clean outputs get their noise, and with most of its mass at small precisions: a shape of 1 invites experts to settle on few rows
    noise_prior: GammaPrior = field(default_factory=lambda: GammaPrior(0.1, 5e-6))

    n_classes = 1

    @property
    def n_scores(self) -> int:
        return self.n_outputs

    def start(self, mean: Array, variance: float) -> LinearParams:
        """A noise variance of a tenth, which is a tenth of the outputs' when they are standardized."""
        one = namespace(mean).ones_like(mean[..., 0])
        return LinearParams(start_weights(mean, variance, self.prior), one * 2.0, one * 0.2)

    def infer(self, params: LinearParams, x: Array, outer: Array, y: Array) -> LinearPosterior:
        xp = namespace(x)
        mean = params_at_rows(params.weights.mean, x)
        variance = score_variance(params.weights.covariance, outer)
        residual = transpose(y) - mean
        log_tau = digamma(params.shape) - xp.log(params.rate)
        tau = params.shape / params.rate
        score = log_tau[..., None] - LOG_2PI - tau[..., None] * (residual * residual + variance)
        return LinearPosterior(xp.sum(score, axis=-2) / 2, residual)

    def statistics(self, posterior: LinearPosterior, share: Array, x: Array, outer: Array) -> LinearStats:
        xp = namespace(x)
        weighted = share[..., None, :] * posterior.residual
        square = xp.sum(weighted * posterior.residual, axis=-1)
        mass = xp.sum(share, axis=-1, keepdims=True)
        return LinearStats(weighted_row_sums(share, outer), weighted_row_sums(weighted, x), square, mass)

    def update(self, params: LinearParams, stats: LinearStats, beta: float) -> LinearParams:
        xp = namespace(stats.outer)
        tau = (params.shape / params.rate)[..., None]
        old = params.weights.mean
        scatter = unpack(stats.outer, old.shape[-1])[..., None, :, :]
        linear = stats.moment + xp.matmul(scatter, old[..., None])[..., 0]
        weights = update_weights(params.weights, Pull(tau * stats.outer[..., None, :], tau * linear), self.prior, beta)
        move = weights.mean - old
        square = stats.square - 2 * xp.sum(move * stats.moment, axis=-1)
        square = square + xp.sum(move * xp.matmul(scatter, move[..., None])[..., 0], axis=-1)
        square = xp.clip(square, min=0.0) + xp.sum(scatter * weights.covariance, axis=(-2, -1))
        shape = beta * (self.noise_prior.shape - 1 + stats.mass / 2) + 1
        return LinearParams(weights, shape * xp.ones_like(square), beta * (self.noise_prior.rate + square / 2))

    def log_prior(self, params: LinearParams, beta: float) -> Array:
        xp = namespace(params.shape)
        prior, shape = self.noise_prior, params.shape
        log_tau = digamma(shape) - xp.log(params.rate)
        expected = prior.shape * math.log(prior.rate) - math.lgamma(prior.shape) + (prior.shape - 1) * log_tau
        expected = expected - prior.rate * shape / params.rate
        entropy = shape - xp.log(params.rate) + log_gamma(shape) + (1 - shape) * digamma(shape)
        weights = weights_log_prior(params.weights, self.prior, beta)
        return xp.sum(weights + expected + entropy / beta, axis=(-2, -1))

    def floats_per_row(self, params: LinearParams) -> int:
        return math.prod(params.weights.mean.shape[:-1])

    def to_accelerated(self, params: LinearParams) -> tuple[AcceleratedCoordinates, Array]:
        return to_accelerated(params.weights), namespace(params.rate).log(params.rate)

    def from_accelerated(self, free: tuple[AcceleratedCoordinates, Array], params: LinearParams) -> LinearParams:
        xp = namespace(params.rate)
        rate = xp.exp(xp.clip(free[1], min=-50.0, max=50.0))
        return LinearParams(from_accelerated(free[0], params.weights), params.shape, rate)
