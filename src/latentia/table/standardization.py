r"""From raw rows to rows in standard units: preprocessors, and the moments they are made from.

Dense rows are moved and scaled; sparse ones are scaled only, so that they stay sparse. Columns that
are not normal then may get a power transform. A standardized cell u becomes

.. math:: v = (\psi_\lambda((u - c) / s) - m) / d

with :math:`\psi_\lambda(t) = ((1 + t)^\lambda - 1)/\lambda` for :math:`t \ge 0` and
:math:`-((1 - t)^\mu - 1) / \mu` below. For a column with one long tail :math:`\mu = 2 - \lambda`,
the transform of Yeo & Johnson (2000); for one with two :math:`\mu = \lambda < 1`, which shortens
both. c is the median; a small s makes the transform stronger. As :math:`\lambda, \mu \ge 0`, the
whole line is mapped onto the whole line, so every value that a model draws or expects has an
original. The powers and s are those of the largest likelihood of the known cells under a normal
density of v, the transform's slope included, and a column stays as it is unless that gains more
than :math:`\ln n`, and of :math:`\mu = \lambda` a tenth of a nat a row besides. One cell far from
all others, as a slip or a code such as 99999 is, makes the standard deviation large and all else
next to equal, so s goes down to a tenth of the spread of the middle cells.

What densities owe to the slopes is in `log_det_jacobian`, so they stay densities of the raw rows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, is_sparse, namespace, take_rows, to_numpy
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    MaskedRows,
    MaskMissing,
    TableSource,
    Totals,
    evenly_spaced,
    rows_per_chunk,
)
from latentia.table.frames import TableLike


class ColumnError(ValueError):
    """What is wrong with the values of a column, which is known by its number here."""

    def __init__(self, column: int, problem: str, name: Hashable = None):
        super().__init__(f"X has values in column {column if name is None else repr(name)} {problem}")
        self.column, self.problem = column, problem

    def of_table(self, X: TableLike) -> ColumnError:
        """The same with the name of the column, if the table has names."""
        names = getattr(X, "columns", None)
        return self if names is None else ColumnError(self.column, self.problem, list(names)[self.column])


@dataclass(frozen=True)
class Scale:
    """Divides the columns of dense or sparse rows."""

    scale: np.ndarray  # (D,)

    @property
    def shift(self) -> np.ndarray:
        return np.zeros_like(self.scale)

    @property
    def n_empty_columns(self) -> int:
        return 0

    def inverse_transform(self, values: Array) -> Array:
        return values * self.scale

    inverse_transform_expected = inverse_transform

    def log_det_jacobian(self, rows: MaskedRows) -> Array:
        total = np.log(self.scale).sum()
        return np.full(rows.values.shape[0], total, dtype=self.scale.dtype)

    def prepare(self, X: Array) -> MaskedRows:
        if is_sparse(X):
            return MaskedRows(
                sparse.csr_array(sparse.csr_array(X).multiply(1 / self.scale)).astype(self.scale.dtype), None
            )
        return MaskedRows(asarray_like(X, self.scale) / self.scale, None)


def make_preprocessor(X: Array, weight: np.ndarray | None, standardize: bool) -> Standardizer | Scale:
    """How rows like these are prepared."""
    if is_sparse(X):
        scale = _root_mean_square(X, weight) if standardize else np.ones(X.shape[1])
        return Scale(scale.astype(np.float32 if compute_dtype(X) == np.float32 else np.float64))
    dtype = compute_dtype(X)
    xp = namespace(X)
    if standardize:
        return Standardizer.from_moments(*column_moments(X, weight, dtype))
    nothing = xp.zeros_like(xp.astype(X[0, ...], dtype))
    return Standardizer(nothing, nothing + 1, None)


def _root_mean_square(X: Array, weight: np.ndarray | None) -> np.ndarray:
    """Of each column about zero; one for empty columns."""
    row_weight = np.ones(X.shape[0]) if weight is None else weight
    cells = sparse.csr_array(X)
    square = np.asarray(cells.multiply(cells).T @ row_weight).ravel() / row_weight.sum()
    return np.sqrt(np.where(square > 0, square, 1.0))


#: Below this many ulps of the mean a standard deviation counts as zero.
EPS_MULTIPLE = 10

#: Rows that tell where a column lies.
N_PILOT_ROWS = 1000

#: Sums of squares about a point that is so many standard deviations from the mean have lost digits.
MAX_OFFSET_STDS = 10


class ColumnMoments(NamedTuple):
    """Of the known cells of each column, (D,) each."""

    weight_sum: Array
    mean: Array
    std: Array


@dataclass(frozen=True)
class Standardizer:
    """Moves and scales each column, and masks missing cells."""

    shift: Array  # (D,)
    scale: Array  # (D,)
    empty_columns: Array | None  # (D,) True for columns without any value; None if there are none

    @classmethod
    def from_moments(cls, weight_sum: Array, mean: Array, std: Array, common_scale: bool = False) -> Standardizer:
        """From the moments of the columns; a common scale keeps the proportions of the axes."""
        xp = namespace(mean)
        has_values = weight_sum > 0
        # what is left of a constant column's standard deviation is rounding
        varies = has_values & (std > EPS_MULTIPLE * xp.finfo(mean.dtype).eps * xp.abs(mean))
        scale = xp.where(varies, std, xp.ones_like(std))
        if common_scale and bool(xp.any(varies)):
            std = xp.where(varies, std, xp.zeros_like(std))
            unit = xp.max(std)  # in which squares do not overflow
            n_columns = xp.sum(xp.astype(has_values, mean.dtype))
            scale = xp.zeros_like(std) + unit * xp.sqrt(xp.sum((std / unit) ** 2) / n_columns)
        return cls(mean, scale, None if bool(xp.all(has_values)) else ~has_values)

    def only(self, columns: Sequence[bool]) -> Standardizer:
        """The same for some columns; the others stay as they are."""
        xp = namespace(self.shift)
        chosen = asarray_like(list(columns), self.shift, dtype=xp.bool)
        shift = xp.where(chosen, self.shift, xp.zeros_like(self.shift))
        return Standardizer(shift, xp.where(chosen, self.scale, xp.ones_like(self.scale)), self.empty_columns)

    def log_det_jacobian(self, rows: MaskedRows) -> Array:
        """Log determinant of the scaling of each row's known cells, (N,)."""
        xp = namespace(self.shift)
        log_scale = xp.log(self.scale)
        if rows.observed is None:
            return xp.broadcast_to(xp.sum(log_scale), (rows.values.shape[0],))
        return xp.matmul(rows.observed, log_scale)

    @property
    def n_empty_columns(self) -> int:
        return 0 if self.empty_columns is None else int(to_numpy(self.empty_columns).sum())

    def inverse_transform(self, values: Array) -> Array:
        """Standardized values in the units of the raw rows."""
        return values * self.scale + self.shift

    inverse_transform_expected = inverse_transform

    def prepare(self, X: Array) -> MaskedRows:
        xp = namespace(self.shift)
        X = X.toarray() if is_sparse(X) else X  # rows that are moved do not stay sparse
        with np.errstate(over="ignore"):  # what overflows is clipped below
            # `asarray_like` also converts rows of another namespace or dtype, and memory maps
            values = (asarray_like(X, self.shift) - self.shift) / self.scale
        # min and max propagate NaN, so one comparison detects missing and extreme values
        limit = max_standardized_value(self.shift)
        if self.empty_columns is None and bool((xp.min(values) >= -limit) & (xp.max(values) <= limit)):
            return MaskedRows(values, None)
        missing = xp.isnan(values)
        if self.empty_columns is not None:
            missing = missing | self.empty_columns
        values = xp.clip(xp.where(missing, xp.zeros_like(values), values), min=-limit, max=limit)
        complete = self.empty_columns is None and not bool(xp.any(missing))
        return MaskedRows(values, None if complete else xp.astype(~missing, values.dtype))


def max_standardized_value(like: Array) -> float:
    """The largest standardized value: sums of 1e8 of its squares over a variance of one ulp do not
    overflow.
    """
    limits = namespace(like).finfo(like.dtype)
    return math.sqrt(float(limits.max) * float(limits.eps)) / 1e4


def column_moments(X: Array, weight: np.ndarray | None, dtype: Any) -> ColumnMoments:
    """The moments of the columns of an array."""
    return source_moments(ArraySource(X, np.full(X.shape[0], -1), weight, MaskMissing(dtype)))


def source_moments(rows: TableSource) -> ColumnMoments:
    """Weight, mean and standard deviation of the known cells of each column, in one pass as a rule.

    With a pilot center c inside the column's range and a power of two u near its spread,

        d = (x - c) / u,  S0 = sum w,  S1 = sum w d,  S2 = sum w d^2,
        mean = c + u S1 / S0,  std = u sqrt(S2 / S0 - (S1 / S0)^2),

    so that sums do not cancel wherever the column lies, and squares neither overflow nor vanish.
    Where the pilot rows were no guide to a column, c and u are corrected and there is another pass.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected below
        center, power = _pilot_estimate(rows)
        xp = namespace(center)
        for _ in range(3):
            unit = asarray_like(np.ldexp(1.0, power), center)
            weight_sum, offset, deviation = _moments_about(rows, center, unit)
            _check_weight_sum(weight_sum)
            mean = center + offset * unit
            overflows = ~xp.isfinite(deviation)
            rounding = EPS_MULTIPLE * xp.finfo(mean.dtype).eps * xp.abs(mean)
            recenter = (xp.abs(offset) > MAX_OFFSET_STDS * deviation) & (xp.abs(offset * unit) > rounding) & ~overflows
            if not bool(xp.any(overflows | recenter)):
                break
            center = xp.where(recenter, mean, center)
            power = np.where(to_numpy(recenter), power + _power_of_two(xp.maximum(xp.abs(offset), deviation)), power)
            most = _max_exponent(center)
            power = np.clip(np.where(to_numpy(overflows), power + most // 2, power), -most, most)
        deviation = deviation * unit
    _check_deviation(deviation)
    return ColumnMoments(weight_sum, mean, deviation)


def _pilot_estimate(rows: TableSource) -> tuple[Array, np.ndarray]:
    """A value inside each column's range and the power of two near its range, from the first rows
    with weight.
    """
    first = rows.first_rows(N_PILOT_ROWS).all_rows().rows
    xp = namespace(first.values)
    seen = xp.ones_like(first.values) if first.observed is None else first.observed
    center = xp.sum(first.values, axis=0) / xp.clip(xp.sum(seen, axis=0), min=1.0)
    return center, _power_of_two(xp.max(xp.abs(first.values - center) * seen, axis=0))


def _power_of_two(size: Array) -> np.ndarray:
    """Exponents of the powers of two near these sizes, zero for zero and infinity."""
    return np.clip(np.frexp(to_numpy(size))[1], -_max_exponent(size), _max_exponent(size))


def _max_exponent(like: Array) -> int:
    """The exponent up to which powers of two and their inverses are normal numbers."""
    return int(math.log2(namespace(like).finfo(like.dtype).max)) - 2


def _moments_about(rows: TableSource, center: Array, unit: Array) -> tuple[Array, Array, Array]:
    """Weight, mean and standard deviation of the distances from a center, in some unit."""
    xp = namespace(center)

    def visit(chunk: Chunk) -> Totals:
        values, observed = chunk.rows
        known = xp.ones_like(values) if observed is None else observed
        distance = (values - center) / unit
        if chunk.weight is not None:
            known = known * chunk.weight[:, None]
            # 0 * inf is NaN
            distance = xp.where(known > 0, distance, xp.zeros_like(distance))
        sums = (
            xp.sum(known, axis=0),
            xp.sum(known * distance, axis=0),
            xp.sum(known * distance * distance, axis=0),
        )
        return {"sums": sums}

    weight_sum, first, second = rows.sum_over_chunks(visit, rows_per_chunk(5 * rows.n_features, center))["sums"]
    safe = xp.where(weight_sum > 0, weight_sum, xp.ones_like(weight_sum))
    offset = first / safe
    return weight_sum, offset, xp.sqrt(xp.clip(second / safe - offset * offset, min=0.0))


def _check_weight_sum(weight_sum: Array) -> None:
    xp = namespace(weight_sum)
    if not bool(xp.all(xp.isfinite(weight_sum))):
        raise ValueError(
            f"sample_weight sums to more than {xp.finfo(weight_sum.dtype).max:.0e}, the largest number of "
            f"{weight_sum.dtype}; "
            "allowed are weights whose sum is a number. Divide them by their mean."
        )


def _check_deviation(deviation: Array) -> None:
    """Reject columns whose variance overflows."""
    xp = namespace(deviation)
    limit = math.sqrt(xp.finfo(deviation.dtype).max) / 100
    bad = ~(deviation < limit)
    if bool(xp.any(bad)):
        column = int(xp.argmax(xp.astype(bad, xp.int8)))
        raise ColumnError(
            column,
            f"so far apart that their squares overflow in {deviation.dtype}; "
            f"allowed are columns with a standard deviation below {limit:.0e}. Rescale the column.",
        )


#: Values tried, for every column.
POWERS = [(k / 4, 2 - k / 4) for k in range(9) if k != 4] + [(k / 4, k / 4) for k in range(4)]  # above, below
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

#: What shortens both tails must gain so much more a row: classes of unequal variances have long
#: tails together, too, and are normal as they are.
MIN_GAIN = 0.1

#: Steps by which smaller scales follow, where the middle cells of a column are closer together.
SCALE_STEP, MIN_SCALE_SHARE = 0.1**0.5, 0.1

#: A column in which one value has this share of the known cells stays as it is: no transform makes
#: it normal, and the likelihood would be that of a steep slope at the value.
MAX_ATOM = 0.3

#: Rows that the transform is learned from at most, evenly spaced among those with weight.
MAX_ROWS = 2000


#: Nodes and weights of expectations under a standard normal (Gauss-Hermite).
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
NODE_WEIGHTS /= NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class PowerTransform:
    """A standardizer followed by a power transform of each column; arrays are (D,)."""

    standardizer: Standardizer
    center: Array  # c
    stretch: Array  # s
    power: Array  # lambda, above the center; one leaves a column as it is
    below: Array  # mu
    mean: Array  # m
    deviation: Array  # d
    low: Array  # the least and the largest transformed cell that it was learned from; infinite
    high: Array  # for columns that stay as they are

    @property
    def shift(self) -> Array:
        """The raw value whose transform is zero."""
        return self.inverse_transform(namespace(self.mean).zeros_like(self.mean))

    @property
    def scale(self) -> Array:
        """Raw units per transformed unit where the transform is zero."""
        xp = namespace(self.mean)
        at_zero = self._original(xp.zeros_like(self.mean))
        return xp.exp(-self._log_slope(at_zero)) * self.standardizer.scale

    @property
    def empty_columns(self) -> Array | None:
        return self.standardizer.empty_columns

    @property
    def n_empty_columns(self) -> int:
        return self.standardizer.n_empty_columns

    def prepare(self, X: Array) -> MaskedRows:
        rows = self.standardizer.prepare(X)
        values = (
            power_of((rows.values - self.center) / self.stretch, self.power, self.below) - self.mean
        ) / self.deviation
        limit = max_standardized_value(values)  # a power of a number whose square is finite
        values = namespace(values).clip(values, min=-limit, max=limit)
        return rows._replace(values=values if rows.observed is None else values * rows.observed)

    def inverse_transform(self, values: Array) -> Array:
        return self.standardizer.inverse_transform(self._standardized(values))

    def inverse_transform_expected(self, values: Array) -> Array:
        """The same of expected values: about medians of the raw ones.

        Where a transform is steep, a little beyond the cells that it was learned from lies another
        world: none is expected there.
        """
        return self.inverse_transform(namespace(values).clip(values, min=self.low, max=self.high))

    def expected_standardized(
        self, mean: Array, variance: Array, columns: Sequence[int], observed: Array | None
    ) -> Array:
        """Expected standardized cells (..., N, n) of some columns, whose transforms are normal with
        these moments, none beyond the cells that the transform was learned from.

        Of missing cells alone: those that `observed` (N, D) knows stay at their means. In raw units
        the expectations are what the standardizer makes of them.
        """
        chosen = np.asarray(columns)
        is_missing = np.ones(mean.shape[-2:]) if observed is None else 1.0 - to_numpy(observed)[:, chosen]
        cells = np.flatnonzero(is_missing * (to_numpy(self.power)[chosen] != 1.0))
        xp = namespace(mean)
        shape, n_cells = mean.shape, is_missing.size

        def take(a: Array, index: np.ndarray) -> Array:
            return xp.take(a, asarray_like(index, mean, dtype=xp.int64), axis=-1)

        means = xp.reshape(mean, (*shape[:-2], n_cells))
        variances = xp.reshape(xp.broadcast_to(variance, shape), means.shape)
        center, spread = take(means, cells), xp.sqrt(take(variances, cells))
        fields = (self.center, self.stretch, self.power, self.below, self.mean, self.deviation, self.low, self.high)
        each = PowerTransform(self.standardizer, *(take(a, chosen[cells % chosen.size]) for a in fields))
        expected = xp.zeros_like(center)
        for node, weight in zip(NODES.tolist(), NODE_WEIGHTS.tolist(), strict=True):
            here = xp.clip(center + node * spread, min=each.low, max=each.high)
            expected = expected + weight * each._standardized(here)
        order = np.arange(n_cells)
        order[cells] = n_cells + np.arange(cells.size)
        return xp.reshape(take(xp.concat([means, expected], axis=-1), order), shape)

    def log_det_jacobian(self, rows: MaskedRows) -> Array:
        """Minus the log slope of what was done to each row's known cells, (N,)."""
        xp = namespace(self.mean)
        slopes = self._log_slope(self._original(rows.values))
        slopes = slopes if rows.observed is None else slopes * rows.observed
        return self.standardizer.log_det_jacobian(rows) - xp.sum(slopes, axis=-1)

    def _standardized(self, values: Array) -> Array:
        """u of transformed values."""
        return self._original(values) * self.stretch + self.center

    def _original(self, values: Array) -> Array:
        """(u - c) / s of transformed values."""
        return inverse_power_of(values * self.deviation + self.mean, self.power, self.below)

    def _log_slope(self, t: Array) -> Array:
        """Log dv/du where (u - c) / s = t."""
        xp = namespace(t)
        slope = (_side(t, self.power, self.below) - 1.0) * xp.log1p(xp.abs(t))
        return slope - xp.log(self.stretch * self.deviation)


def power_of(t: Array, above: Array, below: Array) -> Array:
    """The transform of each cell (..., D) by the powers of its column (D,)."""
    xp = namespace(t)
    side = _side(t, above, below)
    size = _expm1_ratio(xp.log1p(xp.abs(t)), side)
    return xp.where(side == 1.0, t, xp.where(t >= 0, size, -size))


def inverse_power_of(v: Array, above: Array, below: Array) -> Array:
    """The cells whose transforms are `v`."""
    xp = namespace(v)
    side = _side(v, above, below)
    flat = side == 0.0
    safe = xp.where(flat, xp.ones_like(side), side)
    log_size = xp.where(flat, xp.abs(v), xp.log1p(safe * xp.abs(v)) / safe)
    limit = 0.5 * float(np.log(float(xp.finfo(v.dtype).max)))
    size = xp.expm1(xp.clip(log_size, max=limit))
    return xp.where(side == 1.0, v, xp.where(v >= 0, size, -size))


def _side(t: Array, above: Array, below: Array) -> Array:
    """The power of each cell: that of its side of zero."""
    xp = namespace(t)
    return xp.where(t >= 0, above + xp.zeros_like(t), below + xp.zeros_like(t))


def _expm1_ratio(log_size: Array, power: Array) -> Array:
    """(exp(power log_size) - 1) / power, and its limit at zero."""
    xp = namespace(log_size)
    flat = power == 0.0
    safe = xp.where(flat, xp.ones_like(power), power)
    return xp.where(flat, log_size, xp.expm1(safe * log_size) / safe)


def learn_power_transform(
    X: Array, weight: np.ndarray | None, standardizer: Standardizer, columns: Sequence[bool]
) -> Standardizer | PowerTransform:
    """The transform of these columns (a mask) that known cells prefer; none, the standardizer."""
    counted = np.arange(X.shape[0]) if weight is None else np.flatnonzero(np.asarray(weight) > 0)
    index = counted[evenly_spaced(counted.size, MAX_ROWS)]
    rows = standardizer.prepare(take_rows(X, index))
    values = to_numpy(rows.values).astype(float)
    observed = np.ones_like(values) if rows.observed is None else to_numpy(rows.observed).astype(float)
    w = observed if weight is None else observed * np.asarray(weight, dtype=float)[index, None]
    values = np.where(w > 0, values, 0.0)  # numbers without weight may be of any size
    n = w.sum(axis=0)
    usable = np.asarray(columns, dtype=bool) & (n > 2) & (_largest_atoms(values, w) < MAX_ATOM)
    center = _weighted_medians(values, w)
    best = _log_likelihood(values, w, np.zeros_like(center), 1.0, 1.0, 1.0) + np.log(np.maximum(n, 2.0))
    stretch, power, below = np.ones_like(center), np.ones_like(center), np.ones_like(center)
    spread = _weighted_medians(np.abs(values - center), w)
    least = np.clip(MIN_SCALE_SHARE * spread, np.finfo(float).eps, SCALES[0])  # what is smaller is rounding
    for s in [*_scales_below(least[usable].min(initial=SCALES[0])), *SCALES]:
        for lam, mu in POWERS:
            value = _log_likelihood(values, w, center, s, lam, mu) - (lam == mu) * MIN_GAIN * n
            better = usable & (s >= least) & (value > best)
            best = np.where(better, value, best)
            stretch = np.where(better, s, stretch)
            power, below = np.where(better, lam, power), np.where(better, mu, below)
    changed = power != 1.0
    if not changed.any():
        return standardizer
    center = np.where(changed, center, 0.0)
    transformed = to_numpy(power_of((values - center) / stretch, power, below))
    mean, variance = _moments(transformed, w)
    mean, deviation = np.where(changed, mean, 0.0), np.where(changed, np.sqrt(variance), 1.0)
    seen = (transformed - mean) / deviation
    low = np.where(changed, np.where(w > 0, seen, np.inf).min(axis=0), -np.inf)
    high = np.where(changed, np.where(w > 0, seen, -np.inf).max(axis=0), np.inf)
    arrays = (asarray_like(a, standardizer.shift) for a in (center, stretch, power, below, mean, deviation, low, high))
    return PowerTransform(standardizer, *arrays)


def _scales_below(least: float) -> list[float]:
    """Scales smaller than the usual ones, none below `least`."""
    n_steps = int(np.log(least / SCALES[0]) / np.log(SCALE_STEP))
    return [SCALES[0] * SCALE_STEP**k for k in range(n_steps, 0, -1)]


def _log_likelihood(
    values: np.ndarray, w: np.ndarray, center: np.ndarray, s: float, lam: float, mu: float
) -> np.ndarray:
    """Of the cells of each column, at the best mean and variance; -inf where there is none."""
    t = (values - center) / s
    above, below = (np.full(t.shape[1], power) for power in (lam, mu))
    slopes = (_side(t, above, below) - 1.0) * np.log1p(np.abs(t)) - np.log(s)
    with np.errstate(over="ignore", invalid="ignore"):  # next to no weight, and a number of any size
        _, variance = _moments(to_numpy(power_of(t, above, below)), w)
    varies = np.isfinite(variance) & (variance > 1e-12)
    value = -0.5 * w.sum(axis=0) * np.log(np.where(varies, variance, 1.0)) + (w * slopes).sum(axis=0)
    return np.where(varies, value, -np.inf)


def _moments(values: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each column."""
    n = np.maximum(w.sum(axis=0), np.finfo(float).tiny)
    mean = (w * values).sum(axis=0) / n
    return mean, (w * (values - mean) ** 2).sum(axis=0) / n


def _largest_atoms(values: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The share of the most frequent value of each column."""
    shares = np.zeros(values.shape[1])
    for column, (cells, weight) in enumerate(zip(values.T, w.T, strict=True)):
        _, group = np.unique(cells, return_inverse=True)
        total = weight.sum()
        shares[column] = np.bincount(group, weight).max() / total if total > 0 else 1.0
    return shares


def _weighted_medians(values: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Of the cells of each column; cells without weight do not count."""
    order = np.argsort(values, axis=0, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(w, order, axis=0), axis=0)
    first = (cumulative >= 0.5 * cumulative[-1:]).argmax(axis=0)
    return np.take_along_axis(values, np.take_along_axis(order, first[None, :], axis=0), axis=0)[0]
