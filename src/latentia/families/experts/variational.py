r"""Mixtures of experts by variational Bayes (Ahmed & Campbell 2011, section IV).

.. math::

    p(y | x) = \sum_g P(g | x, u)\, p(y | x, g), \qquad
    P(g | x, u) = e^{u_g^T x} / \sum_h e^{u_h^T x}

Gates are softmax models; with depth 2 every branch of the first gate leads to a gate of its own
(section VI.B). What the experts are is said by an `Expert`. Every softmax is replaced by its
quadratic bound (`logsumexp_bound`), so with :math:`\langle\cdot\rangle` for expectations

.. math:: \ln p(y_n | x_n) \ge
    \ln \sum_g \exp\{\mu_g^T x_n - \langle\Phi^0_n\rangle + \langle \ln p(y_n | x_n, g)\rangle\},

the posterior of the expert :math:`t_{gn}` being the normalized summand (eq. 48, 53). Statistics of
an expert are weighted by :math:`t_{gn}`, those of a deeper gate by the probability of reaching it.
Slips mended: the left sides of eq. 49 and 51 are precisions; a = a0 + (M+1)/2 in eq. 54 and 55; eq.
58 reads :math:`\langle t_{gn}\rangle` and :math:`\mu_{gc}`, and needs :math:`E[\ln\alpha]`; q(D) of
eq. 41 is not needed. A gate with one branch has no parameters that matter and no divergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.linalg import packed_outer, params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, exp_flush_underflow, logsumexp, namespace
from latentia.engine.contracts import AcceleratedFamily, ConditionalFamily
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
from latentia.families.building_blocks.logsumexp_bound import SoftmaxBound, softmax_bound
from latentia.families.experts.expert import Expert
from latentia.families.experts.gating_tree import gate_responsibilities, path_scores, random_weights
from latentia.families.experts.linear_gaussian_expert import LinearGaussianExpert
from latentia.families.experts.softmax_expert import SoftmaxExpert


class ExpertsPosterior(NamedTuple):
    """Posteriors of all weights."""

    gates: tuple[GaussianWeights, ...]  # of one level each: (..., B, b, D)
    experts: Any  # as the kind of expert has it


class ExpertsStats(NamedTuple):
    """What rows say about all weights."""

    gates: tuple[NaturalStats, ...]
    experts: Any


class ExpertsCoordinates(NamedTuple):
    """What plain steps move slowly."""

    gates: tuple[AcceleratedCoordinates, ...]
    experts: Any


class RowPosterior(NamedTuple):
    """Per-row posterior of the expert, and the bounds at the row."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    responsibilities: Array  # (..., L, N) posterior of the expert
    gates: tuple[SoftmaxBound, ...]
    experts: Any  # scores of the rows under the experts
    x: Array  # (N, D) with the one
    outer: Array  # (N, P) products of features


@dataclass(frozen=True)
class Experts(ConditionalFamily, AcceleratedFamily):
    """Posterior of a mixture of experts.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level; their product is the number of experts.
    expert : Expert
        What an expert is.
    prior : GammaPrior
        Of the precisions of the gates' weights.
    beta : float
        Inverse temperature of annealing; 1 is variational Bayes.
    """

    branches: tuple[int, ...]
    expert: Expert
    prior: GammaPrior = field(default_factory=GammaPrior)
    beta: float = 1.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.expert.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Experts]:
        """Small instances for tests: flat, one expert, annealed, trees."""
        softmax, linear = SoftmaxExpert(n_classes), LinearGaussianExpert(2)
        flat = [cls((2,), softmax), cls((1,), softmax), cls((3,), linear, beta=0.5)]
        return [*flat, cls((2, 3), softmax, GammaPrior(2.0, 0.5)), cls((2, 2), linear)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        return self.expert.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExpertsPosterior:
        """Small random weights (the estimators start from maximum likelihood)."""
        x = source.sample_rows(1, rng).rows.values
        scale = np.full(n_restarts, 0.3)
        return self.posterior_around(*random_weights(self.branches, self.expert.n_scores, x, rng, scale), 0.3)

    def posterior_around(self, gates: tuple[Array, ...], experts: Array, variance: float) -> ExpertsPosterior:
        """Parameters about given gate weights (..., B, b, D) and expert weights (..., L, K, D)."""
        gate_posteriors = tuple(posterior_around(gate, variance, self.prior) for gate in gates)
        return ExpertsPosterior(gate_posteriors, self.expert.posterior_around(experts, variance))

    def infer(self, params: ExpertsPosterior, rows: MaskedRows, y: Array | None = None) -> RowPosterior:
        x = augment(rows.values)
        outer = packed_outer(x)
        bounds, log_gates = [], []
        for gate in params.gates:
            mean = params_at_rows(gate.mean, x)
            bound = softmax_bound(mean, score_variance(gate.covariance, outer))
            bounds.append(bound)
            log_gates.append(mean - bound.value[..., None, :])
        experts = self.expert.infer(params.experts, x, outer, y)
        scores = self.beta * (path_scores(log_gates) + experts.score)
        value = logsumexp(scores, axis=-2)
        responsibilities = exp_flush_underflow(scores - value[..., None, :])
        return RowPosterior(value[..., None, :] / self.beta, responsibilities, tuple(bounds), experts, x, outer)

    def statistics(
        self, params: ExpertsPosterior, rows: MaskedRows, posterior: RowPosterior, weight: Array
    ) -> ExpertsStats:
        responsibilities = weight * posterior.responsibilities
        gates = []
        for bound, level in zip(posterior.gates, gate_responsibilities(responsibilities, self.branches), strict=True):
            precision = weighted_row_sums(level.node * bound.curvature, posterior.outer)
            linear = weighted_row_sums(level.branch + level.node * bound.slope, posterior.x)
            gates.append(NaturalStats(precision, linear))
        experts = self.expert.statistics(posterior.experts, responsibilities, posterior.x, posterior.outer)
        return ExpertsStats(tuple(gates), experts)

    def update(self, params: ExpertsPosterior, stats: ExpertsStats) -> ExpertsPosterior:
        gates = tuple(
            update_weights(gate, rows, self.prior, self.beta, shift_invariant=True) if gate.mean.shape[-2] > 1 else gate
            for gate, rows in zip(params.gates, stats.gates, strict=True)
        )
        return ExpertsPosterior(gates, self.expert.update(params.experts, stats.experts, self.beta))

    def log_prior(self, params: ExpertsPosterior) -> Array:
        xp = namespace(params.gates[0].mean)
        total = self.expert.log_prior(params.experts, self.beta)
        for gate in params.gates:
            if gate.mean.shape[-2] > 1:
                total = total + xp.sum(weights_log_prior(gate, self.prior, self.beta), axis=(-2, -1))
        return total

    def floats_per_row(self, params: ExpertsPosterior) -> int:
        root = params.gates[0].mean
        n_restarts, size = math.prod(root.shape[:-3]), root.shape[-1]
        n_vectors = sum(math.prod(gate.mean.shape[:-1]) for gate in params.gates)
        n_vectors += n_restarts * math.prod(self.branches) * self.expert.n_scores
        return size * (size + 1) // 2 + 12 * n_vectors

    def to_accelerated(self, params: ExpertsPosterior) -> ExpertsCoordinates:
        """What plain steps move slowly: the means and the log rates."""
        gates = tuple(to_accelerated(gate) for gate in params.gates)
        return ExpertsCoordinates(gates, self.expert.to_accelerated(params.experts))

    def from_accelerated(self, coordinates: ExpertsCoordinates, params: ExpertsPosterior) -> ExpertsPosterior:
        gates = tuple(from_accelerated(c, gate) for c, gate in zip(coordinates.gates, params.gates, strict=True))
        return ExpertsPosterior(gates, self.expert.from_accelerated(coordinates.experts, params.experts))
