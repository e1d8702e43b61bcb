"""What the parts of a training ask of each other.

Let ``s_nc = log p(x_n, c)``. An objective ``J = sum_n phi(s_n, y_n)`` has the gradient
``sum_nc w_nc grad s_nc`` with ``w_nc = dphi/ds_nc``, and Fisher's identity turns ``grad s_nc`` into
the expected gradient of the complete-data log likelihood. So a weight matrix times expected
sufficient statistics is all that any training needs: an M-step when ``phi`` is convex and
non-decreasing in the scores (likelihood of labeled and unlabeled rows), a gradient for every
``phi``. Variational Bayes is the same loop: the parameters are the posterior's hyper-parameters and
``log_prior`` is minus the Kullback-Leibler divergence from the prior.

A `Family` says what the scores look like, in parameters, statistics and posteriors of its own
types. Its refinements say what can be done with it:

- `EMFamily`: an M-step (EM, variational Bayes);
- `SmoothFamily`: unconstrained coordinates and a gradient (L-BFGS);
- `AcceleratedFamily`: coordinates in which EM steps may be extrapolated;
- `DampedFamily`: a fixed-point step that may overshoot;
- `QuasiNewtonFamily`: free coordinates that take preconditioned steps between M-steps;
- `StructuredFamily`: a structure that its statistics can improve;
- `GenerativeFamily`: p(x, c), so rows can be drawn and completed; `NormalCellsFamily`: with
  missing cells that are normal, so that their variance is known, too;
- `ConditionalFamily`: p(y | x) alone;
- `PosteriorFamily`: the posterior of another family's parameters.

Shapes. ``...`` are leading axes of the parameters (restarts), C classes, K components, D features,
N rows. Scores have their rows last, ``log_joint`` is ``(..., C, N)``: the leading axes really lead,
sums over classes and components run along whole vectors, and a product of parameters
``(..., C, K, D)`` with the rows ``(N, D)`` is one matrix product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from latentia.arrays.namespace import Array
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.engine.tree import Axes, Tree


class Scored(Protocol):
    """What inference finds of rows, whatever else a family has to know of them."""

    @property
    def log_joint(self) -> Array: ...  # (..., C, N)


#: Named tuples of arrays: parameters of a family, and sums over rows.
Params = TypeVar("Params", bound=Tree)
Stats = TypeVar("Stats", bound=Tree)

#: Of the latents of rows.
Posterior = TypeVar("Posterior", bound=Scored)


class Family(ABC, Generic[Params, Stats, Posterior]):
    """What the scores of rows look like."""

    n_classes: int
    #: Axis of each parameter / statistic that runs over the classes (see `tree`).
    params_class_axes: Axes
    stats_class_axes: Axes

    @property
    def precomputed_class_axes(self) -> Axes:
        """Class axes of what `precompute` returns."""
        return self.params_class_axes

    @abstractmethod
    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Params:
        """Rough parameters, one set per restart along the first axis."""

    def given_rows(self, source: Source) -> Self:
        """The family that knows what all rows together say to it, whatever the parameters are."""
        return self

    def precompute(self, params: Params) -> Params:
        """The parameters with what all chunks of a sweep need of them; `infer` takes either."""
        return params

    @property
    def inference_iterates(self) -> bool:
        """Whether `infer` goes on in each sweep from where the last has ended."""
        return False

    @property
    def takes_all_labels(self) -> bool:
        """Whether `infer`, given labels, scores a labeled row under its own class alone."""
        return False

    @abstractmethod
    def infer(self, params: Params, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None) -> Posterior:
        """Score of each class in `params`, and the posterior of the latents.

        Inference may use what the last sweep over these rows has left in `memo`, and leave there
        what the next one can use: one that iterates begins where it has ended.
        """

    @abstractmethod
    def statistics(self, params: Params, rows: MaskedRows, posterior: Posterior, weight: Array) -> Stats:
        """Weighted expected statistics: additive in rows, linear in `weight` (..., C, N)."""

    def log_prior(self, params: Params) -> Array | float:
        """Log prior (...,), or minus KL when the parameters describe a posterior."""
        return 0.0

    @abstractmethod
    def floats_per_row(self, params: Params) -> int:
        """Floats of workspace per row in `infer` and `statistics`."""

    def condensed(self, objective: Objective, source: Source) -> Source:
        """A source of fewer rows that the same sweeps may see, if this family knows one."""
        return source

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Self]:
        """Small instances, one per variant, on which the laws in tests/ run."""
        return []

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and codes that suit this family, with missing cells and labels if it takes them."""
        y = rng.permutation(np.arange(n_rows) % self.n_classes)
        X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(self.n_classes, n_features))[y]
        X[rng.random(X.shape) < 0.2] = np.nan
        return X, np.where(rng.random(n_rows) < 0.2, -1, y)


class EMFamily(Family[Params, Stats, Posterior]):
    """A family with an M-step."""

    @abstractmethod
    def update(self, params: Params, stats: Stats) -> Params:
        """Parameters that do not lower the bound these statistics define."""

    def move_statistics(self, stats: Stats, params: Params, new: Params) -> Stats:
        """Statistics of some parameters, about the points where those of new ones are taken."""
        return stats

    def rough(self, is_small: bool = False) -> Self:
        """The same, as exact as comparing settings takes; if asked, with few latent variables."""
        return self


class SmoothFamily(Family[Params, Stats, Posterior]):
    """A family that gradient solvers accept: it has unconstrained coordinates."""

    @abstractmethod
    def to_free(self, params: Params) -> Tree:
        """The unconstrained coordinates of the parameters."""

    @abstractmethod
    def from_free(self, free: Tree, params: Params) -> Params:
        """The parameters at unconstrained coordinates; the rest is taken from `params`."""

    @abstractmethod
    def gradient(self, params: Params, stats: Stats) -> Tree:
        """Gradient, in free coordinates, of the objective whose weights made these statistics.

        The log prior is included.
        """


class AcceleratedFamily(EMFamily[Params, Stats, Posterior]):
    """A family whose slow EM steps may be extrapolated."""

    @abstractmethod
    def to_accelerated(self, params: Params) -> Tree:
        """The unconstrained coordinates that plain steps move slowly."""

    @abstractmethod
    def from_accelerated(self, coordinates: Tree, params: Params) -> Params:
        """The parameters at such coordinates; the rest is taken from `params`."""


class DampedFamily(Family[Params, Stats, Posterior]):
    """A family whose fixed-point step may overshoot: it is damped, and may be extrapolated."""

    @abstractmethod
    def damped_update(self, params: Params, stats: Stats, step: float) -> Params | None:
        """A fraction `step` of the way that the statistics point; None if that is no parameter."""

    @abstractmethod
    def to_accelerated(self, params: Params) -> Tree:
        """Coordinates of all that a step changes."""

    @abstractmethod
    def from_accelerated(self, coordinates: Tree, params: Params) -> Params | None:
        """The parameters there, the rest taken from `params`; None where there are none."""

    @abstractmethod
    def acceleration_metric(self, params: Params) -> Tree:
        """Factors that bring all residuals to one unit; zero leaves a coordinate out."""


class QuasiNewtonFamily(EMFamily[Params, Stats, Posterior], SmoothFamily[Params, Stats, Posterior]):
    """A family whose free coordinates take quasi-Newton steps between M-steps."""

    @abstractmethod
    def precondition(self, params: Params, gradient: Tree) -> Tree:
        """A gradient times a rough inverse Hessian: the step that an M-step would take."""


class StructuredFamily(EMFamily[Params, Stats, Posterior]):
    """A family some of whose parameters may be absent."""

    @abstractmethod
    def update_structure(self, params: Params, stats: Stats) -> tuple[Params, np.ndarray]:
        """Parameters with the structure the statistics prefer, and which restarts have changed."""

    @abstractmethod
    def sparse_axes(self, params: Params) -> Params:
        """The sparsest of the equivalent solutions, or nearly so, with the full structure."""

    @abstractmethod
    def sparse_structures(self, params: Params) -> list[Params]:
        """Candidate structures to start from, near such a solution."""

    @abstractmethod
    def structure_size(self, params: Params) -> np.ndarray:
        """Number of parameters that the structure of each restart leaves free."""


class GenerativeParams(Protocol):
    """Parameters of any model of p(x, c), as predictions see them."""

    @property
    def log_prior(self) -> Array: ...  # (..., C)
    def _replace(self, *, log_prior: Array) -> Self: ...


class GenerativeFamily(EMFamily[Params, Stats, Posterior]):
    """A model of p(x, c)."""

    @abstractmethod
    def impute(self, params: Params, rows: MaskedRows, class_probs: Array, mode: bool = False) -> Array:
        """Rows (N, D) with missing cells filled, averaged over the classes by `class_probs` (C, N).

        By expectation; with `mode`, by the most probable value where a column has few values.
        """

    def impute_floats_per_row(self, params: Params) -> int:
        """Floats of workspace per row in `impute`."""
        return self.floats_per_row(params)

    @abstractmethod
    def sample(
        self, params: Params, codes: np.ndarray, rng: np.random.Generator, component: int | None = None
    ) -> np.ndarray:
        """Rows drawn from the classes `codes` (N,), in NumPy; all from one component if given."""

    @abstractmethod
    def n_free(self, n_features: int) -> int:
        """Number of free parameters, class priors included where they are counted."""

    def canonical(self, params: Params) -> tuple[Self, Params]:
        """The family and, of parameters that say the same, those that are published."""
        return self, params


class Expectation(Protocol):
    """What is expected of normal cells (..., N, n) with these moments, in the numbered columns.

    Variances need only broadcast.
    """

    def __call__(self, mean: Array, variance: Array, columns: Sequence[int]) -> Array: ...


class NormalCellsFamily(GenerativeFamily[Params, Stats, Posterior]):
    """A family whose continuous cells are normal given class, component and the known cells.

    Of other families, originals are taken of the expected cells.
    """

    @abstractmethod
    def impute_expected(self, params: Params, rows: MaskedRows, class_probs: Array, expect: Expectation) -> Array:
        """`impute`, of what is expected of continuous cells in place of their means.

        Cells of other kinds are taken as certain. Known cells need not be kept.
        """


class ConditionalFamily(Family[Params, Stats, Posterior]):
    """A model of p(y | x): one score a row, ``log p(y | x)`` or a bound of it."""

    params_class_axes: Axes = None  # never cut by class
    stats_class_axes: Axes = None


class PosteriorFamily(AcceleratedFamily[Params, Stats, Posterior]):
    """Trained by variational Bayes; predictions are made by the other family, the points."""

    @abstractmethod
    def predictive(self, params: Params) -> Tree:
        """Parameters of the points that average over the posterior, as well as they can."""


class Objective(ABC):
    """What is maximized: a value for each row and its derivative in each class score."""

    #: Convex and non-decreasing in the scores, so that EM cannot lower it.
    rises_under_em: ClassVar[bool] = False
    #: Labeled rows need the score of their own class alone.
    own_class_only: ClassVar[bool] = False
    #: Whether the value is a log density of x, which changes with the units of the columns.
    is_density: ClassVar[bool] = False

    @abstractmethod
    def evaluate(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        """Values (..., N) and weights (..., C, N) of scores (..., C, N) under codes (N,)."""

    @classmethod
    def examples(cls) -> list[Self]:
        """Instances on which the laws in tests/ run."""
        return [cls()]


class Sweep(NamedTuple, Generic[Stats]):
    """What one pass over the rows yields."""

    value: Array  # (...,) the objective, log prior included
    stats: Stats
