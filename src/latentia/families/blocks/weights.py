r"""Gaussian posteriors over weight vectors with gamma hyper-priors, for gates and experts.

.. math:: p(w | \alpha) = N(0, \alpha^{-1} I), \quad p(\alpha) = G(a_0, b_0),
    \quad q(w) = N(\mu, \Sigma), \quad q(\alpha) = G(a, b)

with gammas by shape and rate. Rows contribute a quadratic, :math:`-\tfrac12 w^T A w + c^T w`, and
then (eq. 25-29 of Ahmed & Campbell 2011)

.. math:: \Sigma^{-1} = \langle\alpha\rangle I + A, \quad \mu = \Sigma c, \quad a = a_0 + D/2,
    \quad b = b_0 + \tfrac12 (\mu^T\mu + \mathrm{tr}\,\Sigma).

The bound holds :math:`E[\ln\alpha]`, not :math:`\ln E[\alpha]` as eq. 32 prints; only so it never
falls. Annealing (section VI.B) weighs the entropies by :math:`1/\beta`: the posterior's log density
is multiplied by :math:`\beta`.

Gamma priors of precisions, and what they add to a variational bound.

A precision :math:`\alpha` of normal entries e has the prior :math:`G(a_0, b_0)`, by shape and rate,
and the posterior :math:`q(\alpha) = G(a, b)`. Its terms of the bound are

.. math:: E[\ln p(e | \alpha)] + E[\ln p(\alpha)] - E[\ln q(\alpha)]

with :math:`E[\alpha] = a / b` and :math:`E[\ln\alpha] = \psi(a) - \ln b`. With annealing at the
inverse temperature :math:`\beta` the entropy counts :math:`1 / \beta` times, and :math:`a = \beta
(a_0 - 1 + n / 2) + 1` for n entries.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from array_api_compat import device
from scipy import special as scalars

from latentia.arrays.linalg import pack, params_at_rows, spd_inverse, symmetric, unpack, with_doubled_offdiagonal
from latentia.arrays.namespace import Array, digamma, eye_like, log_gamma, namespace


class GaussianWeights(NamedTuple):
    """Posteriors of weight vectors; W stands for any axes that count vectors."""

    mean: Array  # (..., W, D)
    covariance: Array  # (..., W, D, D)
    log_det: Array  # (..., W) log determinant of the covariance
    rate: Array  # (..., W) of the gamma posterior of the precision


class NaturalStats(NamedTuple):
    """What rows add to the log posterior of weights, -w'Aw/2 + c'w."""

    precision: Array  # (..., W, D(D+1)/2) the upper triangle of A, row by row
    linear: Array  # (..., W, D) c


def augment(x: Array) -> Array:
    """Rows with a one appended."""
    xp = namespace(x)
    return xp.concat([x, xp.ones((x.shape[0], 1), dtype=x.dtype, device=device(x))], axis=1)


def score_variance(covariance: Array, outer: Array) -> Array:
    """Variances (..., W, N) of the scores, x' Sigma x; `outer` is the rows' `packed_outer`."""
    variance = params_at_rows(with_doubled_offdiagonal(pack(covariance), covariance.shape[-1]), outer)
    # rounding may leave a tiny negative value when a row lies far from zero
    return namespace(covariance).clip(variance, min=0.0)


def score_moments(
    point: Array, posterior: GaussianWeights | None, x: Array, outer: Array | None
) -> tuple[Array, Array | None]:
    """Means and variances of scores under a posterior; plain scores of a point without one."""
    if posterior is None or outer is None:
        return params_at_rows(point, x), None
    return params_at_rows(posterior.mean, x), score_variance(posterior.covariance, outer)


def posterior_around(mean: Array, variance: Array | float, prior: GammaPrior) -> GaussianWeights:
    """Posteriors of spherical covariance about given means."""
    xp = namespace(mean)
    size = mean.shape[-1]
    variances = xp.ones_like(mean[..., 0]) * variance
    rate = prior.rate + (xp.sum(mean * mean, axis=-1) + size * variances) / 2
    return GaussianWeights(mean, variances[..., None, None] * eye_like(size, mean), size * xp.log(variances), rate)


def update_weights(
    weights: GaussianWeights, stats: NaturalStats, prior: GammaPrior, beta: float = 1.0, shift_invariant: bool = False
) -> GaussianWeights:
    """The posterior given what the rows say: first the weights, then their precision.

    Where the likelihood is `shift_invariant`, adding one vector to the means along the axis before
    the features changes nothing (a softmax): they are moved to the mode of the prior, which plain
    steps approach slowly.
    """
    xp = namespace(weights.mean)
    size = weights.mean.shape[-1]
    alpha = prior.precision(weights.rate, size, beta)
    eye = eye_like(size, weights.mean)
    precision = unpack(stats.precision, size) + alpha[..., None, None] * eye
    covariance, log_det = inverse(precision)
    mean = xp.matmul(covariance, stats.linear[..., None])[..., 0]
    if shift_invariant:
        mean = mean - weighted_mean(mean, alpha)
    covariance, log_det = covariance / beta, log_det - size * math.log(beta)
    square = xp.sum(mean * mean, axis=-1) + xp.linalg.trace(covariance)
    return GaussianWeights(mean, covariance, log_det, beta * (prior.rate + square / 2))


def weighted_mean(vectors: Array, weight: Array) -> Array:
    """Mean (..., 1, D) of vectors (..., W, D) by weights (..., W)."""
    xp = namespace(vectors)
    weight = weight[..., None]
    return xp.sum(weight * vectors, axis=-2, keepdims=True) / xp.sum(weight, axis=-2, keepdims=True)


def inverse(matrix: Array) -> tuple[Array, Array]:
    """Inverses of positive definite matrices (..., D, D), and log determinants of the inverses."""
    xp = namespace(matrix)
    size = matrix.shape[-1]
    # scaled to a unit diagonal: columns of very different sizes would break the factorization
    scale = xp.sqrt(xp.linalg.diagonal(matrix))
    units = scale[..., :, None] * scale[..., None, :]
    jitter = 4 * size * xp.finfo(matrix.dtype).eps
    scaled, log_det = spd_inverse(matrix / units + jitter * eye_like(size, matrix))
    return symmetric(scaled) / units, -log_det - 2 * xp.sum(xp.log(scale), axis=-1)


def weights_log_prior(weights: GaussianWeights, prior: GammaPrior, beta: float = 1.0) -> Array:
    """Minus the divergence of each posterior from its prior, (..., W); entropies weigh 1 / beta."""
    xp = namespace(weights.mean)
    size = weights.mean.shape[-1]
    square = xp.sum(weights.mean * weights.mean, axis=-1) + xp.linalg.trace(weights.covariance)
    entropy = weights.log_det / 2 + size / 2  # less D/2 ln 2 pi, which cancels at beta = 1 only
    constant = size / 2 * math.log(2 * math.pi) * (1 / beta - 1)
    return prior.log_prior(weights.rate, size, square, beta) + entropy / beta + constant


class AcceleratedCoordinates(NamedTuple):
    """What the plain steps move slowly, without constraints."""

    mean: Array  # (..., W, D)
    log_rate: Array  # (..., W)


def to_accelerated(weights: GaussianWeights) -> AcceleratedCoordinates:
    """The means and log rates; the covariances follow by themselves."""
    return AcceleratedCoordinates(weights.mean, namespace(weights.rate).log(weights.rate))


def from_accelerated(coordinates: AcceleratedCoordinates, weights: GaussianWeights) -> GaussianWeights:
    """The posteriors moved to other means and rates."""
    return weights._replace(mean=coordinates.mean, rate=exp_clipped(coordinates.log_rate))


def exp_clipped(log_rate: Array) -> Array:
    """Exponentials that stay finite, so that a wild extrapolation can be judged by its value."""
    xp = namespace(log_rate)
    return xp.exp(xp.clip(log_rate, min=-50.0, max=50.0))


class GammaPrior(NamedTuple):
    """A gamma density by shape and rate."""

    shape: float = 1.0
    rate: float = 1.0

    def posterior_shape(self, count: int, beta: float = 1.0) -> float:
        """Shape of the posterior of the precision of `count` entries."""
        return beta * (self.shape - 1 + count / 2) + 1

    def precision(self, rate: Array, count: int, beta: float = 1.0) -> Array:
        """Posterior mean of the precisions of groups of `count` entries."""
        return self.posterior_shape(count, beta) / rate

    def log_prior(self, rate: Array, count: int, square: Array, beta: float = 1.0) -> Array:
        """Bound terms of each group of `count` entries, without log 2 pi.

        `rate` is that of the posterior, `square` the sum of E[e^2] over the group.
        """
        return self.bound_terms(self.posterior_shape(count, beta), rate, beta, count, square)

    def bound_terms(
        self, shape: Array | float, rate: Array, beta: float = 1.0, count: int = 0, square: Array | float = 0.0
    ) -> Array:
        """The same for any shape, a number or an array; without entries, of the precision alone."""
        xp = namespace(rate)
        digamma, log_gamma = _digamma_and_log_gamma(shape)
        # the mean of the log, where the appendix of Gönen's paper has the log of the mean
        mean, log_mean = shape / rate, digamma - xp.log(rate)
        constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        expected = constant + (self.shape - 1 + count / 2) * log_mean - mean * (self.rate + square / 2)
        entropy = shape - xp.log(rate) + (log_gamma + (1 - shape) * digamma)
        return expected + entropy / beta


def _digamma_and_log_gamma(shape: Array | float) -> tuple[Array | float, Array | float]:
    if isinstance(shape, float):  # in double precision, whatever the arrays are in
        return float(scalars.digamma(shape)), math.lgamma(shape)
    return digamma(shape), log_gamma(shape)
