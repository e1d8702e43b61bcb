"""The multimodal softmax as a model to be fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, logsumexp, namespace, one_hot, transpose
from latentia.engine.rows import MaskedRows
from latentia.engine.tree import tree_map
from latentia.estimators.latent_softmax.model_specs import ModelSpec, WeightEstimate, undo_standardization
from latentia.families.blocks.bounds import log_expected_softmax
from latentia.families.blocks.weights import GammaPrior, GaussianWeights, score_moments
from latentia.families.softmax_tree.subclasses import MultimodalSoftmax, SoftmaxLikelihood, SoftmaxWeights
from latentia.table.options import check_choice, check_number
from latentia.table.standardization import Standardizer


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
