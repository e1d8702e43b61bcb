"""What the estimators of softmax models need to know of a structure: its families, starts, and how its parts count.

A structure is a configuration of subclasses or a tree of experts. It joins the two families that describe it, the variational posterior and the
point estimate, so that one training routine serves both (see `_softmax_training`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.contracts import AcceleratedFamily, Chunk, Family, SmoothFamily, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.estimators.latent_softmax.exact_posterior import RowLikelihood, Tightenable
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import GaussianWeights
from latentia.families.experts.expert_models import LinearGaussianExpert, SoftmaxExpert
from latentia.families.experts.likelihood import ExpertsLikelihood, ExpertsWeights, LeafScores, log_noise_of
from latentia.families.experts.variational import Experts, ExpertsParams
from latentia.families.softmax.likelihood import SoftmaxLikelihood, SoftmaxWeights
from latentia.families.softmax.variational import MultimodalSoftmax
from latentia.inputs.standardization import Standardizer
from latentia.numerics.array_api import Array, namespace, to_numpy


class ModelSpec(Tightenable, Protocol):
    """One model to be fitted."""

    @property
    def log_permutations(self) -> float: ...  # log of the number of relabellings that change nothing
    @property
    def is_convex(self) -> bool: ...  # one start is enough
    def n_free(self, size: int) -> int: ...  # identified parameters for rows of `size` entries, the one included
    def variational(self, beta: float = 1.0) -> AcceleratedFamily: ...
    def likelihood(self, ridge: Any = 0.0) -> SmoothFamily: ...
    def start(self, weights: Any, variance: float) -> Any: ...
    def means(self, params: Any) -> Any: ...
    def undo_standardization(self, weights: Any, preprocess: Standardizer) -> Any: ...
    def equivalent_starts(
        self, weights: Any
    ) -> list[Any]: ...  # of a convex structure: equal in likelihood, unequal in prior


@dataclass(frozen=True)
class SubclassSpec:
    """A softmax over subclasses, some for each class."""

    n_subclasses: tuple[int, ...]
    prior: GammaPrior = field(default_factory=GammaPrior)
    convergence_tol: ClassVar[float] = 1e-5

    @property
    def log_permutations(self) -> float:
        return sum(math.lgamma(n + 1) for n in self.n_subclasses)

    @property
    def is_convex(self) -> bool:
        return max(self.n_subclasses) == 1

    @property
    def owner(self) -> np.ndarray:
        """The class of each subclass."""
        return np.repeat(np.arange(len(self.n_subclasses)), self.n_subclasses)

    def n_free(self, size: int) -> int:
        return (sum(self.n_subclasses) - 1) * size

    def variational(self, beta: float = 1.0) -> MultimodalSoftmax:
        return MultimodalSoftmax(self.n_subclasses, self.prior, beta)

    def likelihood(self, ridge: Any = 0.0) -> SoftmaxLikelihood:
        return SoftmaxLikelihood(self.n_subclasses, ridge)

    def nodes(self, params: GaussianWeights) -> tuple[GaussianWeights, ...]:
        return (params,)

    def with_nodes(self, params: GaussianWeights, nodes: tuple[GaussianWeights, ...]) -> GaussianWeights:
        return nodes[0]

    def row_likelihood(self, params: GaussianWeights) -> RowLikelihood:
        family = self.likelihood()

        def at(scores: tuple[Array, ...], x: Array, outer: Array, y: Array) -> tuple[Array, tuple[Array, ...]]:
            posterior = family.at_scores(scores[0], y)
            return posterior.log_joint[..., 0, :], (posterior.slope,)

        return at

    def other_log_prior(self, params: GaussianWeights) -> float:
        return 0.0

    def start(self, weights: SoftmaxWeights, variance: float) -> GaussianWeights:
        return self.variational().start(weights.weights, variance)

    def means(self, params: GaussianWeights) -> SoftmaxWeights:
        return SoftmaxWeights(params.mean)

    def undo_standardization(self, weights: SoftmaxWeights, preprocess: Standardizer) -> SoftmaxWeights:
        return SoftmaxWeights(undo_standardization(weights.weights, preprocess))

    def equivalent_starts(self, weights: SoftmaxWeights) -> list[SoftmaxWeights]:
        """The same model with each subclass in turn at zero, where the posterior likes to have one."""
        w = weights.weights
        return [weights, *(SoftmaxWeights(w - w[..., k : k + 1, :]) for k in range(w.shape[-2]))]

    def class_shares(self, family: Family, params: Any, rows: ArraySource) -> np.ndarray:
        """Eq. 33: each subclass' part of its class, by weight. (S,)"""

        def visit(chunk: Chunk) -> Totals:
            posterior = family.infer(params, chunk.rows, chunk.y)
            xp = namespace(posterior.log_joint)
            share = posterior.share
            return {"mass": xp.sum(share if chunk.weight is None else share * chunk.weight, axis=-1)}

        mass = to_numpy(rows.sum_over_chunks(visit, rows_per_chunk(family.floats_per_row(params)))["mass"]).astype(
            float
        )
        total = np.bincount(self.owner, mass, minlength=len(self.n_subclasses))
        return mass / np.maximum(total, 1e-300)[self.owner]


@dataclass(frozen=True)
class ExpertTreeSpec:
    """A tree of gates over softmax or linear experts."""

    branches: tuple[int, ...]
    n_scores: int
    linear: bool = False
    prior: GammaPrior = field(default_factory=GammaPrior)

    @property
    def convergence_tol(self) -> float:
        """Gates between linear experts of little noise are steep, and the bound is all but flat in how steep."""
        return 1e-6 if self.linear else 1e-5

    @property
    def log_permutations(self) -> float:
        nodes = [math.prod(self.branches[:level]) for level in range(len(self.branches))]
        return sum(n * math.lgamma(b + 1) for n, b in zip(nodes, self.branches, strict=True))

    @property
    def is_convex(self) -> bool:
        return math.prod(self.branches) == 1

    def n_free(self, size: int) -> int:
        gates = sum(math.prod(self.branches[:level]) * (b - 1) for level, b in enumerate(self.branches))
        scores = self.n_scores if self.linear else self.n_scores - 1
        noise = math.prod(self.branches) * self.n_scores if self.linear else 0
        return (gates + math.prod(self.branches) * scores) * size + noise

    def variational(self, beta: float = 1.0) -> Experts:
        leaf = (
            LinearGaussianExpert(self.n_scores, self.prior) if self.linear else SoftmaxExpert(self.n_scores, self.prior)
        )
        return Experts(self.branches, leaf, self.prior, beta)

    def likelihood(self, ridge: Any = 0.0) -> ExpertsLikelihood:
        return ExpertsLikelihood(self.branches, self.n_scores, self.linear, ridge)

    def nodes(self, params: ExpertsParams) -> tuple[GaussianWeights, ...]:
        """Gates and softmax experts; linear experts need no tighter bound and stay as they are."""
        return params.gates if self.linear else (*params.gates, params.leaves)

    def with_nodes(self, params: ExpertsParams, nodes: tuple[GaussianWeights, ...]) -> ExpertsParams:
        n_gates = len(params.gates)
        return ExpertsParams(nodes[:n_gates], params.leaves if self.linear else nodes[n_gates])

    def row_likelihood(self, params: ExpertsParams) -> RowLikelihood:
        family, leaf, n_gates = self.likelihood(), self.variational().leaf, len(self.branches)

        def at(scores: tuple[Array, ...], x: Array, outer: Array, y: Array) -> tuple[Array, tuple[Array, ...]]:
            if self.linear:
                value = leaf.infer(params.leaves, x, outer, y).score
                leaves = LeafScores(value, value, value)  # only the value is asked for
            else:
                leaves = family.softmax_leaves(scores[n_gates], y)
            posterior = family.at_scores(scores[:n_gates], leaves, x)
            slopes = family.gate_slopes(posterior, posterior.share)
            if not self.linear:
                slopes = (*slopes, posterior.share[..., None, :] * leaves.slope)
            return posterior.log_joint[..., 0, :], slopes

        return at

    def other_log_prior(self, params: ExpertsParams) -> float:
        return float(to_numpy(self.variational().leaf.log_prior(params.leaves, 1.0))) if self.linear else 0.0

    def start(self, weights: ExpertsWeights, variance: float) -> ExpertsParams:
        return self.variational().start(weights.gates, weights.experts, variance)

    def means(self, params: ExpertsParams) -> ExpertsWeights:
        gates = tuple(gate.mean for gate in params.gates)
        if not self.linear:
            return ExpertsWeights(gates, params.leaves.mean, params.leaves.rate)
        return ExpertsWeights(gates, params.leaves.weights.mean, log_noise_of(params.leaves.noise_variance))

    def undo_standardization(self, weights: ExpertsWeights, preprocess: Standardizer) -> ExpertsWeights:
        gates = tuple(undo_standardization(gate, preprocess) for gate in weights.gates)
        return ExpertsWeights(gates, undo_standardization(weights.experts, preprocess), weights.log_noise)

    def equivalent_starts(self, weights: ExpertsWeights) -> list[ExpertsWeights]:
        """The same model with each class in turn at zero; linear experts have no such freedom."""
        w = weights.experts
        turns = range(0 if self.linear else w.shape[-2])
        return [weights, *(weights._replace(experts=w - w[..., k : k + 1, :]) for k in turns)]


def undo_standardization(weights: Array, preprocess: Standardizer) -> Array:
    """Weights of standardized rows as weights of the raw rows."""
    xp = namespace(weights)
    slopes = weights[..., :-1] / preprocess.scale
    bias = weights[..., -1:] - xp.sum(slopes * preprocess.shift, axis=-1, keepdims=True)
    return xp.concat([slopes, bias], axis=-1)
