"""What training and predictions ask of a model, whatever its parts are.

A spec says which model is meant: numbers of subclasses, or a tree of experts. It joins the two
families that describe the model, the posterior under the quadratic bound and the point estimate, so
that one training routine serves all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from latentia.arrays.linalg import packed_outer
from latentia.arrays.namespace import Array, namespace
from latentia.engine.contracts import AcceleratedFamily, SmoothFamily
from latentia.engine.rows import MaskedRows
from latentia.families.blocks.weights import GammaPrior, GaussianWeights, augment
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
