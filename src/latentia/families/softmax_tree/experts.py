r"""What an expert is, for every inference: the one contract that a new kind of expert fulfills.

L experts of one kind are L models p(y | x, g), each with K scores linear in x (with a one
appended). Arrays of weights are (..., L, K, D), responsibilities of the experts (..., L, N). A kind
of expert says

- by variational Bayes, what the posterior of its parameters is and how it is updated
  (`posterior_around`, `infer`, `statistics`, `update`, `log_prior`, and the coordinates of
  acceleration);
- by maximum likelihood, what a point estimate is, its likelihood, gradient and prior
  (`initial_point`, `log_likelihood`, `gradient_sums`, `point_log_prior`, `point_prior_gradient`);
- what of its posterior is still a bound, to be refined under the exact likelihood
  (`softmax_posteriors` and what follows it); nothing, by default;
- what it predicts (`log_predictive`).

`families/experts` and the estimators ask nothing else of it.

Experts that are softmax models over classes.

Experts that are linear in x with Gaussian noise, for continuous outputs.

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

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from latentia.arrays.linalg import params_at_rows, unpack, weighted_row_sums
from latentia.arrays.namespace import LOG_2PI, Array, digamma, exp_flush_underflow, namespace, one_hot, transpose
from latentia.engine.tree import Tree, tree_map
from latentia.families.blocks.bounds import SoftmaxBound, log_expected_softmax, softmax_bound
from latentia.families.blocks.starts import make_example_rows
from latentia.families.blocks.weights import (
    AcceleratedCoordinates,
    GammaPrior,
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


class ExpertPoint(Protocol):
    """A point estimate: a named tuple of arrays, of which the first holds the weights."""

    @property
    def weights(self) -> Array: ...  # (..., L, K, D)


class BoundScores(Protocol):
    """Rows under the posterior of the experts."""

    @property
    def score(self) -> Array: ...  # (..., L, N) E log p(y | x, g), or a bound of it


class PointScores(Protocol):
    """Rows under point estimates of the experts."""

    @property
    def value(self) -> Array: ...  # (..., L, N) log p(y | x, g)


E = TypeVar("E", bound="Expert")


class Expert(ABC):
    """A kind of expert."""

    #: Scores linear in x that each expert has.
    n_scores: int
    #: Classes of y; 1 where y holds numbers.
    n_classes: int
    #: Numbers in a row of y; 0 where y holds classes.
    n_outputs: int
    #: Gain per row below which the posterior under the exact likelihood has converged.
    exact_posterior_tol: float = 1e-5
    #: Whether `infer` bounds the likelihood, and `softmax_posteriors` are all that it has found.
    is_bounded: bool = False

    @abstractmethod
    def n_free(self, size: int) -> int:
        """Identified parameters of one expert for rows of `size` entries, the one included."""

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows for tests, every one with a label or outputs."""
        return make_example_rows(rng, n_rows, n_features, self.n_classes, self.n_outputs)

    # Variational Bayes

    @abstractmethod
    def posterior_around(self, weights: Array, variance: float) -> Any:
        """Posteriors about given weights (..., L, K, D)."""

    @abstractmethod
    def infer(self, posterior: Any, x: Array, outer: Array, y: Array) -> Any:
        """`BoundScores` of rows x (N, D) with their products `outer` (N, P)."""

    @abstractmethod
    def statistics(self, scores: Any, responsibilities: Array, x: Array, outer: Array) -> Tree:
        """Statistics of the rows by (weighted) responsibilities, additive in rows."""

    @abstractmethod
    def update(self, posterior: Any, stats: Tree, beta: float) -> Any:
        """The posterior given the statistics, at an inverse temperature."""

    @abstractmethod
    def log_prior(self, posterior: Any, beta: float) -> Array:
        """Minus the divergence (...,) from the prior; entropies weigh 1 / beta."""

    @abstractmethod
    def to_accelerated(self, posterior: Any) -> Tree:
        """The unconstrained coordinates that plain steps move slowly."""

    @abstractmethod
    def from_accelerated(self, coordinates: Tree, posterior: Any) -> Any:
        """The posterior at such coordinates; the rest is taken from `posterior`."""

    @abstractmethod
    def point_of(self, posterior: Any) -> Any:
        """The point estimate that a posterior stands for: its means."""

    # Maximum likelihood

    @abstractmethod
    def initial_point(self, weights: Array) -> Any:
        """An `ExpertPoint` with these weights."""

    @abstractmethod
    def log_likelihood(self, point: Any, x: Array, y: Array) -> Any:
        """`PointScores` of rows."""

    @abstractmethod
    def gradient_sums(self, scores: Any, responsibilities: Array, x: Array) -> Any:
        """Gradient of the log likelihood by (weighted) responsibilities; a tree like the point."""

    def point_log_prior(self, point: Any, ridge: float) -> Array:
        """Log prior (...,) with `ridge` as the precision of the weights."""
        return -namespace(point.weights).sum(ridge * point.weights**2, axis=(-3, -2, -1)) / 2

    def point_prior_gradient(self, point: Any, ridge: float) -> Any:
        """Its gradient, a tree like the point."""
        zeros = tree_map(lambda a: namespace(a).zeros_like(a), point)
        return zeros._replace(weights=-ridge * point.weights)

    def equivalent_points(self, point: Any) -> list[Any]:
        """Points equal in likelihood, and perhaps not in prior, to try where a model is convex."""
        return [point]

    # The posterior under the exact likelihood

    def softmax_posteriors(self, posterior: Any) -> tuple[GaussianWeights, ...]:
        """Posteriors of softmax weights that `infer` only bounds; none where it is exact."""
        return ()

    def with_softmax_posteriors(self, posterior: Any, refined: tuple[GaussianWeights, ...]) -> Any:
        """The posterior with others in their place."""
        return posterior

    def log_likelihood_at(
        self, posterior: Any, scores: tuple[Array, ...], x: Array, outer: Array, y: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        """Log likelihoods (..., L, N) at scores of the `softmax_posteriors`, and derivatives."""
        return self.infer(posterior, x, outer, y).score, ()

    def fixed_log_prior(self, posterior: Any) -> Array | float:
        """Log prior (...,) of what is in none of the `softmax_posteriors`."""
        return self.log_prior(posterior, 1.0)

    # Predictions

    @abstractmethod
    def log_predictive(self, point: Any, posterior: Any | None, x: Array, outer: Array | None, y: Array) -> Array:
        """Log probabilities or densities (L, N) of y, averaged over a posterior or at the point."""


class SoftmaxBoundScores(NamedTuple):
    """Rows under the posterior of softmax experts."""

    score: Array  # (..., L, N) bound of E log p(y | x, g)
    own: Array  # (K, N) indicators of the labels
    bound: SoftmaxBound


class SoftmaxPoint(NamedTuple):
    """Point estimate of softmax experts."""

    weights: Array  # (..., L, K, D)


class SoftmaxPointScores(NamedTuple):
    """Rows under point estimates of softmax experts."""

    value: Array  # (..., L, N) log p(y | x, g)
    gradient: Array  # (..., L, K, N) derivative of it in the scores


@dataclass(frozen=True)
class SoftmaxExpert(Expert):
    """Softmax models over K classes; their posterior is that of the weights (..., L, K, D)."""

    n_classes: int
    prior: GammaPrior = field(default_factory=GammaPrior)

    n_outputs = 0
    is_bounded = True

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        return self.n_classes

    def n_free(self, size: int) -> int:
        return (self.n_classes - 1) * size

    def posterior_around(self, weights: Array, variance: float) -> GaussianWeights:
        return posterior_around(weights, variance, self.prior)

    def infer(self, posterior: GaussianWeights, x: Array, outer: Array, y: Array) -> SoftmaxBoundScores:
        mean = params_at_rows(posterior.mean, x)
        bound = softmax_bound(mean, score_variance(posterior.covariance, outer))
        own = one_hot(y, self.n_classes, x.dtype)
        return SoftmaxBoundScores(namespace(x).sum(own * mean, axis=-2) - bound.value, own, bound)

    def statistics(self, scores: SoftmaxBoundScores, responsibilities: Array, x: Array, outer: Array) -> NaturalStats:
        weight = responsibilities[..., None, :]
        precision = weighted_row_sums(weight * scores.bound.curvature, outer)
        return NaturalStats(precision, weighted_row_sums(weight * (scores.own + scores.bound.slope), x))

    def update(self, posterior: GaussianWeights, stats: NaturalStats, beta: float) -> GaussianWeights:
        return update_weights(posterior, stats, self.prior, beta, shift_invariant=True)

    def log_prior(self, posterior: GaussianWeights, beta: float) -> Array:
        return namespace(posterior.mean).sum(weights_log_prior(posterior, self.prior, beta), axis=(-2, -1))

    def to_accelerated(self, posterior: GaussianWeights) -> AcceleratedCoordinates:
        return to_accelerated(posterior)

    def from_accelerated(self, coordinates: AcceleratedCoordinates, posterior: GaussianWeights) -> GaussianWeights:
        return from_accelerated(coordinates, posterior)

    def point_of(self, posterior: GaussianWeights) -> SoftmaxPoint:
        return SoftmaxPoint(posterior.mean)

    def initial_point(self, weights: Array) -> SoftmaxPoint:
        return SoftmaxPoint(weights)

    def log_likelihood(self, point: SoftmaxPoint, x: Array, y: Array) -> SoftmaxPointScores:
        return self._at_scores(params_at_rows(point.weights, x), y)

    def _at_scores(self, scores: Array, y: Array) -> SoftmaxPointScores:
        xp = namespace(scores)
        below_top = scores - xp.max(scores, axis=-2, keepdims=True)
        probs = exp_flush_underflow(below_top)
        total = xp.sum(probs, axis=-2, keepdims=True)
        own = one_hot(y, self.n_classes, scores.dtype)
        value = xp.sum(own * below_top, axis=-2) - xp.log(total[..., 0, :])
        return SoftmaxPointScores(value, own - probs / total)

    def gradient_sums(self, scores: SoftmaxPointScores, responsibilities: Array, x: Array) -> SoftmaxPoint:
        return SoftmaxPoint(weighted_row_sums(responsibilities[..., None, :] * scores.gradient, x))

    def equivalent_points(self, point: SoftmaxPoint) -> list[SoftmaxPoint]:
        """The same model with each class in turn at zero, where the prior likes to have one."""
        w = point.weights
        return [point, *(SoftmaxPoint(w - w[..., k : k + 1, :]) for k in range(w.shape[-2]))]

    def softmax_posteriors(self, posterior: GaussianWeights) -> tuple[GaussianWeights, ...]:
        return (posterior,)

    def with_softmax_posteriors(
        self, posterior: GaussianWeights, refined: tuple[GaussianWeights, ...]
    ) -> GaussianWeights:
        return refined[0]

    def log_likelihood_at(
        self, posterior: GaussianWeights, scores: tuple[Array, ...], x: Array, outer: Array, y: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        at_scores = self._at_scores(scores[0], y)
        return at_scores.value, (at_scores.gradient,)

    def fixed_log_prior(self, posterior: GaussianWeights) -> float:
        return 0.0

    def log_proba(self, point: SoftmaxPoint, posterior: GaussianWeights | None, x: Array, outer: Array | None) -> Array:
        """Log probabilities (L, K, N) of the classes, averaged over a posterior or at the point."""
        return log_expected_softmax(*score_moments(point.weights, posterior, x, outer))

    def log_predictive(
        self, point: SoftmaxPoint, posterior: GaussianWeights | None, x: Array, outer: Array | None, y: Array
    ) -> Array:
        log_proba = self.log_proba(point, posterior, x, outer)
        xp = namespace(log_proba)
        own = one_hot(y, self.n_classes, log_proba.dtype) > 0
        return xp.sum(xp.where(own, log_proba, xp.zeros_like(log_proba)), axis=-2)


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
