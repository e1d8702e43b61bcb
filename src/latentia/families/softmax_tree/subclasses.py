r"""What both inferences of the multimodal softmax share: classes that are unions of subclasses.

Multimodal softmax by maximum likelihood or MAP.

.. math:: J(w) = \sum_n \ln \sum_{i \in \sigma(d_n)} e^{w_i^T x_n} - \ln \sum_j e^{w_j^T x_n}
    - \tfrac{\rho}{2} \sum_i |w_i|^2

with the gradient :math:`\sum_n (t_{in} - p_{in}) x_n - \rho w_i`, t and p being the subclass
probabilities given the label and without it. With one subclass per class and :math:`\rho = 0` this
is multinomial logistic regression. Adding one vector to all weights changes nothing; the contrasts
are identified.

Multimodal softmax by variational Bayes (Ahmed & Campbell 2011, section III).

A softmax over S subclasses, each of which belongs to one class, :math:`\sigma(d)` being the
subclasses of class d:

.. math::

    P(d | x, w) = \sum_{i \in \sigma(d)} e^{w_i^T x} / \sum_{j=1}^S e^{w_j^T x}, \qquad
    x = (x_1, .., x_M, 1)

with the priors of `gaussian_weights` on every :math:`w_i`. The denominator is bounded by
`logsumexp_bound`, so a row contributes to the bound

.. math:: \ln \sum_{i \in \sigma(d_n)} e^{\mu_i^T x_n} - \langle\Phi_n\rangle

after the subclass posteriors :math:`t_{in}` (eq. 3, 24) were refreshed, which `infer` does. The
parameters are those of q(w) and q(alpha). Slips of the paper that are mended here: eq. 31 has
(S+1)/2 for S/2; eq. 32 needs :math:`E[\ln\alpha]`; the permutation penalty runs over the K classes.

The bound is not tight even at known weights: there it is a product of S logistic models, :math:`\ln
P(i) \ge a_i - \gamma - \sum_j \ln(1 + e^{a_j - \gamma})`. So with many rows the means tend to
weights whose *logistic* probabilities, not whose softmax, are right: for two subclasses the
contrasts come out twice too large. `inference="ml"`, and the corrected weights of the estimator, do
not have this bias.

Initial weights of multimodal softmax models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from latentia.arrays.linalg import packed_outer, params_at_rows, weighted_row_sums
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    exp_flush_underflow,
    logsumexp,
    logsumexp_and_softmax,
    namespace,
    one_hot,
    to_numpy,
)
from latentia.engine.contracts import AcceleratedFamily, ConditionalFamily, SmoothFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.families.blocks.bounds import softmax_bound
from latentia.families.blocks.starts import cluster_restarts, make_example_rows
from latentia.families.blocks.weights import (
    AcceleratedCoordinates,
    GammaPrior,
    GaussianWeights,
    NaturalStats,
    augment,
    from_accelerated,
    posterior_around,
    score_variance,
    to_accelerated,
    update_weights,
    weights_log_prior,
)


@dataclass(frozen=True)
class SubclassFamily(ConditionalFamily):
    """A softmax over subclasses, each of which belongs to one class.

    Parameters
    ----------
    n_subclasses : tuple of int
        Subclasses of each class.
    """

    n_subclasses: tuple[int, ...]

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return len(self.n_subclasses)

    @property
    def class_of_subclass(self) -> np.ndarray:
        """The class (S,) of each subclass."""
        return np.repeat(np.arange(self.n_classes), self.n_subclasses)

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label."""
        return make_example_rows(rng, n_rows, n_features, self.n_classes)

    def given_label(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """Log-sum-exp (..., N) over the label's subclasses, and their posterior (..., S, N)."""
        xp = namespace(scores)
        own = one_hot(y, self.n_classes, scores.dtype)
        if max(self.n_subclasses) == 1:  # the label says which subclass
            return xp.sum(own * scores, axis=-2), own + xp.zeros_like(scores)
        class_of_subclass = asarray_like(self.class_of_subclass, scores, dtype=xp.int64)
        own = xp.take(own, class_of_subclass, axis=0) > 0
        allowed = xp.where(own, scores, xp.full_like(scores, -float("inf")))
        log_sum = logsumexp(allowed, axis=-2)
        return log_sum, exp_flush_underflow(allowed - log_sum[..., None, :])


class SoftmaxWeights(NamedTuple):
    """Weights (..., S, M + 1), the last entry being the bias."""

    weights: Array


class LikelihoodPosterior(NamedTuple):
    """Per-row posterior of the subclasses."""

    log_joint: Array  # (..., 1, N) log p(y | x)
    responsibilities: Array  # (..., S, N) posterior of the subclass given the label
    score_gradient: Array  # (..., S, N) derivative of the log likelihood in each score


@dataclass(frozen=True)
class SoftmaxLikelihood(SubclassFamily, SmoothFamily):
    """Point estimates of a softmax over subclasses; `ridge` is the precision of their prior."""

    ridge: float = 0.0

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[SoftmaxLikelihood]:
        """Small instances for tests."""
        return [cls(tuple(1 + k % 3 for k in range(n_classes)), 0.1), cls((1,) * n_classes, 0.5)]

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> SoftmaxWeights:
        return SoftmaxWeights(mixed_restarts(self.n_subclasses, source, rng, n_restarts))

    def infer(
        self, params: SoftmaxWeights, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> LikelihoodPosterior:
        return self.at_scores(params_at_rows(params.weights, augment(rows.values)), y)

    def at_scores(self, scores: Array, y: Array | None) -> LikelihoodPosterior:
        """The posterior of rows with scores (..., S, N)."""
        log_sum, responsibilities = self.given_label(scores, y)
        log_total, probs = logsumexp_and_softmax(scores + 0.0, axis=-2)  # of a copy, which it overwrites
        return LikelihoodPosterior((log_sum - log_total)[..., None, :], responsibilities, responsibilities - probs)

    def statistics(
        self, params: SoftmaxWeights, rows: MaskedRows, posterior: LikelihoodPosterior, weight: Array
    ) -> SoftmaxWeights:
        """Gradient of the log likelihood in the weights."""
        return SoftmaxWeights(weighted_row_sums(weight * posterior.score_gradient, augment(rows.values)))

    def log_prior(self, params: SoftmaxWeights) -> Array:
        return -namespace(params.weights).sum(self.ridge * params.weights**2, axis=(-2, -1)) / 2

    def floats_per_row(self, params: SoftmaxWeights) -> int:
        return 6 * int(np.prod(params.weights.shape[:-1])) + 2 * params.weights.shape[-1]

    def to_free(self, params: SoftmaxWeights) -> SoftmaxWeights:
        return params

    def from_free(self, free: SoftmaxWeights, params: SoftmaxWeights) -> SoftmaxWeights:
        return SoftmaxWeights(*free)

    def gradient(self, params: SoftmaxWeights, stats: SoftmaxWeights) -> SoftmaxWeights:
        return SoftmaxWeights(stats.weights - self.ridge * params.weights)


class SubclassPosterior(NamedTuple):
    """Per-row posterior of the subclasses, and the quadratic bound at the row."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    responsibilities: Array  # (..., S, N) posterior of the subclass given the label
    curvature: Array  # (..., S, N) of the bound
    slope: Array  # (..., S, N) of the bound
    outer: Array  # (N, P) products of features


@dataclass(frozen=True)
class MultimodalSoftmax(SubclassFamily, AcceleratedFamily):
    """Posterior of a softmax over subclasses.

    Parameters
    ----------
    n_subclasses : tuple of int
        Subclasses of each class.
    prior : GammaPrior
        Of the precisions of the weights.
    beta : float
        Inverse temperature of annealing; 1 is variational Bayes.
    """

    prior: GammaPrior = field(default_factory=GammaPrior)
    beta: float = 1.0

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[MultimodalSoftmax]:
        """Small instances for tests."""
        several = tuple(1 + k % 3 for k in range(n_classes))
        return [cls(several), cls((1,) * n_classes, GammaPrior(2.0, 0.5)), cls(several, beta=0.4)]

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> GaussianWeights:
        """Softmax by distance to centroids in each class (estimators start from likelihood)."""
        return self.posterior_around(centroid_restarts(self.n_subclasses, source, rng, n_restarts), 1.0)

    def posterior_around(self, mean: Array, variance: Array | float) -> GaussianWeights:
        """Parameters about given weights (..., S, D)."""
        return posterior_around(mean, variance, self.prior)

    def infer(
        self, params: GaussianWeights, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> SubclassPosterior:
        x = augment(rows.values)
        outer = packed_outer(x)
        mean = params_at_rows(params.mean, x)
        bound = softmax_bound(mean, score_variance(params.covariance, outer))
        log_sum, responsibilities = self.given_label(self.beta * mean, y)
        value = log_sum / self.beta - bound.value
        return SubclassPosterior(value[..., None, :], responsibilities, bound.curvature, bound.slope, outer)

    def statistics(
        self, params: GaussianWeights, rows: MaskedRows, posterior: SubclassPosterior, weight: Array
    ) -> NaturalStats:
        precision = weighted_row_sums(weight * posterior.curvature, posterior.outer)
        linear = weighted_row_sums(weight * (posterior.responsibilities + posterior.slope), augment(rows.values))
        return NaturalStats(precision, linear)

    def update(self, params: GaussianWeights, stats: NaturalStats) -> GaussianWeights:
        return update_weights(params, stats, self.prior, self.beta, shift_invariant=True)

    def log_prior(self, params: GaussianWeights) -> Array:
        return namespace(params.mean).sum(weights_log_prior(params, self.prior, self.beta), axis=-1)

    def to_accelerated(self, params: GaussianWeights) -> AcceleratedCoordinates:
        """What plain steps move slowly: the means and the log rates."""
        return to_accelerated(params)

    def from_accelerated(self, coordinates: AcceleratedCoordinates, params: GaussianWeights) -> GaussianWeights:
        return from_accelerated(coordinates, params)

    def floats_per_row(self, params: GaussianWeights) -> int:
        size = params.mean.shape[-1]
        n_vectors = int(np.prod(params.mean.shape[:-1]))
        return size * (size + 1) // 2 + 12 * n_vectors


#: Rows of each class that initial weights are made from.
N_INIT_ROWS = 2000


def mixed_restarts(n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_restarts: int) -> Array:
    """Random weights, small and large, and k-means centroids in turn: none is best on all data."""
    centroids = centroid_restarts(n_subclasses, source, rng, n_restarts)
    turn = np.arange(n_restarts) % 3
    noise = rng.normal(size=centroids.shape) * np.where(turn == 1, 1.0, 0.1)[:, None, None]
    use_centroids = asarray_like(turn == 2, centroids)[:, None, None]
    return asarray_like(noise, centroids) * (1 - use_centroids) + centroids * use_centroids


def centroid_restarts(
    n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_restarts: int
) -> Array:
    """Weights (n_restarts, S, D) of a softmax by distance to subclass centroids.

    Scores -|x - c_i|^2 / (2 s^2) are linear up to a common term. The centroids are those of k-means
    within each class, s^2 the mean variance of the clusters' features.
    """
    chunk = source.sample_rows(N_INIT_ROWS, rng)
    x, y = to_numpy(chunk.rows.values).astype(float), to_numpy(chunk.y)
    weight = None if chunk.weight is None else to_numpy(chunk.weight).astype(float)
    center = np.average(x, axis=0, weights=weight)
    total_variance = max(float(np.average((x - center) ** 2, axis=0, weights=weight).mean()), 1e-12)
    clusters = []
    for label, n in enumerate(n_subclasses):
        own = y == label
        clusters.append(cluster_restarts(x[own], n, n_restarts, rng, None if weight is None else weight[own]))
    variance = np.concatenate([variances for _, variances, _ in clusters], axis=1).mean(axis=(1, 2))
    variance = np.maximum(variance, 1e-3 * total_variance)[:, None]
    offset = np.concatenate([means for means, _, _ in clusters], axis=1) - center
    slopes = offset / variance[..., None]
    bias = -(offset**2).sum(axis=2) / (2 * variance) - slopes @ center
    weights = np.concatenate([slopes, bias[..., None]], axis=2)
    return asarray_like(weights - weights.mean(axis=1, keepdims=True), chunk.rows.values)
