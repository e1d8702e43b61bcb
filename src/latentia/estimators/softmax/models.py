"""What training and predictions ask of a model, whatever its parts are.

A spec says which model is meant: numbers of subclasses, or a tree of experts. It joins the two
families that describe the model, the posterior under the quadratic bound and the point estimate, so
that one training routine serves all.

The multimodal softmax as a model to be fitted.

The mixture of experts as a model to be fitted.

Fitted models as values: what predictions need, how training went, what decides.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from array_api_compat import is_numpy_array

from latentia.arrays.linalg import packed_outer
from latentia.arrays.namespace import Array, logsumexp, namespace, one_hot, to_numpy, transpose
from latentia.arrays.parallel import parallel
from latentia.engine.contracts import AcceleratedFamily, Params, SmoothFamily
from latentia.engine.rows import ArraySource, MaskedRows, RowRange, rows_per_chunk, split_ranges
from latentia.engine.tree import tree_map
from latentia.families.blocks.bounds import log_expected_softmax
from latentia.families.blocks.weights import GammaPrior, GaussianWeights, augment, score_moments
from latentia.families.softmax_tree.experts import E
from latentia.families.softmax_tree.subclasses import MultimodalSoftmax, SoftmaxLikelihood, SoftmaxWeights
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
from latentia.solvers import Outcome
from latentia.table.options import check_choice, check_number
from latentia.table.standardization import Standardizer


class WeightEstimate(NamedTuple):
    """What predictions are made with: a point estimate, or the posterior they average over."""

    point: Any
    posterior: Any | None = None

    def inputs(self, rows: MaskedRows) -> tuple[Array, Array | None]:
        """Rows with a one appended, and their products where variances are needed."""
        x = augment(rows.values)
        return x, None if self.posterior is None else packed_outer(x)


class ModelSpec(ABC):
    """One model; `point` and `posterior` are parameters of its `likelihood` and `variational`."""

    #: Of the precisions of all softmax weights.
    prior: GammaPrior
    #: Gain per row below which the posterior under the exact likelihood has converged.
    exact_posterior_tol: float
    #: Whether the exact posterior replaces all that was found under the bound.
    is_bounded: bool

    @property
    @abstractmethod
    def log_permutations(self) -> float:
        """Log of the number of relabelings that change nothing."""

    @property
    @abstractmethod
    def is_convex(self) -> bool:
        """Whether the likelihood has one maximum, so that one restart is enough."""

    @abstractmethod
    def n_free(self, size: int) -> int:
        """Identified parameters for rows of `size` entries, the one included."""

    @abstractmethod
    def variational(self, beta: float = 1.0) -> AcceleratedFamily:
        """The posterior under the quadratic bound, at an inverse temperature."""

    @abstractmethod
    def likelihood(self, ridge: float = 0.0) -> SmoothFamily:
        """The point estimate."""

    @abstractmethod
    def posterior_around(self, point: Any, variance: float) -> Any:
        """A posterior about a point."""

    @abstractmethod
    def point_of(self, posterior: Any) -> Any:
        """The point that a posterior stands for: its means."""

    @abstractmethod
    def undo_standardization(self, point: Any, preprocess: Standardizer) -> Any:
        """A point of standardized rows as one of the rows before."""

    @abstractmethod
    def equivalent_points(self, point: Any) -> list[Any]:
        """Of a convex model: points equal in likelihood, unequal in prior."""

    @abstractmethod
    def softmax_posteriors(self, posterior: Any) -> tuple[GaussianWeights, ...]:
        """Posteriors (..., M, b, D) of M softmax models with b scores that are only bounded."""

    @abstractmethod
    def with_softmax_posteriors(self, posterior: Any, refined: tuple[GaussianWeights, ...]) -> Any:
        """The posterior with others in their place."""

    @abstractmethod
    def log_likelihood_at(
        self, posterior: Any, scores: tuple[Array, ...], x: Array, outer: Array, y: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        """Log likelihoods (..., N) at scores (..., M, b, N), and derivatives in the scores."""

    @abstractmethod
    def fixed_log_prior(self, posterior: Any) -> Array | float:
        """Log prior (...,) of what is in none of the `softmax_posteriors`."""

    @abstractmethod
    def log_predictive(self, estimate: WeightEstimate, rows: MaskedRows, y: Array) -> Array:
        """Log predictive probability or density (N,) of what was observed."""

    @abstractmethod
    def prediction_floats_per_row(self, n_features: int) -> int:
        """Floats of workspace per row of predictions."""


def undo_standardization(weights: Array, preprocess: Standardizer) -> Array:
    """Weights of standardized rows as weights of the rows before."""
    xp = namespace(weights)
    slopes = weights[..., :-1] / preprocess.scale
    bias = weights[..., -1:] - xp.sum(slopes * preprocess.shift, axis=-1, keepdims=True)
    return xp.concat([slopes, bias], axis=-1)


@dataclass(frozen=True)
class SubclassSpec(ModelSpec):
    """A softmax over subclasses, some for each class."""

    n_subclasses: tuple[int, ...]
    prior: GammaPrior = field(default_factory=GammaPrior)

    exact_posterior_tol = 1e-5
    is_bounded = True

    @property
    def log_permutations(self) -> float:
        return sum(math.lgamma(n + 1) for n in self.n_subclasses)

    @property
    def is_convex(self) -> bool:
        return max(self.n_subclasses) == 1

    def n_free(self, size: int) -> int:
        return (sum(self.n_subclasses) - 1) * size

    def variational(self, beta: float = 1.0) -> MultimodalSoftmax:
        return MultimodalSoftmax(self.n_subclasses, self.prior, beta)

    def likelihood(self, ridge: float = 0.0) -> SoftmaxLikelihood:
        return SoftmaxLikelihood(self.n_subclasses, ridge)

    def posterior_around(self, point: SoftmaxWeights, variance: float) -> GaussianWeights:
        return self.variational().posterior_around(point.weights, variance)

    def point_of(self, posterior: GaussianWeights) -> SoftmaxWeights:
        return SoftmaxWeights(posterior.mean)

    def undo_standardization(self, point: SoftmaxWeights, preprocess: Standardizer) -> SoftmaxWeights:
        return SoftmaxWeights(undo_standardization(point.weights, preprocess))

    def equivalent_points(self, point: SoftmaxWeights) -> list[SoftmaxWeights]:
        """The same model with each subclass in turn at zero, where the prior prefers one."""
        w = point.weights
        return [point, *(SoftmaxWeights(w - w[..., k : k + 1, :]) for k in range(w.shape[-2]))]

    def softmax_posteriors(self, posterior: GaussianWeights) -> tuple[GaussianWeights, ...]:
        n_leading = posterior.mean.ndim - 2  # one softmax model, so an axis of length one
        return (tree_map(lambda a: namespace(a).expand_dims(a, axis=n_leading), posterior),)

    def with_softmax_posteriors(
        self, posterior: GaussianWeights, refined: tuple[GaussianWeights, ...]
    ) -> GaussianWeights:
        n_leading = posterior.mean.ndim - 2
        return tree_map(lambda a: namespace(a).squeeze(a, axis=n_leading), refined[0])

    def log_likelihood_at(
        self, posterior: GaussianWeights, scores: tuple[Array, ...], x: Array, outer: Array, y: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        at_scores = self.likelihood().at_scores(scores[0][..., 0, :, :], y)
        return at_scores.log_joint[..., 0, :], (at_scores.score_gradient[..., None, :, :],)

    def fixed_log_prior(self, posterior: GaussianWeights) -> float:
        return 0.0

    def subclass_log_proba(self, estimate: WeightEstimate, rows: MaskedRows) -> Array:
        """Log probabilities (S, N) of the subclasses."""
        x, outer = estimate.inputs(rows)
        return log_expected_softmax(*score_moments(estimate.point.weights, estimate.posterior, x, outer))

    def log_proba(self, estimate: WeightEstimate, rows: MaskedRows) -> Array:
        """Log probabilities (N, C) of the classes."""
        log_proba = self.subclass_log_proba(estimate, rows)
        stops = np.cumsum(self.n_subclasses)
        starts = stops - self.n_subclasses
        parts = [logsumexp(log_proba[a:b, :], axis=-2) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        return namespace(log_proba).stack(parts, axis=-1)

    def log_predictive(self, estimate: WeightEstimate, rows: MaskedRows, y: Array) -> Array:
        log_proba = self.log_proba(estimate, rows)
        xp = namespace(log_proba)
        own = transpose(one_hot(y, len(self.n_subclasses), log_proba.dtype)) > 0
        return xp.sum(xp.where(own, log_proba, xp.zeros_like(log_proba)), axis=-1)

    def prediction_floats_per_row(self, n_features: int) -> int:
        size = n_features + 1
        return size * (size + 1) // 2 + 4 * sum(self.n_subclasses) ** 2


def check_subclasses(name: str, n_subclasses: Any) -> None:
    """An int, several, or 'auto'."""
    if isinstance(n_subclasses, str):
        check_choice(name, n_subclasses, ["auto"], ", an int, or one int per class")
        return
    for number in np.atleast_1d(np.asarray(n_subclasses, dtype=object)).tolist():
        check_number(name, number, ge=1, integer=True, besides=", one for each class, or 'auto'")


def per_class(n_subclasses: Any, n_classes: int) -> tuple[int, ...]:
    """The user's numbers, one per class."""
    numbers = np.asarray(n_subclasses)
    if numbers.ndim > 0 and numbers.shape != (n_classes,):
        raise ValueError(
            f"n_subclasses={n_subclasses!r} has {numbers.size} entries, but y has {n_classes} classes; "
            "allowed are 'auto', an int, or one int per class."
        )
    return tuple(np.broadcast_to(numbers, (n_classes,)).astype(int).tolist())


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


S = TypeVar("S", bound=ModelSpec)


@dataclass(frozen=True)
class FittedModel(Generic[S]):
    """A model and its parameters; by maximum likelihood there is a point estimate alone."""

    spec: S
    point_estimate: Params
    bound_posterior: Params | None = None  # under the quadratic bound
    exact_posterior: Params | None = None  # under the exact likelihood

    def log_predictive(self, averaging: Averaging, rows: ArraySource) -> np.ndarray:
        """Log predictive probabilities or densities (N,) of rows."""
        estimate = averaging(self)
        size = rows_per_chunk(self.spec.prediction_floats_per_row(rows.n_features), rows.X)

        def of_rows(part: RowRange) -> np.ndarray:
            chunk = rows.subset(np.arange(part.start, part.stop)).all_rows()
            return to_numpy(self.spec.log_predictive(estimate, chunk.rows, chunk.y))

        parts = split_ranges([RowRange(0, rows.n_rows, None)], size)
        return np.concatenate(parallel(of_rows, parts, is_numpy_array(rows.X)))


#: What predictions of a model are made with.
Averaging = Callable[[FittedModel], WeightEstimate]


def plugin(model: FittedModel) -> WeightEstimate:
    """The point estimate alone."""
    return WeightEstimate(model.point_estimate)


def over_exact_posterior(model: FittedModel) -> WeightEstimate:
    """Averages over the posterior under the exact likelihood."""
    return WeightEstimate(model.point_estimate, model.exact_posterior)


def over_bound_posterior(model: FittedModel) -> WeightEstimate:
    """Averages over the posterior under the quadratic bound."""
    return WeightEstimate(model.point_estimate, model.bound_posterior)


#: Averages by the names users give; without a posterior all of them plug in the point estimate.
AVERAGES: dict[str, Averaging] = {
    "corrected": over_exact_posterior,
    "posterior": over_bound_posterior,
    "plugin": plugin,
}


class Candidate(NamedTuple):
    """A fitted model and how its training went."""

    model: FittedModel
    curve: np.ndarray
    n_iter: int
    outcome: Outcome
    restart_objectives: np.ndarray  # where each restart ended, best first
    log_evidence: float  # bound less the log number of permutations; NaN for maximum likelihood
    corrected_log_evidence: float  # exact bound plus the log number of permutations; NaN for maximum likelihood
    log_likelihood: float  # at the point estimate
    bic: float
    seconds: float
    score: float = float("nan")  # what the choice among models maximizes

    def in_units(self, log_jacobian: float) -> Candidate:
        """The same in units of the outputs in which log densities are less by `log_jacobian`."""
        return self._replace(
            curve=self.curve - log_jacobian,
            restart_objectives=self.restart_objectives - log_jacobian,
            log_evidence=self.log_evidence - log_jacobian,
            corrected_log_evidence=self.corrected_log_evidence - log_jacobian,
            log_likelihood=self.log_likelihood - log_jacobian,
            bic=self.bic + 2 * log_jacobian,
        )


class Criterion(NamedTuple):
    """What models are chosen by: held-out rows, or a number of the rows they were trained on."""

    score: Callable[[Candidate], float]
    holds_out: bool = False


def corrected_log_evidence(candidate: Candidate) -> float:
    return candidate.corrected_log_evidence


def log_evidence(candidate: Candidate) -> float:
    return candidate.log_evidence


def minus_half_bic(candidate: Candidate) -> float:
    return -candidate.bic / 2


#: Criteria by the names users give; "validation" without rows to spare goes by the evidence.
CRITERIA = {
    "validation": Criterion(corrected_log_evidence, holds_out=True),
    "evidence": Criterion(corrected_log_evidence),
    "bound": Criterion(log_evidence),
    "bic": Criterion(minus_half_bic),
}


def search_table(candidates: list[Candidate], **columns: list[Any]) -> dict[str, Any]:
    """Columns of `search_results_`, which pandas turns into a table."""
    restart_objectives = [candidate.restart_objectives for candidate in candidates]
    return {
        **columns,
        "log_evidence": np.array([candidate.log_evidence for candidate in candidates]),
        "score": np.array([candidate.score for candidate in candidates]),
        "corrected_log_evidence": np.array([candidate.corrected_log_evidence for candidate in candidates]),
        "bic": np.array([candidate.bic for candidate in candidates]),
        "log_likelihood": np.array([candidate.log_likelihood for candidate in candidates]),
        "restart_gap": np.array([float(values[0] - np.median(values)) for values in restart_objectives]),
        "n_restarts": np.array([len(values) for values in restart_objectives]),
        "n_iter": np.array([candidate.n_iter for candidate in candidates]),
        "seconds": np.array([candidate.seconds for candidate in candidates]),
    }
