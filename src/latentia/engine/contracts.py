"""Family, objective and source, and the one sweep in which they meet.

Let ``s_nc = log p(x_n, c)``. An objective ``J = sum_n phi(s_n, y_n)`` has the gradient ``sum_nc w_nc grad s_nc`` with ``w_nc = dphi/ds_nc``, and
Fisher's identity turns ``grad s_nc`` into the expected gradient of the complete-data log likelihood. So a weight matrix times expected sufficient
statistics is all that any training needs: an M-step when ``phi`` is convex and non-decreasing in the scores (likelihood of labeled
and unlabeled rows), a gradient for every ``phi``. Variational Bayes is the same loop: the parameters are the posterior's hyper-parameters and
``log_prior`` is minus the Kullback-Leibler divergence from the prior.

Shapes. ``...`` are leading axes of the parameters (restarts), C classes, K components, D features, N rows. Scores have their rows last,
``log_joint`` is ``(..., C, N)``: the leading axes really lead, sums over classes and components run along whole vectors, and a product of parameters
``(..., C, K, D)`` with the rows ``(N, D)`` is one matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from latentia.engine.pytree import Tree
from latentia.numerics.array_api import Array

Params = Any


Stats = Any


class MaskedRows(NamedTuple):
    """The cells of some rows: what every family computes with."""

    values: Array  # (N, D), zero where a cell is missing
    observed: Array | None  # (N, D) of zeros and ones, or None when no cell is missing


class Chunk(NamedTuple):
    """Some rows, prepared for a family."""

    cells: MaskedRows
    y: Array  # (N,) class codes, -1 where unlabeled; (N, L) or floats for families that condition on y
    weight: Array | None  # (N,) sample weights, None for ones
    label: int | None  # the code that all rows share, if the source grouped them


class Posterior(Protocol):
    """What a family infers of rows: at least the scores."""

    @property
    def log_joint(self) -> Array: ...  # (..., C, N)


class Family(ABC):
    """What p(x, c) looks like. Parameters and statistics are named tuples of arrays."""

    #: Whether scores are conditional on y: one score a row, ``log p(y | x)`` or a bound of it.
    conditional: ClassVar[bool] = False
    n_classes: int
    #: Axis of each parameter / statistic that runs over the classes (see `tree`).
    params_class_axes: Tree
    stats_class_axes: Tree

    @property
    def precomputed_class_axes(self) -> Tree:
        """Class axes of what `precompute` returns."""
        return self.params_class_axes

    @abstractmethod
    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Params:
        """Rough parameters, one set per start along the first axis."""

    def precompute(self, params: Params) -> Params:
        """The parameters together with what all blocks of a sweep need of them; `infer` takes either."""
        return params

    @abstractmethod
    def infer(self, params: Params, cells: MaskedRows, y: Array | None = None) -> Any:
        """Log joint score of each class in `params`, and what is known of the latents."""

    @abstractmethod
    def statistics(self, params: Params, cells: MaskedRows, posterior: Any, weight: Array) -> Stats:
        """Weighted expected statistics: additive in rows, linear in `weight` (..., C, N)."""

    @abstractmethod
    def update(self, params: Params, stats: Stats) -> Params:
        """Parameters that do not lower the bound these statistics define."""

    def log_prior(self, params: Params) -> Array | float:
        """Log prior (...,), or minus KL when the parameters describe a posterior."""
        return 0.0

    @abstractmethod
    def floats_per_row(self, params: Params) -> int:
        """Numbers of working memory that one row takes in `infer` and `statistics`."""

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Any]:
        """Small instances, one per variant: the laws in tests/ run on all of them, and fail for a family without any."""
        return []

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and codes that suit this family, with gaps and unlabeled rows if it takes them."""
        y = rng.permutation(np.arange(n_rows) % self.n_classes)
        X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(self.n_classes, n_features))[y]
        X[rng.random(X.shape) < 0.2] = np.nan
        return X, np.where(rng.random(n_rows) < 0.2, -1, y)

    def specialized_problem(self, objective: Objective, source: Source) -> Problem | None:
        """A cheaper problem with the same sweep, if this family knows one for such rows."""
        return None


class SmoothFamily(Family):
    """A family that gradient solvers accept: it has unconstrained coordinates."""

    @abstractmethod
    def to_free(self, params: Params) -> Tree:
        """The unconstrained coordinates of the parameters."""

    @abstractmethod
    def from_free(self, free: Tree, params: Params) -> Params:
        """The parameters at unconstrained coordinates; what is not free is taken from `params`."""

    @abstractmethod
    def gradient(self, params: Params, stats: Stats) -> Tree:
        """Slope, in free coordinates, of the objective whose weights made these statistics, log prior included."""


class Objective(ABC):
    """What is maximized: a value for each row and its derivative in each class score."""

    #: Convex and non-decreasing in the scores, so that EM cannot lower it.
    rises_under_em: ClassVar[bool] = False
    #: Labeled rows need the score of their own class alone.
    own_class_only: ClassVar[bool] = False
    #: Whether the value is a log density of x, which changes with the units of the columns.
    is_density: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        """Values (..., N) and weights (..., C, N) of scores (..., C, N) under codes (N,)."""


Totals = dict[Any, Tree]


class Source(ABC):
    """Where rows come from."""

    n_rows: int
    n_features: int
    any_unlabeled: bool = True

    @abstractmethod
    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], rows: int, by_label: bool = False) -> Totals:
        """Add up `fn` over blocks of at most `rows` rows (of one label each if asked), key by key."""

    @abstractmethod
    def sample_rows(self, n_rows: int, rng: np.random.Generator) -> Chunk:
        """At most `n_rows` random rows in memory, for initialization."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """Sum of the sample weights."""


class Sweep(NamedTuple):
    """What one pass over the rows yields."""

    value: Array  # (...,) the objective, log prior included
    stats: Stats


class Problem(Protocol):
    """All that a solver may touch."""

    @property
    def family(self) -> Family: ...
    @property
    def total_weight(self) -> float: ...
    def sweep(self, params: Params) -> Sweep: ...
