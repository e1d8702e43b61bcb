"""Experts that are softmax models over classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, exp_flush_underflow, namespace, one_hot
from latentia.families.building_blocks.expected_softmax import log_expected_softmax
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import (
    AcceleratedCoordinates,
    GaussianWeights,
    NaturalStats,
    from_accelerated,
    posterior_around,
    score_moments,
    score_variance,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.building_blocks.logsumexp_bound import SoftmaxBound, softmax_bound
from latentia.families.experts.expert import Expert


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
