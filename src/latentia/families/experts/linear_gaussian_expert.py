r"""Experts that are linear in x with Gaussian noise, for continuous outputs.

The regression model of section VI.B of Ahmed & Campbell 2011: :math:`y_o | x, g \sim N(w_{go}^T x,
\tau_{go}^{-1})` for each output o, with the weight prior of `gaussian_weights` and :math:`\tau \sim
G(e_0, f_0)`. With :math:`r_n` the expert's responsibility for row n,

.. math:: \Sigma^{-1} = \langle\beta\rangle I + \langle\tau\rangle \sum_n r_n x_n x_n^T,
    \quad e = e_0 + \tfrac12 \sum_n r_n, \quad
    f = f_0 + \tfrac12 \sum_n r_n [(y_n - \mu^T x_n)^2 + x_n^T \Sigma x_n].

Residuals are taken about the current fit, so that they do not cancel.

By maximum likelihood the variance is a floor plus an exponential: an expert may come to rows that
it fits without any residual, and there the likelihood has no maximum. A ridge does the same for the
noise as for the weights: it is the rate of a gamma prior of shape 1 of the precision, :math:`-\rho
/ \sigma_g^2`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from latentia.arrays.linalg import params_at_rows, unpack, weighted_row_sums
from latentia.arrays.namespace import LOG_2PI, Array, digamma, namespace, transpose
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import (
    AcceleratedCoordinates,
    GaussianWeights,
    NaturalStats,
    exp_clipped,
    from_accelerated,
    posterior_around,
    score_moments,
    score_variance,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.experts.expert import Expert

#: Smallest variance of the noise, in units of the outputs' variance.
NOISE_FLOOR = 1e-8


class LinearPosterior(NamedTuple):
    """Posteriors of the weights, and of the precision of the noise."""

    weights: GaussianWeights  # (..., L, O, D)
    shape: Array  # (..., L, O)
    rate: Array  # (..., L, O)

    @property
    def noise_variance(self) -> Array:
        """Point (..., L, O): the mean of 1 / tau where it exists, else 1 over that of tau."""
        xp = namespace(self.shape)
        return self.rate / xp.where(self.shape > 1.5, self.shape - 1, self.shape)


class LinearBoundScores(NamedTuple):
    """Rows under the posterior of linear experts."""

    score: Array  # (..., L, N) E log p(y | x, g)
    residual: Array  # (..., L, O, N)


class LinearStats(NamedTuple):
    """Moments of the inputs and of the residuals about the current fit."""

    outer: Array  # (..., L, P)
    moment: Array  # (..., L, O, D)
    square: Array  # (..., L, O)
    responsibility_sum: Array  # (..., L, 1)


class LinearPoint(NamedTuple):
    """Point estimate of linear experts."""

    weights: Array  # (..., L, O, D)
    log_noise: Array  # (..., L, O) log of the variance above the floor

    @property
    def noise_variance(self) -> Array:
        """Of each expert's output (..., L, O), in units of the outputs' variance."""
        return NOISE_FLOOR + _above_floor(self.log_noise)


class LinearPointScores(NamedTuple):
    """Rows under point estimates of linear experts."""

    value: Array  # (..., L, N) log p(y | x, g)
    gradient: Array  # (..., L, O, N) derivative of it in the scores
    noise_gradient: Array  # (..., L, O, N) and in the log noise


@dataclass(frozen=True)
class LinearGaussianExpert(Expert):
    """Linear models of O outputs, with noise of their own."""

    n_outputs: int
    prior: GammaPrior = field(default_factory=GammaPrior)
    # weak, so that clean outputs get their noise, and with most of its mass at small precisions: a
    # shape of 1 invites experts to settle on few rows
    noise_prior: GammaPrior = field(default_factory=lambda: GammaPrior(0.1, 5e-6))

    n_classes = 1
    #: Gates between linear experts of little noise are steep, the bound all but flat in it.
    exact_posterior_tol = 1e-6

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        return self.n_outputs

    def n_free(self, size: int) -> int:
        return self.n_outputs * size + self.n_outputs

    def posterior_around(self, weights: Array, variance: float) -> LinearPosterior:
        """With a noise variance of a tenth: outputs are standardized."""
        one = namespace(weights).ones_like(weights[..., 0])
        return LinearPosterior(posterior_around(weights, variance, self.prior), one * 2.0, one * 0.2)

    def infer(self, posterior: LinearPosterior, x: Array, outer: Array, y: Array) -> LinearBoundScores:
        xp = namespace(x)
        variance = score_variance(posterior.weights.covariance, outer)
        residual = transpose(y) - params_at_rows(posterior.weights.mean, x)
        log_tau = digamma(posterior.shape) - xp.log(posterior.rate)
        tau = posterior.shape / posterior.rate
        score = log_tau[..., None] - LOG_2PI - tau[..., None] * (residual * residual + variance)
        return LinearBoundScores(xp.sum(score, axis=-2) / 2, residual)

    def statistics(self, scores: LinearBoundScores, responsibilities: Array, x: Array, outer: Array) -> LinearStats:
        xp = namespace(x)
        weighted = responsibilities[..., None, :] * scores.residual
        square = xp.sum(weighted * scores.residual, axis=-1)
        responsibility_sum = xp.sum(responsibilities, axis=-1, keepdims=True)
        outer_sum = weighted_row_sums(responsibilities, outer)
        return LinearStats(outer_sum, weighted_row_sums(weighted, x), square, responsibility_sum)

    def update(self, posterior: LinearPosterior, stats: LinearStats, beta: float) -> LinearPosterior:
        xp = namespace(stats.outer)
        tau = (posterior.shape / posterior.rate)[..., None]
        old = posterior.weights.mean
        scatter = unpack(stats.outer, old.shape[-1])[..., None, :, :]
        linear = stats.moment + xp.matmul(scatter, old[..., None])[..., 0]
        natural = NaturalStats(tau * stats.outer[..., None, :], tau * linear)
        weights = update_weights(posterior.weights, natural, self.prior, beta)
        move = weights.mean - old
        square = stats.square - 2 * xp.sum(move * stats.moment, axis=-1)
        square = square + xp.sum(move * xp.matmul(scatter, move[..., None])[..., 0], axis=-1)
        square = xp.clip(square, min=0.0) + xp.sum(scatter * weights.covariance, axis=(-2, -1))
        shape = beta * (self.noise_prior.shape - 1 + stats.responsibility_sum / 2) + 1
        return LinearPosterior(weights, shape * xp.ones_like(square), beta * (self.noise_prior.rate + square / 2))

    def log_prior(self, posterior: LinearPosterior, beta: float) -> Array:
        weights = weights_log_prior(posterior.weights, self.prior, beta)
        noise = self.noise_prior.bound_terms(posterior.shape, posterior.rate, beta)
        return namespace(posterior.shape).sum(weights + noise, axis=(-2, -1))

    def to_accelerated(self, posterior: LinearPosterior) -> tuple[AcceleratedCoordinates, Array]:
        return to_accelerated(posterior.weights), namespace(posterior.rate).log(posterior.rate)

    def from_accelerated(
        self, coordinates: tuple[AcceleratedCoordinates, Array], posterior: LinearPosterior
    ) -> LinearPosterior:
        weights = from_accelerated(coordinates[0], posterior.weights)
        return LinearPosterior(weights, posterior.shape, exp_clipped(coordinates[1]))

    def point_of(self, posterior: LinearPosterior) -> LinearPoint:
        xp = namespace(posterior.rate)
        # what is at the floor or below comes out just above it
        above_floor = xp.clip(posterior.noise_variance - NOISE_FLOOR, min=1e-3 * NOISE_FLOOR)
        return LinearPoint(posterior.weights.mean, xp.log(above_floor))

    def initial_point(self, weights: Array) -> LinearPoint:
        return LinearPoint(weights, namespace(weights).zeros_like(weights[..., 0]) - 1.0)

    def log_likelihood(self, point: LinearPoint, x: Array, y: Array) -> LinearPointScores:
        xp = namespace(x)
        residual = transpose(y) - params_at_rows(point.weights, x)
        above_floor, variance = _above_floor(point.log_noise)[..., None], point.noise_variance[..., None]
        scaled = residual * residual / variance
        value = -xp.sum(scaled + xp.log(variance) + LOG_2PI, axis=-2) / 2
        return LinearPointScores(value, residual / variance, (scaled - 1) / 2 * above_floor / variance)

    def gradient_sums(self, scores: LinearPointScores, responsibilities: Array, x: Array) -> LinearPoint:
        weight = responsibilities[..., None, :]
        noise = namespace(x).sum(weight * scores.noise_gradient, axis=-1)
        return LinearPoint(weighted_row_sums(weight * scores.gradient, x), noise)

    def point_log_prior(self, point: LinearPoint, ridge: float) -> Array:
        noise = namespace(point.weights).sum(ridge / point.noise_variance, axis=(-2, -1))
        return super().point_log_prior(point, ridge) - noise

    def point_prior_gradient(self, point: LinearPoint, ridge: float) -> LinearPoint:
        variance = point.noise_variance
        return LinearPoint(-ridge * point.weights, ridge * _above_floor(point.log_noise) / variance / variance)

    def predictive_moments(
        self, point: LinearPoint, posterior: LinearPosterior | None, x: Array, outer: Array | None
    ) -> tuple[Array, Array]:
        """Mean and variance (L, O, N) of what each expert says of the outputs, noise included."""
        mean, variance = score_moments(point.weights, None if posterior is None else posterior.weights, x, outer)
        noise = point.noise_variance[..., None] + namespace(x).zeros_like(mean)
        return mean, noise if variance is None else noise + variance

    def log_predictive(
        self, point: LinearPoint, posterior: LinearPosterior | None, x: Array, outer: Array | None, y: Array
    ) -> Array:
        mean, variance = self.predictive_moments(point, posterior, x, outer)
        xp = namespace(mean)
        square = (transpose(y) - mean) ** 2 / variance
        return -xp.sum(square + xp.log(variance) + LOG_2PI, axis=-2) / 2


def _above_floor(log_noise: Array) -> Array:
    xp = namespace(log_noise)
    return xp.exp(xp.clip(log_noise, max=50.0))  # a line search may ask for anything
