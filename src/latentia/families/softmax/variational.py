r"""Multimodal softmax by variational Bayes (Ahmed & Campbell 2011, section III).

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
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from latentia.arrays.linalg import packed_outer, params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, namespace
from latentia.engine.contracts import AcceleratedFamily
from latentia.engine.rows import MaskedRows, Source
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import (
    AcceleratedCoordinates,
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
from latentia.families.building_blocks.logsumexp_bound import softmax_bound
from latentia.families.softmax.initialization import centroid_restarts
from latentia.families.softmax.subclass_family import SubclassFamily


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

    def infer(self, params: GaussianWeights, rows: MaskedRows, y: Array | None = None) -> SubclassPosterior:
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
