r"""Column kinds of a latent classification model: what a column adds to a row's quadratic in the latents.

A column has one or more *heads* :math:`a_h = w_h^\top z + b_h`. Its kind bounds (or equals) its log density by a quadratic in the heads,

.. math:: \ln p(x_i \mid a) \ge k - \tfrac12 \sum_h \kappa_h a_h^2 + \sum_h s_h a_h ,

so every row has a Gaussian posterior of z, and a missing cell adds nothing.

- `Gaussian` (one head): equality, with :math:`\kappa = 1/\theta`, :math:`s = x/\theta`. It needs no bound, so the family pulls :math:`\theta` out of the sums.
- `Bernoulli` (one head): the Jaakkola-Jordan bound of Langseth & Nielsen (2009), eq. 5, in which our :math:`\lambda(\xi) = \tanh(\xi/2)/(4\xi)` is minus the
  paper's: :math:`\kappa = 2\lambda(\xi)`, :math:`s = t - 1/2`, :math:`k = \lambda\xi^2 - \ln 2\cosh(\xi/2)`, best at
  :math:`\xi^2 = E[a^2]` (their eq. 9 drops w around the mean and takes the prior mean in the cross term).
- `Categorical` (one head per category): the softmax bound of `logsumexp_bound`, with :math:`\xi` and :math:`\gamma` optimal for the moments of the heads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from latentia.engine.contracts import MaskedRows
from latentia.families.building_blocks.logsumexp_bound import (
    approximate_bound,
    log_two_cosh,
    logistic_curvature,
    softmax_bound,
)
from latentia.numerics.array_api import Array, asarray_like, namespace, transpose


class Quadratic(NamedTuple):
    """What some columns add to each row, in their heads."""

    curvature: Array  # (..., N, H) coefficient of -a^2 / 2
    slope: Array  # (..., N, H) coefficient of a
    constant: Any  # (..., N), or 0.0 where it is left out


class ColumnModel(ABC):
    """Columns of one kind; `columns` are their places in the table, `n_heads` their heads in all."""

    def __init__(self, columns: Sequence[int]):
        self.columns = tuple(columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.columns)})"

    @property
    def n_heads(self) -> int:
        return len(self.columns)

    def predictor_columns(self) -> list[int]:
        """The column that each head belongs to."""
        return list(self.columns)

    @abstractmethod
    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        """Rough offsets (H,) of the heads from rows of these weights (N, 1), and centered values (N, H) whose covariance the loadings start from."""


class Gaussian(ColumnModel):
    """Continuous columns with normal noise."""

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        mean = xp.sum(values * observed * weight, axis=0) / xp.where(count > 0, count, xp.ones_like(count))
        return mean, (values - mean) * observed


class BoundedColumnModel(ColumnModel):
    """A kind whose quadratic is a bound, placed by the moments of its heads."""

    @abstractmethod
    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        """The best quadratic for heads with these moments (..., N, H), or (..., 1, H) where the rows share them."""

    @abstractmethod
    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, memory: dict[int, Array]
    ) -> Quadratic:
        """A quadratic that will do on the way to a row's fixed point: its constant is left out, and it need not be the best.

        A kind whose best quadratic takes inner steps leaves in `memory` how far it came, and goes on from there the next time.
        """

    @abstractmethod
    def log_density(self, values: Array, observed: Array | None, heads: Array) -> Array:
        """Exact log p(x | a), (..., N), at given heads (..., N, H)."""

    @abstractmethod
    def expected(self, heads: Array) -> Array:
        """Probabilities (..., H) at given heads: of a one, or of each category."""


class Bernoulli(BoundedColumnModel):
    """Binary columns, values 0 and 1."""

    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        rough = self.approximate_bound(values, observed, mean, variance, {})  # which is the best already
        square = mean * mean + variance
        log_cosh = log_two_cosh(xp.sqrt(square))
        log_cosh = log_cosh if observed is None else log_cosh * observed
        return rough._replace(constant=xp.sum(0.5 * rough.curvature * square - log_cosh, axis=-1))

    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, memory: dict[int, Array]
    ) -> Quadratic:
        xp = namespace(mean)
        xi = xp.sqrt(mean * mean + variance)
        curvature, slope = logistic_curvature(xi, xp.tanh(xi / 2)), values - 0.5
        if observed is not None:
            curvature, slope = curvature * observed, slope * observed
        return Quadratic(curvature, slope, 0.0)

    def log_density(self, values: Array, observed: Array | None, heads: Array) -> Array:
        xp = namespace(heads)
        signed = (2 * values - 1) * heads
        log_g = xp.where(signed > 0, xp.zeros_like(signed), signed) - xp.log1p(xp.exp(-xp.abs(signed)))
        return xp.sum(log_g if observed is None else log_g * observed, axis=-1)

    def expected(self, heads: Array) -> Array:
        xp = namespace(heads)
        return 0.5 * (1 + xp.tanh(heads / 2))

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        share = (xp.sum(values * observed * weight, axis=0) + 1.0) / (count + 2.0)
        # a slope of p (1 - p) carries a step of the head to the value
        return xp.log(share / (1 - share)), (values - share) * observed / (share * (1 - share))


class Categorical(BoundedColumnModel):
    """Columns of category codes 0, 1, ...; `sizes` are their numbers of categories. Kept in the order of their sizes."""

    def __init__(self, columns: Sequence[int], sizes: Sequence[int]):
        by_size = sorted(zip(sizes, columns, strict=True), key=lambda pair: pair[0])
        super().__init__([column for _, column in by_size])
        self.sizes = tuple(size for size, _ in by_size)

    @property
    def n_heads(self) -> int:
        return sum(self.sizes)

    def predictor_columns(self) -> list[int]:
        return [c for c, size in zip(self.columns, self.sizes, strict=True) for _ in range(size)]

    def parts(self) -> list[tuple[int, int, int]]:
        """Place among the kind's columns, first head and size of each column."""
        first, parts = 0, []
        for place, size in enumerate(self.sizes):
            parts.append((place, first, size))
            first += size
        return parts

    def groups(self) -> list[tuple[int, int, int, int]]:
        """Columns of one size side by side: place of the first, its first head, how many columns, their size."""
        groups: list[tuple[int, int, int, int]] = []
        for place, first, size in self.parts():
            if groups and groups[-1][3] == size:
                begin, head, count, _ = groups.pop()
                groups.append((begin, head, count + 1, size))
            else:
                groups.append((place, first, 1, size))
        return groups

    def indicators(self, values: Array, observed: Array | None) -> Array:
        """One column per category (N, H), zero where the cell is missing."""
        xp = namespace(values)
        parts = []
        for place, _, size in self.parts():
            hit = xp.astype(
                values[:, place : place + 1] == asarray_like(list(range(size)), values)[None, :], values.dtype
            )
            parts.append(hit if observed is None else hit * observed[:, place : place + 1])
        return xp.concat(parts, axis=-1)

    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        curvatures, slopes, constant = [], [], 0.0
        for place, first, count, size in self.groups():
            m, v = _scores(mean, variance, first, count, size)
            best = softmax_bound(m, v)
            # the bound holds as a quadratic with this constant, whatever the heads
            least = -best.value + xp.sum(0.5 * best.curvature * (m * m + v) - best.slope * m, axis=-2)
            if observed is not None:
                least = least * transpose(observed[:, place : place + count])
            constant = constant + xp.sum(least, axis=-2)
            curvatures.append(_heads(best.curvature))
            slopes.append(_heads(best.slope))
        return self._quadratic(values, observed, curvatures, slopes, constant)

    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, memory: dict[int, Array]
    ) -> Quadratic:
        curvatures, slopes = [], []
        for _, first, count, size in self.groups():
            m, v = _scores(mean, variance, first, count, size)
            curvature, slope, memory[first] = approximate_bound(m, v, memory.get(first))
            curvatures.append(_heads(curvature))
            slopes.append(_heads(slope))
        return self._quadratic(values, observed, curvatures, slopes, 0.0)

    def _quadratic(
        self, values: Array, observed: Array | None, curvatures: list[Array], slopes: list[Array], constant: Any
    ) -> Quadratic:
        """The groups of columns side by side."""
        xp = namespace(values)
        curvature, slope = xp.concat(curvatures, axis=-1), xp.concat(slopes, axis=-1)
        if observed is not None:
            seen = self._per_head(observed)
            curvature, slope = curvature * seen, slope * seen
        return Quadratic(curvature, slope + self.indicators(values, observed), constant)

    def _per_head(self, cells: Array) -> Array:
        """Columns (N, columns) as often as they have heads (N, H)."""
        places = [place for place, _, size in self.parts() for _ in range(size)]
        return namespace(cells).take(cells, asarray_like(places, cells, dtype=namespace(cells).int64), axis=1)

    def log_density(self, values: Array, observed: Array | None, heads: Array) -> Array:
        xp = namespace(heads)
        hits = self.indicators(values, observed)
        total = xp.sum(hits * heads, axis=-1)
        for place, first, size in self.parts():
            part = heads[..., first : first + size]
            top = xp.max(part, axis=-1)
            log_sum = top + xp.log(xp.sum(xp.exp(part - top[..., None]), axis=-1))
            total = total - (log_sum if observed is None else log_sum * observed[:, place])
        return total

    def expected(self, heads: Array) -> Array:
        xp = namespace(heads)
        probs = []
        for _, first, size in self.parts():
            part = heads[..., first : first + size]
            share = xp.exp(part - xp.max(part, axis=-1, keepdims=True))
            probs.append(share / xp.sum(share, axis=-1, keepdims=True))
        return xp.concat(probs, axis=-1)

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        hits = self.indicators(values, observed)
        wide = self._per_head(observed)
        share = (xp.sum(hits * weight, axis=0) + 1.0) / (
            xp.sum(wide * weight, axis=0) + asarray_like([s for s in self.sizes for _ in range(s)], values)
        )
        return xp.log(share), (hits - share * wide) / xp.clip(share * (1 - share), min=0.05)


def _scores(mean: Array, variance: Array, first: int, count: int, size: int) -> tuple[Array, Array]:
    """Moments (..., N, H) of columns of one size as (..., columns, size, N), so laid out that sums over a column's scores run along the rows."""
    xp = namespace(mean)

    def cut(a: Array) -> Array:
        own = xp.reshape(a[..., first : first + count * size], (*a.shape[:-1], count, size))
        moved = xp.moveaxis(own, -3, -1)
        return xp.reshape(xp.reshape(moved, (-1,)), moved.shape)

    m, v = xp.broadcast_arrays(cut(mean), cut(variance))
    return m, v


def _heads(a: Array) -> Array:
    """(..., columns, size, N) as (..., N, columns * size)."""
    xp = namespace(a)
    return xp.reshape(xp.moveaxis(a, -1, -3), (*a.shape[:-3], a.shape[-1], a.shape[-3] * a.shape[-2]))


class ColumnLayout:
    """The columns of a table by kind; the heads of the continuous columns come first."""

    def __init__(self, kinds: Sequence[ColumnModel], n_columns: int | None = None):
        self.gaussian = next((k for k in kinds if isinstance(k, Gaussian)), Gaussian([]))
        self.bounded = tuple(k for k in kinds if isinstance(k, BoundedColumnModel) and k.columns)
        self.n_gaussian = self.gaussian.n_heads
        self.n_bounded = sum(k.n_heads for k in self.bounded)
        self.n_heads = self.n_gaussian + self.n_bounded
        self.n_columns = n_columns if n_columns is not None else sum(len(k.columns) for k in self.kinds)
        self.continuous = not self.n_bounded and self.gaussian.columns == tuple(range(self.n_columns))

    @classmethod
    def continuous_columns(cls, n_columns: int) -> ColumnLayout:
        """All columns continuous."""
        return cls([Gaussian(range(n_columns))])

    @property
    def kinds(self) -> tuple[ColumnModel, ...]:
        return (self.gaussian, *self.bounded) if self.n_gaussian else self.bounded

    def predictor_columns(self) -> list[int]:
        """The column that each head belongs to."""
        return [column for kind in self.kinds for column in kind.predictor_columns()]

    def cells_of(self, kind: ColumnModel, rows: MaskedRows) -> tuple[Array, Array | None]:
        """The values and the mask of a kind's columns."""
        if kind.columns == tuple(range(self.n_columns)):
            return rows.values, rows.observed
        xp = namespace(rows.values)
        index = asarray_like(list(kind.columns), rows.values, dtype=xp.int64)
        observed = None if rows.observed is None else xp.take(rows.observed, index, axis=1)
        return xp.take(rows.values, index, axis=1), observed
