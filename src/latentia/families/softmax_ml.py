r"""Multimodal softmax by maximum likelihood or MAP, and the starts that variational Bayes takes from it.

.. math:: J(w) = \sum_n \ln \sum_{i \in \sigma(d_n)} e^{w_i^T x_n} - \ln \sum_j e^{w_j^T x_n} - \tfrac{\rho}{2} \sum_i |w_i|^2

with the gradient :math:`\sum_n (t_{in} - p_{in}) x_n - \rho w_i`, t and p being the subclass probabilities given the label and without it. With one subclass per class
and :math:`\rho = 0` this is multinomial logistic regression. Adding one vector to all weights changes nothing; the contrasts are identified.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from latentia._arrays import (
    Array,
    like,
    logsumexp,
    namespace,
    one_hot,
    product_over_rows,
    product_with_rows,
    shares,
    to_numpy,
)
from latentia.core import Cells, SmoothFamily, Source
from latentia.families._kmeans import cluster_starts
from latentia.families._weights import augment, complete_rows

#: Rows of each class that starts are made from.
START_ROWS = 2000


class SoftmaxWeights(NamedTuple):
    """Weights (..., S, M + 1), the last entry being the bias."""

    weights: Array


class Slopes(NamedTuple):
    """Gradient of the log likelihood, and the sum of squared lengths of the rows, which bounds its curvature."""

    gradient: Array  # (..., S, D)
    length: Array  # (..., 1, 1)


class LikelihoodPosterior(NamedTuple):
    """What is known of some rows."""

    log_joint: Array  # (..., 1, N) log p(y | x)
    share: Array  # (..., S, N) posterior of the subclass given the label
    slope: Array  # (..., S, N) derivative of the log likelihood in each score


@dataclass(frozen=True)
class SoftmaxLikelihood(SmoothFamily):
    """Point estimates of a softmax over subclasses; `ridge` is the precision of a Gaussian prior, one for all or (S,)."""

    conditional: ClassVar[bool] = True
    n_subclasses: tuple[int, ...]
    ridge: Any = 0.0
    n_classes: int = field(init=False)
    # a conditional family is never cut by class
    params_class_axes: Any = field(default=None, init=False, repr=False)
    stats_class_axes: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_classes", len(self.n_subclasses))

    @property
    def owner(self) -> np.ndarray:
        """The class of each subclass."""
        return np.repeat(np.arange(self.n_classes), self.n_subclasses)

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[SoftmaxLikelihood]:
        """Small instances for tests."""
        return [cls(tuple(1 + k % 3 for k in range(n_classes)), 0.1), cls((1,) * n_classes, 0.5)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label."""
        return complete_rows(rng, n_rows, n_features, self.n_classes)

    def init(self, source: Source, rng: np.random.Generator, n_starts: int) -> SoftmaxWeights:
        return SoftmaxWeights(mixed_starts(self.n_subclasses, source, rng, n_starts))

    def infer(self, params: SoftmaxWeights, cells: Cells, y: Array | None = None) -> LikelihoodPosterior:
        return self.at_scores(product_with_rows(params.weights, augment(cells.values)), y)

    def at_scores(self, scores: Array, y: Array | None) -> LikelihoodPosterior:
        """What is known of rows with scores (..., S, N)."""
        xp = namespace(scores)
        mine = xp.take(one_hot(y, self.n_classes, scores.dtype), like(self.owner, scores, dtype=xp.int64), axis=0) > 0
        allowed = xp.where(mine, scores, xp.full_like(scores, -float("inf")))
        own, every = logsumexp(allowed, axis=-2), logsumexp(scores, axis=-2)
        share = shares(allowed - own[..., None, :])
        slope = share - shares(scores - every[..., None, :])
        return LikelihoodPosterior((own - every)[..., None, :], share, slope)

    def statistics(self, params: SoftmaxWeights, cells: Cells, posterior: LikelihoodPosterior, weight: Array) -> Slopes:
        x = augment(cells.values)
        xp = namespace(x)
        length = xp.sum(weight * xp.sum(x * x, axis=1), axis=-1, keepdims=True)
        return Slopes(product_over_rows(weight * posterior.slope, x), length)

    def update(self, params: SoftmaxWeights, stats: Slopes) -> SoftmaxWeights:
        """A gradient step of the length that Boehning's bound on the curvature, 1/2 sum |x|^2, allows."""
        step = self.gradient(params, stats).weights / (stats.length / 2 + ridge_of(self.ridge, params.weights))
        return SoftmaxWeights(params.weights + step)

    def log_prior(self, params: SoftmaxWeights) -> Array:
        xp = namespace(params.weights)
        return -xp.sum(ridge_of(self.ridge, params.weights) * params.weights**2, axis=(-2, -1)) / 2

    def row_size(self, params: SoftmaxWeights) -> int:
        return 6 * int(np.prod(params.weights.shape[:-1])) + 2 * params.weights.shape[-1]

    def to_free(self, params: SoftmaxWeights) -> SoftmaxWeights:
        return params

    def from_free(self, free: SoftmaxWeights, params: SoftmaxWeights) -> SoftmaxWeights:
        return SoftmaxWeights(*free)

    def gradient(self, params: SoftmaxWeights, stats: Slopes) -> SoftmaxWeights:
        return SoftmaxWeights(stats.gradient - ridge_of(self.ridge, params.weights) * params.weights)


def ridge_of(ridge: Any, weights: Array) -> Array:
    """A precision for all weights, or one for each vector (..., W), beside weights (..., W, D)."""
    return like(ridge, weights) if np.ndim(ridge) == 0 else ridge[..., None]


def mixed_starts(n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_starts: int) -> Array:
    """Random weights, small and large, and k-means centroids in turn: none is best on all data."""
    centroids = centroid_starts(n_subclasses, source, rng, n_starts)
    turn = np.arange(n_starts) % 3
    noise = rng.normal(size=centroids.shape) * np.where(turn == 1, 1.0, 0.1)[:, None, None]
    use_centroids = like(turn == 2, centroids)[:, None, None]
    return like(noise, centroids) * (1 - use_centroids) + centroids * use_centroids


def centroid_starts(n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_starts: int) -> Array:
    """Weights (n_starts, S, D) of a softmax by distance to subclass centroids.

    Scores -|x - c_i|^2 / (2 s^2) are linear up to a common term. The centroids are those of k-means within each class, s^2 the mean variance of the
    clusters' features.
    """
    block = source.head(START_ROWS, rng)
    x, y = to_numpy(block.cells.values).astype(float), to_numpy(block.y)
    centre, total = x.mean(axis=0), max(float(x.var(axis=0).mean()), 1e-12)
    parts = [cluster_starts(x[y == label], n, n_starts, rng) for label, n in enumerate(n_subclasses)]
    spread = np.concatenate([variance for _, variance, _ in parts], axis=1).mean(axis=(1, 2))
    spread = np.maximum(spread, 1e-3 * total)[:, None]
    offset = np.concatenate([mean for mean, _, _ in parts], axis=1) - centre
    slopes = offset / spread[..., None]
    bias = -(offset**2).sum(axis=2) / (2 * spread) - slopes @ centre
    weights = np.concatenate([slopes, bias[..., None]], axis=2)
    return like(weights - weights.mean(axis=1, keepdims=True), block.cells.values)
