r"""What a softmax tree is made of: weight vectors with their posteriors, and leaves.

**Weights.** A score is :math:`w^T x` of a row with a one appended. Ahmed & Campbell 2011 give all
weight vectors the priors

.. math:: p(w | \alpha) = N(0, \alpha^{-1} I), \quad p(\alpha) = G(a_0, b_0),
    \quad q(w) = N(\mu, \Sigma), \quad q(\alpha) = G(a, b)

with gammas by shape and rate. Rows contribute a quadratic, :math:`-\tfrac12 w^T A w + c^T w`, and
then (eq. 25-29)

.. math:: \Sigma^{-1} = \langle\alpha\rangle I + A, \quad \mu = \Sigma c, \quad a = a_0 + D/2,
    \quad b = b_0 + \tfrac12 (\mu^T\mu + \mathrm{tr}\,\Sigma).

The bound holds :math:`E[\ln\alpha]`, not :math:`\ln E[\alpha]` as eq. 32 prints; only so it never
falls. Annealing (section VI.B) weighs the entropies by :math:`1/\beta`: the posterior's log density
is multiplied by :math:`\beta`.

**Class leaves** say which class a row has that comes to them. They have no parameters: where the
label is known, a row can only have come to the leaves of its class.

**Linear leaves** are the regression model of section VI.B, :math:`y_o | x, l \sim N(w_{lo}^T x,
\tau_{lo}^{-1})` for each output o, with the same prior of weights and :math:`\tau \sim G(e_0,
f_0)`. With :math:`r_n` the posterior probability that row n has come to the leaf,

.. math:: \Sigma^{-1} = \langle\alpha\rangle I + \langle\tau\rangle \sum_n r_n x_n x_n^T,
    \quad e = e_0 + \tfrac12 \sum_n r_n, \quad
    f = f_0 + \tfrac12 \sum_n r_n [(y_n - \mu^T x_n)^2 + x_n^T \Sigma x_n].

Residuals are taken about the current fit, so that they do not cancel. By maximum likelihood the
variance is a floor plus an exponential: a leaf may come to rows that it fits without any residual,
and there the likelihood has no maximum. A ridge does the same for the noise as for the weights: it
is the rate of a gamma prior of shape 1 of the precision, :math:`-\rho / \sigma_l^2`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from array_api_compat import device

from latentia.arrays.linalg import (
    pack,
    params_at_rows,
    spd_inverse,
    symmetric,
    unpack,
    weighted_row_sums,
    with_doubled_offdiagonal,
)
from latentia.arrays.namespace import (
    LOG_2PI,
    Array,
    asarray_like,
    digamma,
    eye_like,
    logsumexp,
    logsumexp_and_softmax,
    namespace,
    transpose,
)
from latentia.engine.tree import Tree
from latentia.families.blocks.bounds import GammaPrior

# Weights


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


def score_moments(weights: Array | GaussianWeights, x: Array, outer: Array | None) -> tuple[Array, Array | None]:
    """Means and variances of scores under a posterior; plain scores of a point."""
    if isinstance(weights, GaussianWeights):
        assert outer is not None  # rows of a posterior come with their products
        return params_at_rows(weights.mean, x), score_variance(weights.covariance, outer)
    return params_at_rows(weights, x), None


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
    covariance, log_det = inverse(unpack(stats.precision, size) + alpha[..., None, None] * eye)
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
    """What plain steps move slowly, without constraints; the covariances follow by themselves."""

    mean: Array  # (..., W, D)
    log_rate: Array  # (..., W)


def to_accelerated(weights: GaussianWeights) -> AcceleratedCoordinates:
    return AcceleratedCoordinates(weights.mean, namespace(weights.rate).log(weights.rate))


def from_accelerated(coordinates: AcceleratedCoordinates, weights: GaussianWeights) -> GaussianWeights:
    """The posteriors moved to other means and rates."""
    return weights._replace(mean=coordinates.mean, rate=exp_clipped(coordinates.log_rate))


def exp_clipped(log_rate: Array) -> Array:
    """Exponentials that stay finite, so that a wild extrapolation can be judged by its value."""
    xp = namespace(log_rate)
    return xp.exp(xp.clip(log_rate, min=-50.0, max=50.0))


# Leaves

#: The point estimate of leaves, their posterior, and its statistics: named tuples of arrays.
P = TypeVar("P", bound=Tree)
Q = TypeVar("Q", bound=Tree)
S = TypeVar("S", bound=Tree)


class GateRows(NamedTuple):
    """Rows at the gates of a level: log probabilities of the branches are scores less log total."""

    scores: Array  # (..., B, b, N)
    log_total: Array | float  # (..., B, N) log-sum-exp of the scores, or a bound of it


class LeafRows(NamedTuple):
    """Rows as they would be at each leaf."""

    value: Array | float  # (..., L, N) log p(y | x, l), or what is expected of it
    slopes: tuple[Array, ...] = ()  # what the kind of leaf needs of the rows to learn


class Leaves(ABC, Generic[P, Q, S]):
    """The leaves of a tree, all of one kind; L of them, as many in each gate of the last level.

    A kind says what a point estimate and what a posterior of its parameters are, and does with
    each what the tree does with its gates. One without parameters has empty tuples in their place.
    """

    #: Classes of y; 1 where y holds numbers.
    n_classes: int
    #: Numbers in a row of y; 0 where y holds classes.
    n_outputs: int
    #: The class of each branch of a gate of the last level, where leaves belong to classes.
    classes: tuple[int, ...] = ()
    #: Scores linear in x that a leaf has.
    n_scores: int
    #: Gain per row below which the posterior under the exact likelihood has converged.
    exact_tol: ClassVar[float] = 1e-5

    def alike(self, width: int) -> tuple[int, ...]:
        """Of a gate with so many branches, how many may take each other's place."""
        return (width,)

    def choose(self, gate: GateRows, rows: LeafRows, y: Array) -> tuple[Array, Array]:
        """`choose_branch` of the last gates, which lead to the leaves."""
        assert not isinstance(rows.value, float)  # leaves of classes choose otherwise
        return choose_branch(gate, rows.value)

    def join_classes(self, log_paths: Array) -> Array:
        """Log probabilities (C, N) of the classes from those of paths (B, b, N) to the leaves."""
        raise TypeError(f"{type(self).__name__} belong to no class")

    @abstractmethod
    def n_free(self, size: int) -> int:
        """Identified parameters of one leaf for rows of `size` entries, the one included."""

    # The point

    @abstractmethod
    def initial_point(self, weights: Array) -> P:
        """A point with these weights (..., L, n_scores, D)."""

    @abstractmethod
    def map_weights(self, point: P, fn: Callable[[Array], Array]) -> P:
        """The point with a function of its weights in their place."""

    @abstractmethod
    def log_likelihood(self, point: P, x: Array, y: Array) -> LeafRows:
        """Rows x (N, D), with the one, at each leaf."""

    @abstractmethod
    def gradient(self, rows: LeafRows, node: Array, share: Array, x: Array) -> P:
        """Gradient of the log likelihood.

        By the weights (..., B, 1, N) with which rows come to the last gates, and the posteriors
        (..., B, b, N) of the branches there.
        """

    @abstractmethod
    def point_log_prior(self, point: P, ridge: float) -> tuple[Array | float, P]:
        """Log prior (...,) with `ridge` as the precision of the weights, and its gradient."""

    # The posterior

    @abstractmethod
    def posterior_around(self, point: P, variance: float) -> Q:
        """A posterior about a point."""

    @abstractmethod
    def point_of(self, posterior: Q) -> P:
        """The point that a posterior stands for: its means."""

    @abstractmethod
    def expected_log_likelihood(self, posterior: Q, x: Array, outer: Array, y: Array) -> LeafRows:
        """The same for a posterior; `outer` (N, P) are products of features."""

    @abstractmethod
    def statistics(self, rows: LeafRows, node: Array, share: Array, x: Array, outer: Array) -> S:
        """Statistics of the rows by the same weights, additive in rows."""

    @abstractmethod
    def update(self, posterior: Q, stats: S, beta: float) -> Q:
        """The posterior given the statistics, at an inverse temperature."""

    @abstractmethod
    def log_prior(self, posterior: Q, beta: float) -> Array | float:
        """Minus the divergence (...,) from the prior; entropies weigh 1 / beta."""

    @abstractmethod
    def to_accelerated(self, posterior: Q) -> tuple[Array, ...]:
        """The unconstrained coordinates that plain steps move slowly."""

    @abstractmethod
    def from_accelerated(self, coordinates: tuple[Array, ...], posterior: Q) -> Q:
        """The posterior at such coordinates; the rest is taken from `posterior`."""

    # Predictions

    @abstractmethod
    def log_density(self, params: P | Q, x: Array, outer: Array | None, y: Array) -> LeafRows:
        """Log densities of y at a point or averaged over a posterior."""

    def predictive_moments(self, params: P | Q, x: Array, outer: Array | None) -> tuple[Array, Array]:
        """Mean and variance (L, O, N) of the outputs at each leaf, noise included."""
        raise TypeError(f"{type(self).__name__} have no outputs")


def split_branches(a: Array, width: int) -> Array:
    """Numbers (..., B b, N) of the branches of several gates as (..., B, b, N)."""
    return namespace(a).reshape(a, (*a.shape[:-2], a.shape[-2] // width, width, a.shape[-1]))


def join_branches(a: Array) -> Array:
    """Back to (..., B b, N)."""
    return namespace(a).reshape(a, (*a.shape[:-3], a.shape[-3] * a.shape[-2], a.shape[-1]))


def choose_branch(gate: GateRows, below: Array) -> tuple[Array, Array]:
    """Log likelihoods (..., B, N) at gates, and posteriors (..., B, b, N) of their branches.

    From the log likelihoods (..., B b, N) below the branches.
    """
    total, share = logsumexp_and_softmax(gate.scores + split_branches(below, gate.scores.shape[-2]), axis=-2)
    return total - gate.log_total, share


@dataclass(frozen=True)
class ClassLeaves(Leaves[tuple[()], tuple[()], tuple[()]]):
    """A class at each leaf; every gate of the last level has branches of the same `classes`."""

    classes: tuple[int, ...]

    n_outputs = 0
    n_scores = 0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return max(self.classes) + 1

    def alike(self, width: int) -> tuple[int, ...]:
        return tuple(np.bincount(self.classes).tolist())

    def choose(self, gate: GateRows, rows: LeafRows, y: Array) -> tuple[Array, Array]:
        """Among the branches of the label's class."""
        xp, scores = namespace(gate.scores), gate.scores
        own = asarray_like(np.array(self.classes), y)[:, None] == y[None, :]
        if len(self.classes) == self.n_classes:  # the label says which branch
            share = xp.astype(own, scores.dtype)
            return xp.sum(share * scores, axis=-2) - gate.log_total, share
        total, share = logsumexp_and_softmax(xp.where(own, scores, xp.full_like(scores, -math.inf)), axis=-2)
        return total - gate.log_total, share

    def join_classes(self, log_paths: Array) -> Array:
        if len(self.classes) == self.n_classes:
            return log_paths[0, ...] if log_paths.shape[0] == 1 else logsumexp(log_paths, axis=0)
        of_class = np.split(np.arange(len(self.classes)), np.flatnonzero(np.diff(self.classes)) + 1)
        parts = [join_branches(log_paths[:, int(own[0]) : int(own[-1]) + 1, :]) for own in of_class]
        return namespace(log_paths).stack([logsumexp(part, axis=0) for part in parts], axis=0)

    def n_free(self, size: int) -> int:
        return 0

    def point_log_prior(self, point: tuple[()], ridge: float) -> tuple[float, tuple[()]]:
        return 0.0, ()

    def log_prior(self, posterior: tuple[()], beta: float) -> float:
        return 0.0

    def _no_parameters(self, *args: object, **kwargs: object) -> tuple[()]:
        return ()

    initial_point = map_weights = gradient = posterior_around = point_of = _no_parameters
    statistics = update = to_accelerated = from_accelerated = _no_parameters

    def _certain(self, *args: object, **kwargs: object) -> LeafRows:
        return LeafRows(0.0)  # what the label excludes, `choose` leaves out

    log_likelihood = expected_log_likelihood = log_density = _certain


#: Smallest variance of the noise, in units of the outputs' variance.
NOISE_FLOOR = 1e-8


class LinearPoint(NamedTuple):
    """Point estimate of linear leaves."""

    weights: Array  # (..., L, O, D)
    log_noise: Array  # (..., L, O) log of the variance above the floor

    @property
    def noise_variance(self) -> Array:
        """Of each leaf's output (..., L, O), in units of the outputs' variance."""
        return NOISE_FLOOR + _above_floor(self.log_noise)


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


class LinearStats(NamedTuple):
    """Moments of the inputs and of the residuals about the current fit."""

    outer: Array  # (..., L, P)
    moment: Array  # (..., L, O, D)
    square: Array  # (..., L, O)
    responsibility_sum: Array  # (..., L, 1)


@dataclass(frozen=True)
class LinearLeaves(Leaves[LinearPoint, LinearPosterior, LinearStats]):
    """Linear models of O outputs, with noise of their own."""

    n_outputs: int
    prior: GammaPrior = field(default_factory=GammaPrior)
    # weak, so that clean outputs get their noise, and with most of its mass at small precisions: a
    # shape of 1 invites leaves to settle on few rows
    noise_prior: GammaPrior = field(default_factory=lambda: GammaPrior(0.1, 5e-6))

    n_classes = 1
    #: Gates between linear leaves of little noise are steep, the bound all but flat in it.
    exact_tol = 1e-6

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        return self.n_outputs

    def n_free(self, size: int) -> int:
        return self.n_outputs * size + self.n_outputs

    def initial_point(self, weights: Array) -> LinearPoint:
        return LinearPoint(weights, namespace(weights).zeros_like(weights[..., 0]) - 1.0)

    def map_weights(self, point: LinearPoint, fn: Callable[[Array], Array]) -> LinearPoint:
        return point._replace(weights=fn(point.weights))

    def log_likelihood(self, point: LinearPoint, x: Array, y: Array) -> LeafRows:
        xp = namespace(x)
        residual = transpose(y) - params_at_rows(point.weights, x)
        above_floor, variance = _above_floor(point.log_noise)[..., None], point.noise_variance[..., None]
        scaled = residual * residual / variance
        value = -xp.sum(scaled + xp.log(variance) + LOG_2PI, axis=-2) / 2
        # in the scores, and in the log noise
        return LeafRows(value, (residual / variance, (scaled - 1) / 2 * above_floor / variance))

    def gradient(self, rows: LeafRows, node: Array, share: Array, x: Array) -> LinearPoint:
        in_scores, in_noise = rows.slopes
        weight = join_branches(node * share)[..., None, :]
        return LinearPoint(weighted_row_sums(weight * in_scores, x), namespace(x).sum(weight * in_noise, axis=-1))

    def point_log_prior(self, point: LinearPoint, ridge: float) -> tuple[Array, LinearPoint]:
        xp, variance = namespace(point.weights), point.noise_variance
        value = -xp.sum(ridge * point.weights**2, axis=(-3, -2, -1)) / 2 - xp.sum(ridge / variance, axis=(-2, -1))
        in_noise = ridge * _above_floor(point.log_noise) / variance / variance
        return value, LinearPoint(-ridge * point.weights, in_noise)

    def posterior_around(self, point: LinearPoint, variance: float) -> LinearPosterior:
        """With a noise variance of a tenth: outputs are standardized."""
        one = namespace(point.weights).ones_like(point.weights[..., 0])
        return LinearPosterior(posterior_around(point.weights, variance, self.prior), one * 2.0, one * 0.2)

    def point_of(self, posterior: LinearPosterior) -> LinearPoint:
        xp = namespace(posterior.rate)
        # what is at the floor or below comes out just above it
        above_floor = xp.clip(posterior.noise_variance - NOISE_FLOOR, min=1e-3 * NOISE_FLOOR)
        return LinearPoint(posterior.weights.mean, xp.log(above_floor))

    def expected_log_likelihood(self, posterior: LinearPosterior, x: Array, outer: Array, y: Array) -> LeafRows:
        xp = namespace(x)
        variance = score_variance(posterior.weights.covariance, outer)
        residual = transpose(y) - params_at_rows(posterior.weights.mean, x)
        log_tau = digamma(posterior.shape) - xp.log(posterior.rate)
        tau = posterior.shape / posterior.rate
        score = log_tau[..., None] - LOG_2PI - tau[..., None] * (residual * residual + variance)
        return LeafRows(xp.sum(score, axis=-2) / 2, (residual,))

    def statistics(self, rows: LeafRows, node: Array, share: Array, x: Array, outer: Array) -> LinearStats:
        xp, (residual,) = namespace(x), rows.slopes
        responsibilities = join_branches(node * share)
        weighted = responsibilities[..., None, :] * residual
        square = xp.sum(weighted * residual, axis=-1)
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

    def to_accelerated(self, posterior: LinearPosterior) -> tuple[Array, ...]:
        return (*to_accelerated(posterior.weights), namespace(posterior.rate).log(posterior.rate))

    def from_accelerated(self, coordinates: tuple[Array, ...], posterior: LinearPosterior) -> LinearPosterior:
        mean, log_rate, log_noise_rate = coordinates
        weights = from_accelerated(AcceleratedCoordinates(mean, log_rate), posterior.weights)
        return LinearPosterior(weights, posterior.shape, exp_clipped(log_noise_rate))

    def predictive_moments(
        self, params: LinearPoint | LinearPosterior, x: Array, outer: Array | None
    ) -> tuple[Array, Array]:
        """Mean and variance (L, O, N) of the outputs at each leaf, noise included."""
        mean, variance = score_moments(params.weights, x, outer)
        point = self.point_of(params) if isinstance(params, LinearPosterior) else params
        noise = point.noise_variance[..., None] + namespace(x).zeros_like(mean)
        return mean, noise if variance is None else noise + variance

    def log_density(self, params: LinearPoint | LinearPosterior, x: Array, outer: Array | None, y: Array) -> LeafRows:
        mean, variance = self.predictive_moments(params, x, outer)
        xp = namespace(mean)
        square = (transpose(y) - mean) ** 2 / variance
        return LeafRows(-xp.sum(square + xp.log(variance) + LOG_2PI, axis=-2) / 2)


def _above_floor(log_noise: Array) -> Array:
    xp = namespace(log_noise)
    return xp.exp(xp.clip(log_noise, max=50.0))  # a line search may ask for anything
