"""The mixture of experts as a model to be fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Generic

from latentia.arrays.namespace import Array, logsumexp
from latentia.engine.rows import MaskedRows
from latentia.estimators.latent_softmax.model_specs import ModelSpec, WeightEstimate, undo_standardization
from latentia.families.blocks.bounds import log_expected_softmax
from latentia.families.blocks.weights import GammaPrior, GaussianWeights, score_moments
from latentia.families.softmax_tree.experts import E
from latentia.families.softmax_tree.tree import (
    Experts,
    ExpertsLikelihood,
    ExpertsPoint,
    ExpertsPosterior,
    gate_gradients,
    mix_experts,
    n_nodes,
    path_scores,
)
from latentia.table.standardization import Standardizer


@dataclass(frozen=True)
class ExpertTreeSpec(ModelSpec, Generic[E]):
    """A tree of gates over experts of one kind."""

    branches: tuple[int, ...]
    expert: E
    prior: GammaPrior = field(default_factory=GammaPrior)

    @property
    def n_experts(self) -> int:
        """Number of experts."""
        return math.prod(self.branches)

    @property
    def exact_posterior_tol(self) -> float:  # type: ignore[override]
        return self.expert.exact_posterior_tol

    @property
    def is_bounded(self) -> bool:  # type: ignore[override]
        return self.expert.is_bounded

    @property
    def log_permutations(self) -> float:
        return sum(n * math.lgamma(b + 1) for n, b in zip(n_nodes(self.branches), self.branches, strict=True))

    @property
    def is_convex(self) -> bool:
        return self.n_experts == 1

    def n_free(self, size: int) -> int:
        n_gate_vectors = sum(n * (b - 1) for n, b in zip(n_nodes(self.branches), self.branches, strict=True))
        return n_gate_vectors * size + self.n_experts * self.expert.n_free(size)

    def variational(self, beta: float = 1.0) -> Experts:
        return Experts(self.branches, self.expert, self.prior, beta)

    def likelihood(self, ridge: float = 0.0) -> ExpertsLikelihood:
        return ExpertsLikelihood(self.branches, self.expert, ridge)

    def posterior_around(self, point: ExpertsPoint, variance: float) -> ExpertsPosterior:
        return self.variational().posterior_around(point.gates, point.experts.weights, variance)

    def point_of(self, posterior: ExpertsPosterior) -> ExpertsPoint:
        return ExpertsPoint(tuple(gate.mean for gate in posterior.gates), self.expert.point_of(posterior.experts))

    def undo_standardization(self, point: ExpertsPoint, preprocess: Standardizer) -> ExpertsPoint:
        gates = tuple(undo_standardization(gate, preprocess) for gate in point.gates)
        weights = undo_standardization(point.experts.weights, preprocess)
        return ExpertsPoint(gates, point.experts._replace(weights=weights))

    def equivalent_points(self, point: ExpertsPoint) -> list[ExpertsPoint]:
        return [point._replace(experts=experts) for experts in self.expert.equivalent_points(point.experts)]

    def softmax_posteriors(self, posterior: ExpertsPosterior) -> tuple[GaussianWeights, ...]:
        """The gates, and what the experts have of softmax models."""
        return (*posterior.gates, *self.expert.softmax_posteriors(posterior.experts))

    def with_softmax_posteriors(
        self, posterior: ExpertsPosterior, refined: tuple[GaussianWeights, ...]
    ) -> ExpertsPosterior:
        n_levels = len(self.branches)
        experts = self.expert.with_softmax_posteriors(posterior.experts, refined[n_levels:])
        return ExpertsPosterior(refined[:n_levels], experts)

    def log_likelihood_at(
        self, posterior: ExpertsPosterior, scores: tuple[Array, ...], x: Array, outer: Array, y: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        n_levels = len(self.branches)
        value, gradients = self.expert.log_likelihood_at(posterior.experts, scores[n_levels:], x, outer, y)
        mixture = mix_experts(scores[:n_levels], value)
        responsibilities = mixture.responsibilities
        of_gates = gate_gradients(responsibilities, mixture.gate_probs, self.branches)
        of_experts = tuple(responsibilities[..., None, :] * gradient for gradient in gradients)
        return mixture.log_likelihood, (*of_gates, *of_experts)

    def fixed_log_prior(self, posterior: ExpertsPosterior) -> Array | float:
        return self.expert.fixed_log_prior(posterior.experts)

    def gate_log_proba(self, estimate: WeightEstimate, x: Array, outer: Array | None) -> Array:
        """Log probabilities (L, N) of the experts."""
        log_gates = []
        for level, point in enumerate(estimate.point.gates):
            posterior = None if estimate.posterior is None else estimate.posterior.gates[level]
            log_gates.append(log_expected_softmax(*score_moments(point, posterior, x, outer)))
        return path_scores(log_gates)

    def expert_estimate(self, estimate: WeightEstimate) -> tuple[Any, Any | None]:
        """Point estimate and posterior of the experts alone."""
        return estimate.point.experts, None if estimate.posterior is None else estimate.posterior.experts

    def log_predictive(self, estimate: WeightEstimate, rows: MaskedRows, y: Array) -> Array:
        x, outer = estimate.inputs(rows)
        experts = self.expert.log_predictive(*self.expert_estimate(estimate), x, outer, y)
        return logsumexp(self.gate_log_proba(estimate, x, outer) + experts, axis=0)

    def prediction_floats_per_row(self, n_features: int) -> int:
        size = n_features + 1
        return size * (size + 1) // 2 + 4 * self.n_experts * (self.n_experts + self.expert.n_scores**2)
