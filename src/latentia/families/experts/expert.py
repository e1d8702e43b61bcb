r"""What an expert is, for every inference: the one contract that a new kind of expert fulfills.

L experts of one kind are L models p(y | x, g), each with K scores linear in x (with a one
appended). Arrays of weights are (..., L, K, D), responsibilities of the experts (..., L, N). A kind
of expert says

- by variational Bayes, what the posterior of its parameters is and how it is updated
  (`posterior_around`, `infer`, `statistics`, `update`, `log_prior`, and the coordinates of
  acceleration);
- by maximum likelihood, what a point estimate is, its likelihood, gradient and prior
  (`initial_point`, `log_likelihood`, `gradient_sums`, `point_log_prior`, `point_prior_gradient`);
- what of its posterior is still a bound, to be refined under the exact likelihood
  (`softmax_posteriors` and what follows it); nothing, by default;
- what it predicts (`log_predictive`).

`families/experts` and the estimators ask nothing else of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, TypeVar

import numpy as np

from latentia.arrays.namespace import Array, namespace
from latentia.engine.tree import Tree, tree_map
from latentia.families.building_blocks.example_data import make_example_rows
from latentia.families.building_blocks.gaussian_weights import GaussianWeights


class ExpertPoint(Protocol):
    """A point estimate: a named tuple of arrays, of which the first holds the weights."""

    @property
    def weights(self) -> Array: ...  # (..., L, K, D)


class BoundScores(Protocol):
    """Rows under the posterior of the experts."""

    @property
    def score(self) -> Array: ...  # (..., L, N) E log p(y | x, g), or a bound of it


class PointScores(Protocol):
    """Rows under point estimates of the experts."""

    @property
    def value(self) -> Array: ...  # (..., L, N) log p(y | x, g)


E = TypeVar("E", bound="Expert")


class Expert(ABC):
    """A kind of expert."""

    #: Scores linear in x that each expert has.
    n_scores: int
    #: Classes of y; 1 where y holds numbers.
    n_classes: int
    #: Numbers in a row of y; 0 where y holds classes.
    n_outputs: int
    #: Gain per row below which the posterior under the exact likelihood has converged.
    exact_posterior_tol: float = 1e-5
    #: Whether `infer` bounds the likelihood, and `softmax_posteriors` are all that it has found.
    is_bounded: bool = False

    @abstractmethod
    def n_free(self, size: int) -> int:
        """Identified parameters of one expert for rows of `size` entries, the one included."""

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows for tests, every one with a label or outputs."""
        return make_example_rows(rng, n_rows, n_features, self.n_classes, self.n_outputs)

    # Variational Bayes

    @abstractmethod
    def posterior_around(self, weights: Array, variance: float) -> Any:
        """Posteriors about given weights (..., L, K, D)."""

    @abstractmethod
    def infer(self, posterior: Any, x: Array, outer: Array, y: Array) -> Any:
        """`BoundScores` of rows x (N, D) with their products `outer` (N, P)."""

    @abstractmethod
    def statistics(self, scores: Any, responsibilities: Array, x: Array, outer: Array) -> Tree:
        """Statistics of the rows by (weighted) responsibilities, additive in rows."""

    @abstractmethod
    def update(self, posterior: Any, stats: Tree, beta: float) -> Any:
        """The posterior given the statistics, at an inverse temperature."""

    @abstractmethod
    def log_prior(self, posterior: Any, beta: float) -> Array:
        """Minus the divergence (...,) from the prior; entropies weigh 1 / beta."""

    @abstractmethod
    def to_accelerated(self, posterior: Any) -> Tree:
        """The unconstrained coordinates that plain steps move slowly."""

    @abstractmethod
    def from_accelerated(self, coordinates: Tree, posterior: Any) -> Any:
        """The posterior at such coordinates; the rest is taken from `posterior`."""

    @abstractmethod
    def point_of(self, posterior: Any) -> Any:
        """The point estimate that a posterior stands for: its means."""

    # Maximum likelihood

    @abstractmethod
    def initial_point(self, weights: Array) -> Any:
        """An `ExpertPoint` with these weights."""

    @abstractmethod
    def log_likelihood(self, point: Any, x: Array, y: Array) -> Any:
        """`PointScores` of rows."""

    @abstractmethod
    def gradient_sums(self, scores: Any, responsibilities: Array, x: Array) -> Any:
        """Gradient of the log likelihood by (weighted) responsibilities; a tree like the point."""

    def point_log_prior(self, point: Any, ridge: float) -> Array:
        """Log prior (...,) with `ridge` as the precision of the weights."""
        return -namespace(point.weights).sum(ridge * point.weights**2, axis=(-3, -2, -1)) / 2

    def point_prior_gradient(self, point: Any, ridge: float) -> Any:
        """Its gradient, a tree like the point."""
        zeros = tree_map(lambda a: namespace(a).zeros_like(a), point)
        return zeros._replace(weights=-ridge * point.weights)

    def equivalent_points(self, point: Any) -> list[Any]:
        """Points equal in likelihood, and perhaps not in prior, to try where a model is convex."""
        return [point]

    # The posterior under the exact likelihood

    def softmax_posteriors(self, posterior: Any) -> tuple[GaussianWeights, ...]:
        """Posteriors of softmax weights that `infer` only bounds; none where it is exact."""
        return ()

    def with_softmax_posteriors(self, posterior: Any, refined: tuple[GaussianWeights, ...]) -> Any:
        """The posterior with others in their place."""
        return posterior

    def log_likelihood_at(
        self, posterior: Any, scores: tuple[Array, ...], x: Array, outer: Array, y: Array
    ) -> tuple[Array, tuple[Array, ...]]:
        """Log likelihoods (..., L, N) at scores of the `softmax_posteriors`, and derivatives."""
        return self.infer(posterior, x, outer, y).score, ()

    def fixed_log_prior(self, posterior: Any) -> Array | float:
        """Log prior (...,) of what is in none of the `softmax_posteriors`."""
        return self.log_prior(posterior, 1.0)

    # Predictions

    @abstractmethod
    def log_predictive(self, point: Any, posterior: Any | None, x: Array, outer: Array | None, y: Array) -> Array:
        """Log probabilities or densities (L, N) of y, averaged over a posterior or at the point."""
