r"""Multimodal softmax by maximum likelihood or MAP.

.. math:: J(w) = \sum_n \ln \sum_{i \in \sigma(d_n)} e^{w_i^T x_n} - \ln \sum_j e^{w_j^T x_n}
    - \tfrac{\rho}{2} \sum_i |w_i|^2

with the gradient :math:`\sum_n (t_{in} - p_{in}) x_n - \rho w_i`, t and p being the subclass
probabilities given the label and without it. With one subclass per class and :math:`\rho = 0` this
is multinomial logistic regression. Adding one vector to all weights changes nothing; the contrasts
are identified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, logsumexp_and_softmax, namespace
from latentia.engine.contracts import SmoothFamily
from latentia.engine.rows import MaskedRows, Source
from latentia.families.building_blocks.gaussian_weights import augment
from latentia.families.softmax.initialization import mixed_restarts
from latentia.families.softmax.subclass_family import SubclassFamily


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

    def infer(self, params: SoftmaxWeights, rows: MaskedRows, y: Array | None = None) -> LikelihoodPosterior:
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
