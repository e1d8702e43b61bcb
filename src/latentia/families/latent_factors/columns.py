r"""The contract of a kind of column, as an object, and the kinds that are sums of logistic terms.

A column has one or more *linear predictors* :math:`a_h = w_h^\top z + b_h` of the latents z. Its
model bounds (or equals) its log density by a quadratic in the predictors,

.. math:: \ln p(x_i \mid a) \ge k - \tfrac12 \sum_h \kappa_h a_h^2 + \sum_h s_h a_h ,

so every row has a Gaussian posterior of z, and a missing cell adds nothing. All else that the
family does with a column, its model does by itself: initial values, samples, expectations, counting
parameters.

A **logistic** column has the log density

.. math::

    \ln p(x \mid a) = c(x) + \sum_h y_h(x) a_h - n_h(x) \ln(1 + e^{a_h}) ,

as that of :math:`n_h` trials, :math:`y_h` of which succeed with the probability
:math:`\sigma(a_h)`. The bound of Jaakkola and Jordan holds for each trial, so the quadratic has the
curvatures :math:`\kappa_h = 2 n_h \lambda(\xi_h)` with :math:`2\lambda(\xi) = \tanh(\xi/2)/(2\xi)`,
the linear coefficients :math:`s_h = y_h - n_h/2` and the constant :math:`c + \sum_h \tfrac12
\kappa_h \xi_h^2 - n_h \ln 2\cosh(\xi_h/2)`. It is below the log density everywhere, touches it at
:math:`\pm\xi`, and is best for Gaussian predictors at :math:`\xi_h^2 = E[a_h^2]`. Numbers of trials
need not be whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, namespace, to_numpy
from latentia.families.blocks.bounds import log_two_cosh, logistic_curvature


class Quadratic(NamedTuple):
    """What some columns add to each row, as a quadratic in their predictors."""

    curvature: Array  # (..., N, H) coefficient of -a^2 / 2
    linear: Array  # (..., N, H) coefficient of a
    constant: Array | float  # (..., N), or 0.0 where it is left out


class CellTerms(NamedTuple):
    """What rows add to a bound whose moments they share.

    The quadratic of a row is that of one trial times the row's trials, plus its hits in the linear
    coefficients and its base in the constant.
    """

    trials: Array  # (N, H)
    hits: Array  # (N, H)
    base: Array | float  # (N,)

    @classmethod
    def joined(cls, parts: Sequence[CellTerms]) -> CellTerms:
        """Those of several models, side by side."""
        concat = namespace(parts[0].trials).concat
        trials, hits = (concat([part[k] for part in parts], axis=-1) for k in (0, 1))
        return cls(trials, hits, sum(part.base for part in parts))


class ColumnModel(ABC):
    """Columns of one kind; `columns` are their numbers in the table.

    The class attributes say how cells are read before they are modeled.
    """

    #: The name users give.
    kind: ClassVar[str]
    #: Whether cells become the codes 0, 1, ... of the sorted values of their column.
    is_coded: ClassVar[bool] = False
    #: How many categories a coded column has; None for as many as it shows.
    n_categories: ClassVar[int | None] = None
    #: Whether cells are whole numbers from zero on.
    is_count: ClassVar[bool] = False
    #: Whether `column_size` must see the cells of its columns.
    needs_size: ClassVar[bool] = False
    #: Whether cells are standardized.
    is_standardized: ClassVar[bool] = False

    def __init__(self, columns: Sequence[int]):
        self.columns = tuple(columns)

    @classmethod
    def column_size(cls, cells: np.ndarray, counts: np.ndarray | None = None) -> float:
        """What the model must know of the known cells of a column that is not coded; with `counts`,
        of its values, which so many cells have.
        """
        return 0.0

    @classmethod
    def from_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> ColumnModel:
        """The model of these columns, of these numbers of categories where they are coded, of these
        sizes by `column_size` where not.
        """
        return cls(columns)

    @classmethod
    def split_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> list[ColumnModel]:
        """The models of these columns: one, or several where a kind has special cases."""
        return [cls.from_columns(columns, sizes)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.columns)})"

    @property
    def n_predictors(self) -> int:
        """Number of predictors of all columns."""
        return len(self.columns)

    @property
    def n_redundant_predictors(self) -> int:
        """How many predictors could be held at zero without a loss."""
        return 0

    def predictor_columns(self) -> list[int]:
        """The column that each predictor belongs to."""
        return list(self.columns)

    @abstractmethod
    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        """Rough offsets (H,) of the predictors, and centered values (N, H) to start the loadings
        from.

        The rows have the weights (N, 1); the loadings start from the covariance of the centered
        values.
        """

    @abstractmethod
    def impute(self, expected: Array, mode: bool) -> Array:
        """Cells (..., columns) from expectations (..., H), or with `mode` the most probable cells.

        A kind that has no expectation is filled by its most probable cell in any case.
        """

    @abstractmethod
    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Cells (N, columns) drawn at predictors (N, H).

        `noise` (N, columns) holds the variances of continuous columns; bounded ones have none, (N,
        0).
        """

    @abstractmethod
    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        """Cells of this kind made of normal numbers (N, columns), NaN where those are: rows to test
        by.
        """


class BoundedColumnModel(ColumnModel):
    """A kind whose quadratic is a bound, which depends on the moments of the predictors."""

    @abstractmethod
    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        """The best quadratic for predictors with these moments (..., N, H).

        They are (..., 1, H) where the rows share them.
        """

    def bound_without_latents(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        """The best quadratic of a model without latents, which need not be good for others."""
        return self.bound(values, observed, mean, variance)

    def bound_near(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        """Nearly the best quadratic, near those that `approximate_bound` came to."""
        return self.bound(values, observed, mean, variance)

    @abstractmethod
    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        """A cheaper quadratic for intermediate iterations, which need not be the best; without its
        constant.

        A kind whose best quadratic takes inner steps leaves in `warm_start` how far it came, and
        goes on from there the next time.
        """

    @abstractmethod
    def log_density(self, values: Array, observed: Array | None, predictors: Array) -> Array:
        """Exact log p(x | a), (..., N), at given predictors (..., N, H)."""

    @abstractmethod
    def expected(self, mean: Array, variance: Array) -> Array:
        """Expectations (..., H) that `impute` takes, over predictors with these moments.

        Of the cell, or of the indicator of each category.
        """


class SharedBoundModel(BoundedColumnModel):
    """A kind whose bound, where rows share the predictors, is that of one trial times their trials.

    Models without factors are then matrix products; other kinds cost them their speed.
    """

    @abstractmethod
    def cell_terms(self, values: Array, observed: Array | None) -> CellTerms:
        """What the rows add to `shared_bound`."""

    @abstractmethod
    def shared_bound(self, mean: Array, variance: Array) -> Quadratic:
        """The best quadratic (..., H) of one trial for predictors (..., H) that all rows share, its
        constant divided among the predictors.
        """


def shrink_to_mean(mean: Array, variance: Array) -> Array:
    """Where a logistic or softmax has about its average over a Gaussian predictor.

    By the scaling of MacKay (1992), (1 + pi v / 8)^(-1/2), exact at v = 0.
    """
    return mean / namespace(mean).sqrt(1 + (np.pi / 8) * variance)


def example_codes(normal: np.ndarray, n_categories: int) -> np.ndarray:
    """Codes 0, 1, ... made of normal numbers; NaN stays."""
    return np.asarray(np.floor(np.abs(normal) * 2) % n_categories)


class LogisticColumnModel(SharedBoundModel):
    """Subclasses say what the trials of a cell are."""

    @abstractmethod
    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        """Successes and trials (N, H) of the cells; none where a cell is missing."""

    def log_base(self, values: Array, observed: Array | None) -> Array | float:
        """What the log density of the known cells of each row has besides, (N,)."""
        return 0.0

    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        _, n_trials = self.trials(values, observed)
        best = self.approximate_bound(values, observed, mean, variance, {})  # which needs no inner steps
        square = mean * mean + variance
        constant = xp.sum(0.5 * best.curvature * square - n_trials * log_two_cosh(xp.sqrt(square)), axis=-1)
        return best._replace(constant=constant + self.log_base(values, observed))

    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        xp = namespace(mean)
        successes, n_trials = self.trials(values, observed)
        xi = xp.sqrt(mean * mean + variance)
        return Quadratic(n_trials * logistic_curvature(xi, xp.tanh(xi / 2)), successes - 0.5 * n_trials, 0.0)

    def cell_terms(self, values: Array, observed: Array | None) -> CellTerms:
        successes, n_trials = self.trials(values, observed)
        return CellTerms(n_trials, successes - 0.5 * n_trials, self.log_base(values, observed))

    def shared_bound(self, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        xi = xp.sqrt(mean * mean + variance)
        curvature = logistic_curvature(xi, xp.tanh(xi / 2))
        return Quadratic(curvature, xp.zeros_like(xi), 0.5 * curvature * xi * xi - log_two_cosh(xi))

    def log_density(self, values: Array, observed: Array | None, predictors: Array) -> Array:
        xp = namespace(predictors)
        successes, n_trials = self.trials(values, observed)
        softplus = xp.clip(predictors, min=0.0) + xp.log1p(xp.exp(-xp.abs(predictors)))
        return xp.sum(successes * predictors - n_trials * softplus, axis=-1) + self.log_base(values, observed)


class Bernoulli(LogisticColumnModel):
    """Binary columns, values 0 and 1: one trial each."""

    kind = "binary"
    is_coded = True
    n_categories = 2

    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        return (values, namespace(values).ones_like(values)) if observed is None else (values * observed, observed)

    def expected(self, mean: Array, variance: Array) -> Array:
        return 0.5 * (1 + namespace(mean).tanh(shrink_to_mean(mean, variance) / 2))

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        prob = (xp.sum(values * observed * weight, axis=0) + 1.0) / (count + 2.0)
        # the derivative p (1 - p) of the logistic carries a step of the predictor to the value
        return xp.log(prob / (1 - prob)), (values - prob) * observed / (prob * (1 - prob))

    def impute(self, expected: Array, mode: bool) -> Array:
        return namespace(expected).astype(expected > 0.5, expected.dtype) if mode else expected

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        prob = to_numpy(self.expected(predictors, np.zeros_like(predictors)))
        return (rng.random(prob.shape) < prob).astype(float)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return example_codes(normal, 2)
