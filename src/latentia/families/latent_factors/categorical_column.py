r"""Columns of categories: a softmax over one predictor per category.

The bound is that of `logsumexp_bound`, with :math:`\xi` and :math:`\gamma` optimal for the moments
of the predictors. A column with two categories needs one log odds, and its bound is tighter.
Without latents the predictors of a point are known, and the bound is the density itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, logsumexp, namespace, softmax, transpose
from latentia.families.building_blocks.logsumexp_bound import (
    SoftmaxBound,
    approximate_bound,
    softmax_bound,
    softmax_bound_near,
    tighter_bound,
)
from latentia.families.latent_factors.column_contract import (
    CellTerms,
    ColumnModel,
    Quadratic,
    SharedBoundModel,
    example_codes,
    shrink_to_mean,
)
from latentia.families.latent_factors.logistic_column import Bernoulli


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
        return self._bound(values, observed, mean, variance, lambda m, v, _: softmax_bound(m, v))

    def bound_without_latents(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        return self._bound(values, observed, mean, variance, lambda m, v, _: tighter_bound(m, v))

    def bound_near(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        def step(m: Array, v: Array, first: int) -> SoftmaxBound:
            found = softmax_bound_near(m, v, warm_start.get(first))
            warm_start[first] = found.center
            return found

        return self._bound(values, observed, mean, variance, step)

    def _bound(
        self,
        values: Array,
        observed: Array | None,
        mean: Array,
        variance: Array,
        bound_scores: Callable[[Array, Array, int], SoftmaxBound],
    ) -> Quadratic:
        """The quadratic by bounds of the scores of each group, whose first predictor is named."""
        xp = namespace(mean)
        curvatures, linears, constant = [], [], 0.0
        for number, first, count, size in self._groups():
            m, v = _scores(mean, variance, first, count, size)
            value, curvature, linear, _ = bound_scores(m, v, first)
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
            cumulative = np.cumsum(probs, axis=1)
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
        self, values: Array, observed: Array | None, curvatures: list[Array], linears: list[Array], constant: Any
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
