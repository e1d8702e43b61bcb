r"""The kinds of columns, their registry, and the layout of a table by kinds.

A new kind is a class and its name in `COLUMN_MODELS`; nothing else needs to know of it. Its `bound`
is its part of the E-step: the quadratic :math:`k - \tfrac12 \sum_h \kappa_h a_h^2 + \sum_h s_h a_h`
of `columns`.

- `Gaussian` (continuous, one predictor): equality, with :math:`\kappa = 1/\theta`, :math:`s =
  x/\theta`. It needs no bound, so the family takes :math:`\theta` out of the sums.
- `Bernoulli` (binary, one predictor): the Jaakkola-Jordan bound of Langseth & Nielsen (2009), eq.
  5, in which our :math:`\lambda(\xi) = \tanh(\xi/2)/(4\xi)` is minus the paper's: :math:`\kappa =
  2\lambda(\xi)`, :math:`s = t - 1/2`, :math:`k = \lambda\xi^2 - \ln 2\cosh(\xi/2)`, best at
  :math:`\xi^2 = E[a^2]` (their eq. 9 drops w around the mean and takes the prior mean in the cross
  term).
- `Categorical` (one predictor per category): the softmax bound of `blocks.bounds`, with
  :math:`\xi` and :math:`\gamma` optimal for the moments of the predictors. A column with two
  categories needs one log odds, and its bound is tighter. Without latents the predictors of a point
  are known, and the bound is the density itself.
- `NegativeBinomial` (counts 0, 1, 2, ..., one predictor), with a logarithmic link:

  .. math::

    p(x \mid a) = \frac{\Gamma(x + r)}{\Gamma(r)\, x!} \, \sigma(a)^x (1 - \sigma(a))^r ,
    \qquad E[x \mid a] = r e^a , \quad \operatorname{Var}[x \mid a] = \mu + \mu^2 / r .

  A Poisson column has no quadratic bound, since :math:`-e^a` falls faster than any; this one is a
  sum of logistic terms with x successes among :math:`x + r` trials, and a Poisson column for large
  r. The shape r is fixed beforehand. Of what the variance s^2 exceeds the mean :math:`\mu`, half is
  left to the latents: :math:`r = 2\mu^2 / (s^2 - \mu)`. It is at least :math:`\mu / 10` and at most
  :math:`10 \mu`, where the variance is within a tenth of Poisson's: beyond, the bound is loose,
  because its curvature exceeds that of the density ever more (by a factor of two at either limit).
- `Sequential` (ordered levels 0, 1, ..., K - 1, one predictor per step). Level h is left for the
  next one with a probability that is logistic in a predictor of its own (continuation ratios, the
  sequential model of Tutz 1990):

  .. math::

    p(x > h \mid x \ge h, a) = \sigma(a_h) , \qquad
    \ln p(x \mid a) = \sum_{h < x} \ln \sigma(a_h) + [x < K - 1] \ln(1 - \sigma(a_x)) .

  Each step is a trial that only cells at level h or above have made, so the density is a sum of
  logistic terms with :math:`n_h = [x \ge h]` and :math:`y_h = [x > h]`: the thresholds are offsets
  that the M-step learns, and the bound is tighter than that of a softmax. With two levels this is a
  binary column. A model with thresholds on one common predictor would have fewer loadings, but the
  M-step knows no predictors that share theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.arrays.namespace import (
    Array,
    asarray_like,
    log_gamma,
    logsumexp,
    namespace,
    softmax,
    to_numpy,
    transpose,
)
from latentia.engine.rows import MaskedRows
from latentia.families.blocks.bounds import (
    SoftmaxBound,
    approximate_bound,
    softmax_bound,
    softmax_bound_near,
    tighter_bound,
)
from latentia.families.latent_factors.columns import (
    Bernoulli,
    BoundedColumnModel,
    CellTerms,
    ColumnModel,
    LogisticColumnModel,
    Quadratic,
    SharedBoundModel,
    example_codes,
    shrink_to_mean,
)

#: Share of the variance beyond the mean that is left to the latents.
LATENT_SHARE = 0.5

#: Least and largest shape, as multiples of the mean.
MIN_SHAPE, MAX_SHAPE = 0.1, 10.0

#: Logarithm of the largest mean, which float32 holds.
MAX_LOG_MEAN = 60.0


class NegativeBinomial(LogisticColumnModel):
    """Columns of counts; `shapes` says how near they are to Poisson."""

    kind = "count"
    is_count = True
    needs_size = True

    def __init__(self, columns: Sequence[int], shapes: Sequence[float]):
        super().__init__(columns)
        self.shapes = tuple(float(shape) for shape in shapes)

    @classmethod
    def from_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> NegativeBinomial:
        return cls(columns, sizes)

    @classmethod
    def column_size(cls, cells: np.ndarray, counts: np.ndarray | None = None) -> float:
        """The shape of a column."""
        mean = float(np.average(cells, weights=counts)) if cells.size else 0.0
        if mean <= 0:
            return 1.0
        excess = (1 - LATENT_SHARE) * (float(np.average((cells - mean) ** 2, weights=counts)) - mean)
        return mean * min(max(mean / excess, MIN_SHAPE), MAX_SHAPE) if excess > 0 else mean * MAX_SHAPE

    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        n_trials = values + self._shapes(values)
        return (values, n_trials) if observed is None else (values * observed, n_trials * observed)

    def log_base(self, values: Array, observed: Array | None) -> Array:
        xp, shapes = namespace(values), self._shapes(values)
        ways = log_gamma(values + shapes) - log_gamma(shapes + xp.zeros_like(values)) - log_gamma(values + 1.0)
        return xp.sum(ways if observed is None else ways * observed, axis=-1)

    def expected(self, mean: Array, variance: Array) -> Array:
        xp, shapes = namespace(mean), self._shapes(mean)
        return shapes * xp.exp(xp.clip(mean + 0.5 * variance, max=MAX_LOG_MEAN))

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        mean = (xp.sum(values * observed * weight, axis=0) + 0.5) / (count + 1.0)
        return xp.log(mean / self._shapes(values)), (values - mean) * observed / mean

    def impute(self, expected: Array, mode: bool) -> Array:
        xp = namespace(expected)
        return xp.floor(expected * xp.clip(1.0 - 1.0 / self._shapes(expected), min=0.0)) if mode else expected

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rate = rng.standard_gamma(self.shapes, predictors.shape) * np.exp(np.minimum(predictors, MAX_LOG_MEAN))
        return np.asarray(rng.poisson(np.minimum(rate, 1e15)), dtype=float)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return np.asarray(np.floor(np.abs(normal) * 3))

    def _shapes(self, like: Array) -> Array:
        return asarray_like(self.shapes, like)


class Sequential(LogisticColumnModel):
    """Columns of ordered codes 0, 1, ...; `sizes` are their numbers of levels."""

    kind = "ordinal"
    is_coded = True

    def __init__(self, columns: Sequence[int], sizes: Sequence[int]):
        super().__init__(columns)
        self.sizes = tuple(max(2, int(size)) for size in sizes)

    @classmethod
    def from_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> Sequential:
        return cls(columns, [int(size) for size in sizes])

    @property
    def n_predictors(self) -> int:
        return sum(self.sizes) - len(self.sizes)

    def predictor_columns(self) -> list[int]:
        return [self.columns[number] for number in self._numbers()]

    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        xp = namespace(values)
        level = self._per_predictor(values)
        steps = asarray_like([step for size in self.sizes for step in range(size - 1)], values)
        passed, tried = xp.astype(level > steps, values.dtype), xp.astype(level >= steps, values.dtype)
        seen = 1.0 if observed is None else self._per_predictor(observed)
        return passed * seen, tried * seen

    def expected(self, mean: Array, variance: Array) -> Array:
        """Probabilities to be above each level but the last."""
        xp = namespace(mean)
        passes = 0.5 * (1 + xp.tanh(shrink_to_mean(mean, variance) / 2))
        above: list[Array] = []
        for part in self._by_column(passes):
            for step in range(part.shape[-1]):
                above.append(part[..., step] if step == 0 else above[-1] * part[..., step])
        return xp.stack(above, axis=-1)

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        passed, tried = self.trials(values, observed)
        prob = (xp.sum(passed * weight, axis=0) + 1.0) / (xp.sum(tried * weight, axis=0) + 2.0)
        return xp.log(prob / (1 - prob)), (passed - tried * prob) / (prob * (1 - prob))

    def impute(self, expected: Array, mode: bool) -> Array:
        """The most probable levels, whatever the mode: levels have no mean."""
        xp = namespace(expected)
        levels = []
        for above in self._by_column(expected):
            reach = xp.concat([xp.ones_like(above[..., :1]), above], axis=-1)  # at least each level
            stay = reach - xp.concat([above, xp.zeros_like(above[..., :1])], axis=-1)
            levels.append(xp.argmax(stay, axis=-1))
        return xp.astype(xp.stack(levels, axis=-1), expected.dtype)

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        above = self._by_column(self.expected(predictors, np.zeros_like(predictors)))
        draws = rng.random((len(predictors), len(self.columns)))
        levels = [(draws[:, [k]] < to_numpy(part)).sum(axis=1) for k, part in enumerate(above)]
        return np.stack(levels, axis=1).astype(float)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return np.stack([example_codes(normal[:, k], size) for k, size in enumerate(self.sizes)], axis=1)

    def _numbers(self) -> list[int]:
        """The number of the column that each predictor belongs to."""
        return [number for number, size in enumerate(self.sizes) for _ in range(size - 1)]

    def _by_column(self, a: Array) -> list[Array]:
        """The predictors (..., size - 1) of each column."""
        ends = np.cumsum([size - 1 for size in self.sizes]).tolist()
        return [a[..., end - size + 1 : end] for size, end in zip(self.sizes, ends, strict=True)]

    def _per_predictor(self, cells: Array) -> Array:
        """Columns (N, columns) as often as they have predictors (N, H)."""
        xp = namespace(cells)
        return xp.take(cells, asarray_like(self._numbers(), cells, dtype=xp.int64), axis=1)


class TwoCategories(Bernoulli):
    """Categorical columns with two categories: one log odds says it all, and its bound is
    tighter.
    """

    def impute(self, expected: Array, mode: bool) -> Array:
        return super().impute(expected, mode=True)


class Categorical(SharedBoundModel):
    """Columns of codes 0, 1, ...; `sizes` are their numbers of categories.

    Kept in the order of sizes.
    """

    kind = "categorical"
    is_coded = True

    def __init__(self, columns: Sequence[int], sizes: Sequence[int]):
        by_size = sorted(zip(sizes, columns, strict=True), key=lambda pair: pair[0])
        super().__init__([column for _, column in by_size])
        self.sizes = tuple(size for size, _ in by_size)
        #: First predictor of each column.
        self.first = tuple(int(first) for first in np.cumsum((0, *self.sizes))[:-1])

    @classmethod
    def split_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> list[ColumnModel]:
        two = [c for c, size in zip(columns, sizes, strict=True) if size == 2]
        more = [(c, size) for c, size in zip(columns, sizes, strict=True) if size != 2]
        models: list[ColumnModel] = [TwoCategories(two)] if two else []
        if more:
            models.append(cls.from_columns([c for c, _ in more], [size for _, size in more]))
        return models

    @classmethod
    def from_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> Categorical:
        return cls(columns, [int(size) for size in sizes])

    @property
    def n_predictors(self) -> int:
        return sum(self.sizes)

    @property
    def n_redundant_predictors(self) -> int:
        return len(self.columns)  # a softmax stays when all its scores move alike

    def predictor_columns(self) -> list[int]:
        return [c for c, size in zip(self.columns, self.sizes, strict=True) for _ in range(size)]

    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        found = []
        for _, first, count, size in self._groups():
            m, v = _scores(mean, variance, first, count, size)
            found.append((m, v, softmax_bound(m, v)))
        return self._of_scores(values, observed, found)

    def bound_without_latents(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        found = []
        for _, first, count, size in self._groups():
            m, v = _scores(mean, variance, first, count, size)
            found.append((m, v, tighter_bound(m, v)))
        return self._of_scores(values, observed, found)

    def bound_near(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        found = []
        for _, first, count, size in self._groups():
            m, v = _scores(mean, variance, first, count, size)
            found.append((m, v, softmax_bound_near(m, v, warm_start.get(first))))
            warm_start[first] = found[-1][2].center
        return self._of_scores(values, observed, found)

    def _of_scores(
        self, values: Array, observed: Array | None, found: list[tuple[Array, Array, SoftmaxBound]]
    ) -> Quadratic:
        """The quadratic by the moments of the scores of each group of columns and their bounds."""
        xp = namespace(values)
        curvatures, linears = [], []
        constant: Array | float = 0.0
        for (number, _, count, _), (m, v, (value, curvature, linear, _)) in zip(self._groups(), found, strict=True):
            # the bound holds as a quadratic with this constant, whatever the predictors
            at_zero = -value + xp.sum(0.5 * curvature * (m * m + v) - linear * m, axis=-2)
            if observed is not None:
                at_zero = at_zero * transpose(observed[:, number : number + count])
            constant = constant + xp.sum(at_zero, axis=-2)
            curvatures.append(_predictors(curvature))
            linears.append(_predictors(linear))
        return self._quadratic(values, observed, curvatures, linears, constant)

    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        curvatures, linears = [], []
        for _, first, count, size in self._groups():
            m, v = _scores(mean, variance, first, count, size)
            curvature, linear, warm_start[first] = approximate_bound(m, v, warm_start.get(first))
            curvatures.append(_predictors(curvature))
            linears.append(_predictors(linear))
        return self._quadratic(values, observed, curvatures, linears, 0.0)

    def cell_terms(self, values: Array, observed: Array | None) -> CellTerms:
        seen = namespace(values).ones_like(values) if observed is None else observed
        return CellTerms(self._per_predictor(seen), self._indicators(values, observed), 0.0)

    def shared_bound(self, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        one_row = mean[..., None, :], variance[..., None, :]
        parts = []
        for _, first, count, size in self._groups():
            m, v = _scores(*one_row, first, count, size)
            value, curvature, linear, _ = tighter_bound(m, v)
            at_zero = -value + xp.sum(0.5 * curvature * (m * m + v) - linear * m, axis=-2)
            constant = xp.zeros_like(m) + at_zero[..., None, :] / size
            parts.append([_predictors(a)[..., 0, :] for a in (curvature, linear, constant)])
        return Quadratic(*(xp.concat(arrays, axis=-1) for arrays in zip(*parts, strict=True)))

    def log_density(self, values: Array, observed: Array | None, predictors: Array) -> Array:
        xp = namespace(predictors)
        total = xp.sum(self._indicators(values, observed) * predictors, axis=-1)
        for number, scores in enumerate(self._by_column(predictors)):
            log_sum = logsumexp(scores, axis=-1)
            total = total - (log_sum if observed is None else log_sum * observed[:, number])
        return total

    def expected(self, mean: Array, variance: Array) -> Array:
        scores = self._by_column(shrink_to_mean(mean, variance))
        return namespace(mean).concat([softmax(part, axis=-1) for part in scores], axis=-1)

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        hits, seen = self._indicators(values, observed), self._per_predictor(observed)
        sizes = asarray_like([size for size in self.sizes for _ in range(size)], values)
        prob = (xp.sum(hits * weight, axis=0) + 1.0) / (xp.sum(seen * weight, axis=0) + sizes)
        return xp.log(prob), (hits - prob * seen) / xp.clip(prob * (1 - prob), min=0.05)

    def impute(self, expected: Array, mode: bool) -> Array:
        xp = namespace(expected)
        codes = [xp.argmax(probs, axis=-1) for probs in self._by_column(expected)]
        return xp.astype(xp.stack(codes, axis=-1), expected.dtype)

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        cells = np.empty((len(predictors), len(self.columns)))
        for number, probs in enumerate(self._by_column(self.expected(predictors, np.zeros_like(predictors)))):
            cumulative = np.cumsum(to_numpy(probs), axis=1)
            code = (rng.random((len(predictors), 1)) > cumulative / cumulative[:, -1:]).sum(axis=1)
            cells[:, number] = np.minimum(code, self.sizes[number] - 1)
        return cells

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return np.stack([example_codes(normal[:, k], size) for k, size in enumerate(self.sizes)], axis=1)

    def _groups(self) -> list[tuple[int, int, int, int]]:
        """Columns of one size side by side: number of the first, its first predictor, how many,
        their size.
        """
        groups = []
        for size in dict.fromkeys(self.sizes):
            number = self.sizes.index(size)
            groups.append((number, self.first[number], self.sizes.count(size), size))
        return groups

    def _by_column(self, a: Array) -> list[Array]:
        """The predictors (..., size) of each column."""
        return [a[..., first : first + size] for first, size in zip(self.first, self.sizes, strict=True)]

    def _indicators(self, values: Array, observed: Array | None) -> Array:
        """One column per category (N, H), zero where the cell is missing."""
        xp = namespace(values)
        parts = []
        for number, size in enumerate(self.sizes):
            column = slice(number, number + 1)
            codes = asarray_like(list(range(size)), values)[None, :]
            hit = xp.astype(values[:, column] == codes, values.dtype)
            parts.append(hit if observed is None else hit * observed[:, column])
        return xp.concat(parts, axis=-1)

    def _per_predictor(self, cells: Array) -> Array:
        """Columns (N, columns) as often as they have predictors (N, H)."""
        xp = namespace(cells)
        numbers = [number for number, size in enumerate(self.sizes) for _ in range(size)]
        return xp.take(cells, asarray_like(numbers, cells, dtype=xp.int64), axis=1)

    def _quadratic(
        self,
        values: Array,
        observed: Array | None,
        curvatures: list[Array],
        linears: list[Array],
        constant: Array | float,
    ) -> Quadratic:
        """The groups of columns side by side."""
        xp = namespace(values)
        curvature, linear = xp.concat(curvatures, axis=-1), xp.concat(linears, axis=-1)
        if observed is not None:
            seen = self._per_predictor(observed)
            curvature, linear = curvature * seen, linear * seen
        return Quadratic(curvature, linear + self._indicators(values, observed), constant)


def _scores(mean: Array, variance: Array, first: int, count: int, size: int) -> tuple[Array, Array]:
    """Moments (..., N, H) of columns of one size as (..., columns, size, N).

    So laid out that sums over the scores of a column run along the rows.
    """
    xp = namespace(mean)

    def cut(a: Array) -> Array:
        part = xp.reshape(a[..., first : first + count * size], (*a.shape[:-1], count, size))
        moved = xp.moveaxis(part, -3, -1)
        return xp.reshape(xp.reshape(moved, (-1,)), moved.shape)

    m, v = xp.broadcast_arrays(cut(mean), cut(variance))
    return m, v


def _predictors(a: Array) -> Array:
    """(..., columns, size, N) as (..., N, columns * size)."""
    xp = namespace(a)
    return xp.reshape(xp.moveaxis(a, -1, -3), (*a.shape[:-3], a.shape[-1], a.shape[-3] * a.shape[-2]))


class Gaussian(ColumnModel):
    """Continuous columns with normal noise."""

    kind = "continuous"
    is_standardized = True

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        mean = xp.sum(values * observed * weight, axis=0) / xp.where(count > 0, count, xp.ones_like(count))
        return mean, (values - mean) * observed

    def impute(self, expected: Array, mode: bool) -> Array:
        return expected

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(predictors + np.sqrt(noise) * rng.standard_normal(predictors.shape))

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return normal


#: The kinds by the names users give.
COLUMN_MODELS: dict[str, type[ColumnModel]] = {
    model.kind: model for model in (Gaussian, Bernoulli, Categorical, NegativeBinomial, Sequential)
}


class ColumnLayout:
    """The column models of a table; the predictors of the continuous columns come first."""

    def __init__(self, models: Sequence[ColumnModel], n_columns: int | None = None):
        self.gaussian = next((model for model in models if isinstance(model, Gaussian)), Gaussian([]))
        self.bounded = tuple(m for m in models if isinstance(m, BoundedColumnModel) and m.columns)
        self.models: tuple[ColumnModel, ...] = (*([self.gaussian] if self.gaussian.columns else []), *self.bounded)
        self.n_gaussian = self.gaussian.n_predictors
        self.n_bounded = sum(model.n_predictors for model in self.bounded)
        self.n_predictors = self.n_gaussian + self.n_bounded
        self.n_columns = n_columns if n_columns is not None else sum(len(model.columns) for model in self.models)
        self.all_gaussian = not self.n_bounded and self.gaussian.columns == tuple(range(self.n_columns))

    @classmethod
    def from_kinds(cls, kinds: Sequence[str], sizes: Sequence[float]) -> ColumnLayout:
        """Columns of these kinds, by name, and these sizes: numbers of categories of coded ones."""
        models = []
        for name, model in COLUMN_MODELS.items():
            columns = [column for column, kind in enumerate(kinds) if kind == name]
            if columns:
                models.extend(model.split_columns(columns, [sizes[column] for column in columns]))
        return cls(models, len(kinds))

    @classmethod
    def continuous_columns(cls, n_columns: int) -> ColumnLayout:
        """All columns continuous."""
        return cls([Gaussian(range(n_columns))])

    @property
    def n_redundant_predictors(self) -> int:
        """How many predictors could be held at zero without a loss."""
        return sum(model.n_redundant_predictors for model in self.models)

    def predictor_columns(self) -> list[int]:
        """The column that each predictor belongs to."""
        return [column for model in self.models for column in model.predictor_columns()]

    def bounded_slices(self) -> list[tuple[BoundedColumnModel, slice]]:
        """The bounded models with their predictors, counted from the first bounded one."""
        first, slices = 0, []
        for model in self.bounded:
            slices.append((model, slice(first, first + model.n_predictors)))
            first += model.n_predictors
        return slices

    def select_columns(self, model: ColumnModel, rows: MaskedRows) -> tuple[Array, Array | None]:
        """The values of a model's columns, and which are observed."""
        if model.columns == tuple(range(self.n_columns)):
            return rows.values, rows.observed
        xp = namespace(rows.values)
        index = asarray_like(list(model.columns), rows.values, dtype=xp.int64)
        observed = None if rows.observed is None else xp.take(rows.observed, index, axis=1)
        return xp.take(rows.values, index, axis=1), observed

    def merge_columns(self, parts: Sequence[Array], like: Array) -> Array:
        """Cells (..., columns) of each model as rows (..., D); a column of no model is zero."""
        xp = namespace(like)
        columns: list[Array] = [xp.zeros_like(like[..., 0])] * self.n_columns
        for model, cells in zip(self.models, parts, strict=True):
            for number, column in enumerate(model.columns):
                columns[column] = cells[..., number]
        return xp.stack(columns, axis=-1)
