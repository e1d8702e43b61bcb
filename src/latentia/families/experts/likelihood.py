r"""Mixtures of experts by maximum likelihood or MAP, flat or hierarchical.

.. math:: J = \sum_n \ln \sum_g \exp\{\ln P(g | x_n) + \ln p(y_n | x_n, g)\} - \tfrac{\rho}{2} |w|^2

With the posterior :math:`t_{gn}` of the expert, the gradient in a gate's scores is (posterior
probability of the branch) - (that of the node) x (probability of the branch given x), and in an
expert's parameters :math:`t_{gn}` times the gradient of its own log likelihood, which an `Expert`
gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, namespace
from latentia.engine.contracts import ConditionalFamily, SmoothFamily
from latentia.engine.rows import MaskedRows, Source
from latentia.engine.tree import tree_add
from latentia.families.building_blocks.gaussian_weights import augment
from latentia.families.experts.expert import Expert
from latentia.families.experts.gating_tree import gate_gradients, mix_experts, random_weights
from latentia.families.experts.linear_gaussian_expert import LinearGaussianExpert
from latentia.families.experts.softmax_expert import SoftmaxExpert


class ExpertsPoint(NamedTuple):
    """Weights of the gates, the last entry of each being the bias, and points of the experts."""

    gates: tuple[Array, ...]  # (..., B, b, D)
    experts: Any  # an `ExpertPoint`


class LikelihoodPosterior(NamedTuple):
    """Per-row posterior of the expert."""

    log_joint: Array  # (..., 1, N) log p(y | x)
    responsibilities: Array  # (..., L, N)
    gate_probs: tuple[Array, ...]  # (..., B, b, N) probabilities of the branches
    experts: Any  # scores of the rows under the experts
    x: Array  # (N, D) with the one


@dataclass(frozen=True)
class ExpertsLikelihood(ConditionalFamily, SmoothFamily):
    """Point estimates of a mixture of experts.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level.
    expert : Expert
        What an expert is.
    ridge : float
        Precision of a Gaussian prior on all weights; the expert says what it means for other
        parameters.
    """

    branches: tuple[int, ...]
    expert: Expert
    ridge: float = 0.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.expert.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[ExpertsLikelihood]:
        """Small instances for tests: flat, a tree, linear."""
        softmax, linear = SoftmaxExpert(n_classes), LinearGaussianExpert(2)
        return [cls((2,), softmax, 0.3), cls((2, 3), softmax, 0.3), cls((2,), linear, 0.3)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        return self.expert.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExpertsPoint:
        """Random weights, larger in every other restart."""
        x = source.sample_rows(1, rng).rows.values
        scale = np.where(np.arange(n_restarts) % 2, 1.0, 0.1)
        gates, weights = random_weights(self.branches, self.expert.n_scores, x, rng, scale)
        return ExpertsPoint(gates, self.expert.initial_point(weights))

    def infer(self, params: ExpertsPoint, rows: MaskedRows, y: Array | None = None) -> LikelihoodPosterior:
        x = augment(rows.values)
        experts = self.expert.log_likelihood(params.experts, x, y)
        mixture = mix_experts([params_at_rows(gate, x) for gate in params.gates], experts.value)
        log_joint = mixture.log_likelihood[..., None, :]
        return LikelihoodPosterior(log_joint, mixture.responsibilities, mixture.gate_probs, experts, x)

    def statistics(
        self, params: ExpertsPoint, rows: MaskedRows, posterior: LikelihoodPosterior, weight: Array
    ) -> ExpertsPoint:
        """Gradient of the log likelihood."""
        responsibilities = weight * posterior.responsibilities
        gradients = gate_gradients(responsibilities, posterior.gate_probs, self.branches)
        gates = tuple(weighted_row_sums(gradient, posterior.x) for gradient in gradients)
        return ExpertsPoint(gates, self.expert.gradient_sums(posterior.experts, responsibilities, posterior.x))

    def log_prior(self, params: ExpertsPoint) -> Array:
        total = self.expert.point_log_prior(params.experts, self.ridge)
        for gate in params.gates:
            total = total - namespace(gate).sum(self.ridge * gate**2, axis=(-3, -2, -1)) / 2
        return total

    def floats_per_row(self, params: ExpertsPoint) -> int:
        n_vectors = sum(math.prod(w.shape[:-1]) for w in (*params.gates, params.experts.weights))
        return 6 * n_vectors + 2 * params.experts.weights.shape[-1]

    def to_free(self, params: ExpertsPoint) -> ExpertsPoint:
        return params

    def from_free(self, free: ExpertsPoint, params: ExpertsPoint) -> ExpertsPoint:
        return free

    def gradient(self, params: ExpertsPoint, stats: ExpertsPoint) -> ExpertsPoint:
        gates = tuple(sums - self.ridge * gate for sums, gate in zip(stats.gates, params.gates, strict=True))
        return ExpertsPoint(
            gates, tree_add(stats.experts, self.expert.point_prior_gradient(params.experts, self.ridge))
        )
